"""Reads a streamed answer, line by line as it arrived, in either of the two wire forms."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Dialect = Literal["openai", "ollama"]
# The least time between first and last token that a speed is read off: one gulp takes far less.
SHORTEST_S = 0.002


@dataclass(frozen=True, slots=True)
class Sample:
    """One streamed answer: times in ms since the request was sent; `error` is empty when it came.

    `tokens_per_s` is of the generated tokens after the first, None when that cannot be said.
    """

    way: str
    first_ms: float | None
    total_ms: float
    tokens: int
    tokens_per_s: float | None
    answered_by: str | None
    error: str = ""


@dataclass(slots=True)
class Reading:
    """What is known of one streamed answer so far."""

    dialect: Dialect
    first_s: float | None = None
    last_s: float = 0.0
    pieces: int = 0
    tokens: int | None = None
    answered_by: str | None = None
    finished: bool = False
    error: str = ""

    def take(self, at_s: float, line: str) -> None:
        """Take in one line and the time of its arrival."""
        text = line.strip()
        if self.dialect == "openai":
            if not text.startswith("data:"):
                return
            text = text.removeprefix("data:").strip()
            if text == "[DONE]":
                self.finished = True
                return
        if not text:
            return
        try:
            event = json.loads(text)
            if event.get("error"):
                self.error = _said(event["error"])
                return
            piece = self._openai(event) if self.dialect == "openai" else self._ollama(event)
        except (ValueError, AttributeError, TypeError, KeyError, IndexError):
            self.error = f"not an answer: {text[:100]}"
            return
        self.answered_by = event.get("model") or self.answered_by
        if piece:
            self.pieces += 1
            self.last_s = at_s
            self.first_s = at_s if self.first_s is None else self.first_s

    def sample(self, way: str, total_s: float) -> Sample:
        """Return the answer's figures when nothing more comes."""
        error = self.error
        if not error and not self.finished:
            error = "the stream ended in its middle"
        if not error and self.first_s is None:
            error = "an answer without a single token"
        tokens = self.tokens if self.tokens is not None else self.pieces
        speed = None
        # Tokens that arrive in one gulp say how fast they were read, not how fast they were made.
        if self.first_s is not None and self.last_s - self.first_s >= SHORTEST_S:
            speed = (tokens - 1) / (self.last_s - self.first_s)
        first_ms = None if self.first_s is None else self.first_s * 1000
        return Sample(way, first_ms, total_s * 1000, tokens, speed, self.answered_by, error)

    def _openai(self, event: dict[str, Any]) -> str:
        usage = event.get("usage") or {}
        if usage.get("completion_tokens") is not None:
            self.tokens = int(usage["completion_tokens"])
        choices = event.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        # A model that thinks first sends its thoughts as tokens too; they count on both ways.
        return str(
            delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or ""
        )

    def _ollama(self, event: dict[str, Any]) -> str:
        if event.get("done"):
            self.finished = True
            self.tokens = int(event.get("eval_count") or 0) or None
        message = event.get("message") or {}
        return str(message.get("content") or message.get("thinking") or "")


def _said(error: Any) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(text).split())[:200]
