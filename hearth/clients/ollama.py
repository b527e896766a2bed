"""Ollama's own interface for chats, whose last event counts what the model has read and written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from hearth.clients.llm import Reply, read_streamed

PATH = "/api/chat"


@dataclass(frozen=True, slots=True)
class Counters:
    """What Ollama counted of one answer; the tokens of a prompt are those that it had not cached.

    Times in s; a count or time that it does not report is 0.
    """

    load_s: float = 0.0
    prompt_tokens: int = 0
    prompt_s: float = 0.0
    tokens: int = 0
    generate_s: float = 0.0

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """How fast it read the prompt; None without a count."""
        return self.prompt_tokens / self.prompt_s if self.prompt_s and self.prompt_tokens else None

    @property
    def tokens_per_s(self) -> float | None:
        """How fast it generated, as `ollama run --verbose` prints it; None without a count."""
        return self.tokens / self.generate_s if self.generate_s and self.tokens else None


async def ask_ollama(
    client: httpx.AsyncClient,
    url: str,
    body: Mapping[str, Any],
    within_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Reply, Counters]:
    """Send one chat request and read its streamed answer; a failure is the reply's `error`."""
    counters = Counters()

    def add_line(reply: Reply, line: str, at_s: float) -> None:
        nonlocal counters
        counters = _add_line(reply, line, at_s) or counters

    request = client.stream("POST", url.rstrip("/") + PATH, json=body, timeout=None)
    return await read_streamed(request, within_s, add_line, clock), counters


def _add_line(reply: Reply, line: str, at_s: float) -> Counters | None:
    """Add one event to a reply; return the counters of the last one."""
    if not line.strip():
        return None
    try:
        event = json.loads(line)
        reply.add(_as_openai(event, len(reply.calls)), at_s)
        reply.done = reply.done or bool(event.get("done"))
        return _counters(event) if event.get("done") else None
    except (ValueError, AttributeError, TypeError, KeyError):
        reply.error = f"not an answer: {line[:100]}"
        return None


def _as_openai(event: Mapping[str, Any], calls: int) -> dict[str, Any]:
    """Return an event as OpenAI would send it; a call arrives whole here."""
    if event.get("error"):
        return {"error": event["error"]}
    message = event.get("message") or {}
    found = [
        {
            "index": calls + number,
            "function": {
                "name": call["function"]["name"],
                "arguments": json.dumps(call["function"].get("arguments") or {}),
            },
        }
        for number, call in enumerate(message.get("tool_calls") or ())
    ]
    delta = {
        "content": message.get("content"),
        "reasoning": message.get("thinking"),
        "tool_calls": found,
    }
    choice = {"delta": delta, "finish_reason": event.get("done_reason")}
    return {"model": event.get("model"), "choices": [choice]}


def _counters(event: Mapping[str, Any]) -> Counters:
    def seconds(name: str) -> float:
        return max(0, int(event.get(name) or 0)) / 1e9

    read = int(event.get("prompt_eval_count") or 0)
    return Counters(
        load_s=seconds("load_duration"),
        # The count includes cached tokens, which cost nothing.
        prompt_tokens=max(0, read - int(event.get("prompt_eval_cached_count") or 0)),
        prompt_s=seconds("prompt_eval_duration"),
        tokens=max(0, int(event.get("eval_count") or 0)),
        generate_s=seconds("eval_duration"),
    )
