"""One answer of the gateway as a program reads it: who gave it, how it ended, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Heard:
    """What came; `finish` is why the answer ended, `done` whether a stream has its last mark."""

    status: int
    member: str
    models: frozenset[str]
    finish: str
    done: bool
    error: Mapping[str, Any] | None
    began_s: float
    total_s: float
    trouble: str

    @property
    def good(self) -> bool:
        """Whether it is a whole answer."""
        ended = bool(self.finish) and self.done
        return 200 <= self.status < 300 and ended and not self.error and not self.trouble

    def __str__(self) -> str:
        """What came, in a few words."""
        if self.trouble:
            return self.trouble
        said = f": {self.error.get('message')}" if self.error else ""
        ended = f", ended by {self.finish}" if self.finish else ", without an end"
        return f"HTTP {self.status} of {self.member or 'nobody'}{'' if said else ended}{said}"


def heard(answer: Mapping[str, Any]) -> Heard:
    """Read what the room heard."""
    kind = str(answer["headers"].get("content-type", ""))
    streamed = kind.startswith("text/event-stream")
    events, done = _events(answer["body"]) if streamed else (_whole(answer["body"]), True)
    error = next((problem for event in events if (problem := _error(event))), None)
    return Heard(
        status=answer["status"],
        member=str(answer["headers"].get("x-hearth-model", "")),
        models=frozenset(str(event["model"]) for event in events if event.get("model")),
        finish=next((found for event in events if (found := _finish(event))), ""),
        done=done,
        error=error,
        began_s=answer["first_s"] or answer["total_s"],
        total_s=answer["total_s"],
        trouble=str(answer.get("trouble", "")),
    )


def _whole(body: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(body)
    except ValueError:
        return []
    return [content] if isinstance(content, dict) else []


def _events(body: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the events of a stream, and whether it says that it is over."""
    data = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
    events = [event for line in data for event in _whole(line)]
    spoken = any(event.get("type") == "transcript.text.done" for event in events)
    return events, spoken or "[DONE]" in data


def _error(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = event.get("error")
    if not found:
        return None
    return found if isinstance(found, dict) else {"message": str(found)}


def _finish(event: Mapping[str, Any]) -> str:
    """Return why an answer ended, in the words of whichever interface it is."""
    for choice in event.get("choices") or []:
        if choice.get("finish_reason"):
            return str(choice["finish_reason"])
    if event.get("data") and "error" not in event:
        return "numbers"
    if "type" not in event and isinstance(event.get("text"), str):
        return "text"
    return "text" if event.get("type") == "transcript.text.done" else ""
