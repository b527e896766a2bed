"""Whether what a speech server says with a 200 is a text, and whether a stream of it is whole."""

from __future__ import annotations

import json
from typing import Any

from hearth_gateway import wire, words
from hearth_gateway.call import Refused

# One event with the words of a day; a longer one is passed on unread.
_EVENT_BYTES = 1024 * 1024


def unusable(member: str) -> Refused:
    """Return the refusal of a member that answers, but not what was asked."""
    text = f"{member} gave no usable answer; try again in a moment"
    return Refused(502, wire.error(502, text, "bad_gateway"))


def check_whole(member: str, body: bytes, kind: str, plain: bool) -> None:
    """Check a whole answer: JSON has a text and no error, and plain words are no page of a proxy.

    Raises:
        Refused: it is no text, so the next member may be asked.
    """
    content = _json(body)
    if isinstance(content, dict) and content.get("error"):
        error = content["error"]
        problem = error if isinstance(error, dict) else {"message": str(error)}
        shaped = wire.shaped(problem, 502)
        raise Refused(wire.status_of(problem), words.plainly(member, shaped))
    if plain and not kind.startswith("text/html") and _reads(body):
        return
    if not (isinstance(content, dict) and isinstance(content.get("text"), str)):
        raise unusable(member)


class Ending:
    """Sees a stream go by, and knows whether its server has ended it."""

    def __init__(self, member: str) -> None:
        """Watch the stream of `member`."""
        self._member = member
        self._events = wire.Events(_EVENT_BYTES)
        self._open = False

    def see(self, piece: bytes) -> None:
        """Read what goes by: a server that names its pieces names the end, too."""
        for event in self._events.feed(piece):
            kind = str(event.get("type", "")) if isinstance(event, dict) else ""
            if kind.endswith(".delta"):
                self._open = True
            elif kind.endswith(".done") or kind == "error":
                self._open = False

    def check(self) -> None:
        """Raise `Refused` for a stream that ended in its middle."""
        if self._open:
            text = f"{self._member} broke off in the middle of its answer; ask again"
            raise Refused(502, wire.error(502, text, "broken_off"))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _reads(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False
