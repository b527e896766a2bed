"""What people read when no answer comes, or half of one: who failed, how, and what to do."""

from __future__ import annotations

import re
from typing import Any

from hearth_gateway import wire

# LiteLLM writes its own classes before what the member said, and its own settings behind it.
_BEFORE = re.compile(r"^(?:litellm\.\w+: )?(?:\w+(?:Error|Exception): )?(?:\w+Exception - )?")
_BEHIND = re.compile(r"\s*(?:LiteLLM: model group|Received Model Group=).*$", re.DOTALL)
_NOBODY = ("Connection error.", "Request timed out.")


def plainly(member: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an error's body as `member`'s own words, without those that LiteLLM puts around."""
    problem = body["error"]
    said = _BEHIND.sub("", _BEFORE.sub("", str(problem.get("message") or ""))).strip()
    if said in _NOBODY:
        said = f"{member} cannot be reached; try again in a moment"
    return {"error": {**problem, "message": said or "the model's server gave no reason"}}


def broken(member: str, problem: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the status and the error of a stream that `member` did not end.

    How a connection broke helps nobody; what a member refuses in the middle does.
    """
    status = wire.status_of(problem)
    if status < 500:
        return status, plainly(member, wire.shaped(problem, status))
    text = f"{member} broke off in the middle of its answer; ask again"
    return 502, wire.error(502, text, "broken_off")
