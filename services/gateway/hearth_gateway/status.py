"""The line above an answer that names the model: for callers that show such lines.

Open WebUI shows a `status` that stands in a stream as a line above the answer, and keeps it with
the chat. No other program expects one, so it comes only where a request's header asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hearth_gateway import wire
from hearth_gateway.call import Scope

HEADER, SHAPE = b"x-hearth-status", b"open-webui"


def asked(scope: Scope) -> bool:
    """Say whether this caller shows such lines."""
    return (HEADER, SHAPE) in scope["headers"]


def line(name: str, member: str, failed: Sequence[str], leaves: bool) -> bytes:
    """Return the event that says who answers for `name`, and after whom; nothing for itself."""
    if member == name:
        return b""
    where = ", outside this house" if leaves else ""
    why = f"; {_listed(failed)} gave no answer" if failed else ""
    said = {"description": f"Answered by {member}{where}{why}", "done": True}
    return wire.event_bytes({"event": {"type": "status", "data": said}})


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
