"""The errors for clients when no member answers, or an answer is interrupted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hearth_serving.errors import error_content

# Every member would reject these, so no other one is called.
FINAL_STATUS = frozenset({400, 413, 415, 422})
INTERRUPTED = "broken_off"
# LiteLLM writes its own classes before a member's message, and its own settings behind it.
_PREFIX = re.compile(r"^(?:litellm\.\w+: )?(?:\w+(?:Error|Exception): )?(?:\w+Exception - )?")
_SUFFIX = re.compile(r"\s*(?:LiteLLM: model group|Received Model Group=).*$", re.DOTALL)
_UNREACHABLE = ("Connection error.", "Request timed out.")
# How the client library quotes a whole body, and Python's messages about invalid JSON.
_QUOTED = re.compile(r"^Error code: \d+ - .*?'message': (?P<mark>['\"])(?P<message>.*?)(?P=mark)")
_NO_JSON = re.compile(r"codec can't decode|^Expecting \w+|^Extra data|^Invalid control character")
# The error of an alias ends with this advice once, not after each member.
_ADVICE = re.compile(r"; (?:ask again|try again in a moment)$")
_MAX_MESSAGE = 300


class MemberError(Exception):
    """A member gave no answer; `final` when no other one would either."""

    def __init__(self, status: int, body: dict[str, Any], retry_after_s: int | None = None) -> None:
        """Keep the error in OpenAI's shape."""
        super().__init__(f"HTTP {status}")
        self.status, self.body, self.retry_after_s = status, body, retry_after_s
        self.final = status in FINAL_STATUS

    @property
    def code(self) -> str:
        """OpenAI's code of the error, or its status."""
        return str(self.body["error"].get("code") or self.status)


def member_error(status: int, message: str, code: str) -> MemberError:
    """Return an error with a message of our own."""
    return MemberError(status, error_content(status, message, code))


def unusable(member: str) -> MemberError:
    """Return the error of a member that answers, but not with what was requested."""
    return member_error(
        502, f"{member} gave no usable answer; try again in a moment", "bad_gateway"
    )


def interrupted(member: str, problem: dict[str, Any] | None = None) -> MemberError:
    """Return the error of a stream that `member` did not end.

    The reason of a broken connection does not help a client; a member's own error does.
    """
    status = status_of(problem) if problem else 502
    if problem and status < 500:
        return cleaned(member, status, shaped(problem, status))
    message = f"{member} broke off in the middle of its answer; ask again"
    return member_error(502, message, INTERRUPTED)


def cleaned(member: str, status: int, body: dict[str, Any]) -> MemberError:
    """Return an error with `member`'s own message, without the parts that LiteLLM adds."""
    problem = body["error"]
    message = _SUFFIX.sub("", _PREFIX.sub("", str(problem.get("message") or ""))).strip()
    if quoted := _QUOTED.match(message):
        message = quoted["message"]
    if message in _UNREACHABLE:
        message = f"{member} cannot be reached; try again in a moment"
    elif _NO_JSON.search(message):
        message = f"{member} gave no usable answer; try again in a moment"
    message = message or "the model's server gave no reason"
    return MemberError(status, {"error": {**problem, "message": message}})


def no_answer(name: str, failures: Sequence[tuple[str, MemberError]]) -> MemberError:
    """Return the one error for a request that no member of `name` answered.

    A model that was requested by its own name keeps its own error. The error of an alias names
    each member. The caller did nothing wrong, so it is 429 when all members returned that, and
    otherwise a server's error.
    """
    retry_after_s = failures[-1][1].retry_after_s
    if [member for member, _ in failures] == [name]:
        error = failures[0][1]
        return MemberError(error.status, error.body, retry_after_s)
    statuses = {error.status for _, error in failures}
    status = statuses.pop() if len(statuses) == 1 else 502
    status = status if status == 429 or status >= 500 else 502
    codes = {str(error.body["error"].get("code")) for _, error in failures}
    code = codes.pop() if len(codes) == 1 else "no_answer"
    reasons = ", ".join(_reason(member, error) for member, error in failures)
    message = f"{name} has no answer now: {reasons}; try again in a moment"
    return MemberError(status, error_content(status, message, code), retry_after_s)


def _reason(member: str, error: MemberError) -> str:
    """Return the member, and its message in brackets."""
    message = str(error.body["error"].get("message") or f"HTTP {error.status}")
    message = _ADVICE.sub("", message.removeprefix(f"{member} "))
    return f"{member} ({message[:_MAX_MESSAGE]})"


def status_of(problem: dict[str, Any]) -> int:
    """Return the status that an error names, 502 when it names none."""
    code = str(problem.get("code", ""))
    return int(code) if code.isdigit() and 400 <= int(code) < 600 else 502


def body_of(content: bytes, status: int) -> dict[str, Any]:
    """Return a member's error in OpenAI's shape, from the body of its response."""
    try:
        read = json.loads(content)
        if isinstance(read["error"], dict):
            return shaped(read["error"], status)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return error_content(status or 502, "the model's server gave no usable answer", "bad_gateway")


def shaped(problem: dict[str, Any], status: int) -> dict[str, Any]:
    """Return an error in OpenAI's shape; LiteLLM leaves parts of it empty."""
    known = error_content(status, "the model's server gave no reason", str(status))["error"]
    return {"error": known | {key: value for key, value in problem.items() if value is not None}}
