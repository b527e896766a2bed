"""The language model: one streamed chat completion of the gateway."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth_serving.errors import ServiceError

_FIRST_S, _WHOLE_S = 60.0, 180.0
"""How long the first token and the whole answer may take."""
_MAX_LINE = 1_000_000


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the model and how its answer is spoken: equal ones have equal answers."""

    body: str
    """The request as JSON."""
    voice: str = ""
    """The voice; empty for an answer in text."""
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Words:
    """A part of the answer's text."""

    text: str


@dataclass(slots=True)
class ToolCall:
    """A function that the model wants to be called, once it is complete."""

    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Usage:
    """The tokens of one answer, as far as the gateway reports them."""

    input_tokens: int = 0
    output_tokens: int = 0
    finish: str = ""


@dataclass(slots=True)
class _Reading:
    calls: dict[int, ToolCall] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)


class ChatModel:
    """The gateway's chat completions."""

    def __init__(self, url: str, key: str) -> None:
        """Take the gateway's address and our key for it."""
        limits = httpx.Limits(max_connections=32, max_keepalive_connections=8)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        # Each read is bounded by the deadlines below.
        timeout = httpx.Timeout(None, connect=5)
        self._client = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout, limits=limits, trust_env=False
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def answer(self, question: Question) -> AsyncIterator[Words | ToolCall | Usage]:
        """Yield the answer's words, then its calls, then its usage; raises ServiceError."""
        reading = _Reading()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_FIRST_S) as deadline:
                ends_at = loop.time() + _WHOLE_S
                async with self._client.stream(
                    "POST",
                    "/v1/chat/completions",
                    content=question.body,
                    headers={"content-type": "application/json"},
                ) as response:
                    if response.is_error:
                        raise await _refused(response)
                    async for line in _lines(response):
                        if words := _read_line(line, reading):
                            deadline.reschedule(ends_at)
                            yield Words(words)
        except TimeoutError:
            message = "the language model did not answer in time"
            raise ServiceError(message, status=504, code="model_timeout") from None
        except httpx.HTTPError as error:
            message = f"the language model is not reachable ({type(error).__name__})"
            raise ServiceError(message, status=503, code="model_unavailable") from None
        for call in reading.calls.values():
            yield call
        yield reading.usage


async def _lines(response: httpx.Response) -> AsyncIterator[str]:
    """Yield the data of each event; httpx would keep an endless line."""
    buffer = ""
    async for text in response.aiter_text():
        buffer += text
        *lines, buffer = buffer.split("\n")
        if len(buffer) > _MAX_LINE:
            raise ServiceError("the language model sent an endless line", status=502)
        for line in lines:
            if line.startswith("data:"):
                yield line[5:].strip()


def _read_line(line: str, reading: _Reading) -> str:
    """Read one event; return the words in it."""
    if not line or line == "[DONE]":
        return ""
    try:
        event: dict[str, Any] = json.loads(line)
    except ValueError:
        return ""
    if error := event.get("error"):
        text = error.get("message") if isinstance(error, dict) else None
        raise ServiceError(f"the language model failed: {text or 'no reason given'}", status=502)
    if usage := event.get("usage"):
        reading.usage.input_tokens = int(usage.get("prompt_tokens") or 0)
        reading.usage.output_tokens = int(usage.get("completion_tokens") or 0)
    words = ""
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or {}
        words += delta.get("content") or ""
        reading.usage.finish = choice.get("finish_reason") or reading.usage.finish
        for part in delta.get("tool_calls") or ():
            call = reading.calls.setdefault(int(part.get("index") or 0), ToolCall())
            function = part.get("function") or {}
            call.name += function.get("name") or ""
            call.arguments += function.get("arguments") or ""
    return words


async def _refused(response: httpx.Response) -> ServiceError:
    try:
        error = json.loads(await response.aread())["error"]
        text = str(error["message"])
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {response.status_code}"
    message = f"the language model refused the request: {text}"[:500]
    return ServiceError(message, status=502, code="model_refused")
