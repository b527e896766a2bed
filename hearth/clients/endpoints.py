"""The ways to a model: straight to Ollama, or by the gateway."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth.bench import BenchError
from hearth.clients.token_stream import Dialect, Reading, Sample

_PATHS: dict[Dialect, str] = {"openai": "/v1/chat/completions", "ollama": "/api/chat"}

Measure = Callable[[str, int], Awaitable[Sample]]
"""Asks a prompt for at most so many tokens and measures the answer; never raises."""
JsonCall = Callable[[str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]]
"""Calls Ollama's API: (path, body, or None for GET) -> its answer. Raises BenchError."""


@dataclass(frozen=True, slots=True)
class Way:
    """How one model is asked: base URL, wire form, model name, key, and a total deadline."""

    name: str
    url: str
    dialect: Dialect
    model: str
    key: str | None = field(default=None, repr=False)
    call_s: float = 120.0

    def body(self, prompt: str, max_tokens: int) -> dict[str, Any]:
        """Return the request; the same settings in both wire forms."""
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "stream": True,
        }
        if self.dialect == "ollama":
            return asked | {"options": {"num_predict": max_tokens, "temperature": 0}}
        return asked | {
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream_options": {"include_usage": True},
        }


def by_url(
    client: httpx.AsyncClient, way: Way, clock: Callable[[], float] = time.perf_counter
) -> Measure:
    """Return what measures a way over one kept-alive client."""

    async def measure(prompt: str, max_tokens: int) -> Sample:
        return await measure_call(client, way, prompt, max_tokens, clock)

    return measure


async def measure_call(
    client: httpx.AsyncClient,
    way: Way,
    prompt: str,
    max_tokens: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Sample:
    """Measure one streamed answer within the way's total deadline; a failure is in `error`."""
    reading = Reading(way.dialect)
    headers = {"Authorization": f"Bearer {way.key}"} if way.key else {}
    url = way.url.rstrip("/") + _PATHS[way.dialect]
    start = clock()
    try:
        # httpx bounds each read; an answer that drips would outlive any of its timeouts.
        async with (
            asyncio.timeout(way.call_s),
            client.stream(
                "POST", url, json=way.body(prompt, max_tokens), headers=headers, timeout=None
            ) as response,
        ):
            if not response.is_success:
                said = (await response.aread()).decode("utf-8", "replace")
                reading.error = f"HTTP {response.status_code}: {' '.join(said.split())[:200]}"
            else:
                async for line in response.aiter_lines():
                    reading.take(clock() - start, line)
    except TimeoutError:
        reading.error = f"no whole answer within {way.call_s:g} s"
    except httpx.HTTPError as error:
        reading.error = f"{type(error).__name__}: {error}"
    return reading.sample(way.name, clock() - start)


def json_by_url(client: httpx.AsyncClient, url: str, call_s: float = 300.0) -> JsonCall:
    """Return what calls Ollama's API at a URL."""

    async def call(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(call_s):
                method = "GET" if body is None else "POST"
                response = await client.request(method, url + path, json=body, timeout=None)
        except TimeoutError as error:
            raise BenchError(f"{url}{path}: no answer within {call_s:g} s") from error
        except httpx.HTTPError as error:
            raise BenchError(f"{url}{path}: {type(error).__name__}: {error}") from error
        return _json_of(path, response.status_code, response.text)

    return call


def _json_of(path: str, status: int, text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    said = " ".join(text.split())[:200]
    if status >= 400 or not isinstance(answer, dict):
        raise BenchError(f"Ollama's {path} answered HTTP {status}: {said}")
    return answer
