"""What people read when no answer comes, or half of one: who failed, how, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hearth_gateway import wire

# LiteLLM writes its own classes before what the member said, and its own settings behind it.
_BEFORE = re.compile(r"^(?:litellm\.\w+: )?(?:\w+(?:Error|Exception): )?(?:\w+Exception - )?")
_BEHIND = re.compile(r"\s*(?:LiteLLM: model group|Received Model Group=).*$", re.DOTALL)
_NOBODY = ("Connection error.", "Request timed out.")
# The client library's way to quote a whole body, and Python's words on what is no JSON at all.
_QUOTED = re.compile(r"^Error code: \d+ - .*?'message': (?P<mark>['\"])(?P<said>.*?)(?P=mark)")
_NO_JSON = re.compile(r"codec can't decode|^Expecting \w+|^Extra data|^Invalid control character")
# What one sentence says for all members need not stand behind each of them.
_AGAIN = re.compile(r"; (?:ask again|try again in a moment)$")
_MOST_SIGNS = 300


def plainly(member: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an error's body as `member`'s own words, without those that LiteLLM puts around."""
    problem = body["error"]
    said = _BEHIND.sub("", _BEFORE.sub("", str(problem.get("message") or ""))).strip()
    if quoted := _QUOTED.match(said):
        said = quoted["said"]
    if said in _NOBODY:
        said = f"{member} cannot be reached; try again in a moment"
    elif _NO_JSON.search(said):
        said = f"{member} gave no usable answer; try again in a moment"
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


@dataclass(frozen=True, slots=True)
class Failure:
    """How one member gave no answer."""

    member: str
    status: int
    body: dict[str, Any]

    def __str__(self) -> str:
        """The member, and its words in brackets."""
        said = str(self.body["error"].get("message") or f"HTTP {self.status}")
        said = _AGAIN.sub("", said.removeprefix(f"{self.member} "))
        return f"{self.member} ({said[:_MOST_SIGNS]})"


def nobody(name: str, failures: Sequence[Failure]) -> tuple[int, dict[str, Any]]:
    """Return the status and the one error for a request that no member of `name` answered.

    A model that was asked by its own name is heard in its own words. Of an alias each member is
    named; what it refused is none of the caller's doing, so it is 429 when all said so, and else
    a server's error.
    """
    if [failure.member for failure in failures] == [name]:
        return failures[0].status, failures[0].body
    said = {failure.status for failure in failures}
    status = said.pop() if len(said) == 1 else 502
    status = status if status == 429 or status >= 500 else 502
    codes = {str(failure.body["error"].get("code")) for failure in failures}
    code = codes.pop() if len(codes) == 1 else "no_answer"
    text = f"{name} has no answer now: {', '.join(map(str, failures))}; try again in a moment"
    return status, wire.error(status, text, code)
