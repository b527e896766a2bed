"""The three calls of Ollama's API that the puller needs, each with a deadline, and its progress."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth_model_puller import PullerError
from hearth_model_puller.model_list import hex_digest, key_of

ANSWER_S = 30.0
STALL_S = 180.0
# Ollama sends nothing while it hashes the download, and a slow disk reads 50 MB/s.
VERIFY_S = 3600.0
RATE_WINDOW_S = 20.0


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """One model on Ollama's disk."""

    id: str
    digest: str | None
    size_bytes: int


@dataclass(slots=True)
class PullProgress:
    """The progress of a pull: bytes of each layer, by digest."""

    completed: dict[str, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    status: str = ""

    def update(self, event: dict[str, Any]) -> bool:
        """Apply one event; return whether the pull has advanced."""
        before = (self.status, self.completed_bytes)
        self.status = str(event.get("status") or "")
        layer = str(event.get("digest") or "")
        if layer:
            self.completed[layer] = int(event.get("completed") or 0)
            self.total[layer] = int(event.get("total") or 0)
        return before != (self.status, self.completed_bytes)

    @property
    def completed_bytes(self) -> int:
        """Return the downloaded bytes of all layers known so far."""
        return sum(self.completed.values())

    @property
    def total_bytes(self) -> int:
        """Return the size of all layers known so far."""
        return sum(self.total.values())


class DownloadRate:
    """Bytes per second over a sliding window, from counts that only grow."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, count: int) -> None:
        """Add the current byte count; bytes from before the first count are ignored."""
        now = self._monotonic()
        self._samples.append((now, count))
        while now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()

    def bytes_per_s(self) -> float:
        """Return the rate, or 0 while it is unknown."""
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        return max(0.0, (last - first) / (end - start)) if end > start else 0.0


def client_for(url: str) -> httpx.AsyncClient:
    """Return a client for one Ollama; it ignores proxy variables."""
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=None)  # noqa: S113 - see below


async def list_models(client: httpx.AsyncClient) -> dict[str, InstalledModel]:
    """Return the models on Ollama's disk by key; raise PullerError if Ollama does not answer."""
    try:
        # httpx limits each read, not the whole response, so each call has a deadline of its own.
        async with asyncio.timeout(ANSWER_S):
            response = await client.get("/api/tags")
        response.raise_for_status()
        entries = response.json().get("models") or ()
        return {key_of(e["name"]): _installed(e) for e in entries}
    except TimeoutError as error:
        raise PullerError(f"Ollama does not answer within {ANSWER_S:g} s") from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PullerError(f"Ollama does not answer: {_describe(error)}") from error


async def delete(client: httpx.AsyncClient, model_id: str) -> None:
    """Remove a model if it is there; raise PullerError if that fails."""
    try:
        async with asyncio.timeout(ANSWER_S):
            response = await client.request("DELETE", "/api/delete", json={"model": model_id})
    except TimeoutError as error:
        raise PullerError(f"{model_id}: not removed within {ANSWER_S:g} s") from error
    except httpx.HTTPError as error:
        raise PullerError(f"{model_id}: not removed: {_describe(error)}") from error
    if not response.is_success and response.status_code != httpx.codes.NOT_FOUND:
        raise PullerError(f"{model_id}: not removed: {_error_in(response.content)}")


async def pull(
    client: httpx.AsyncClient, model_id: str, on_progress: Callable[[PullProgress], bool]
) -> bool:
    """Pull one model; return False if `on_progress` stopped it. Ollama can resume it later.

    Raise PullerError if the pull fails or stalls. A download may take hours, so its deadline
    moves with each byte that arrives. Events do not count: a stalled pull still sends sixteen a
    second.
    """
    progress = PullProgress()
    loop = asyncio.get_running_loop()
    events = _events(client, model_id)
    try:
        async with asyncio.timeout(STALL_S) as deadline, aclosing(events):
            async for event in events:
                if progress.update(event):
                    limit_s = VERIFY_S if progress.status.startswith("verifying") else STALL_S
                    deadline.reschedule(loop.time() + limit_s)
                if not on_progress(progress):
                    return False
    except TimeoutError as error:
        raise PullerError(f"stalled for {STALL_S:g} s ({progress.status})") from error
    except (httpx.HTTPError, ValueError) as error:
        raise PullerError(_describe(error)) from error
    if progress.status != "success":
        raise PullerError(f"the pull ended after {progress.status!r}")
    return True


async def _events(client: httpx.AsyncClient, model_id: str) -> AsyncGenerator[dict[str, Any]]:
    request = {"model": model_id, "stream": True}
    async with client.stream("POST", "/api/pull", json=request) as response:
        if not response.is_success:
            raise PullerError(_error_in(await response.aread()))
        async for line in response.aiter_lines():
            event = json.loads(line) if line.strip() else {}
            if "error" in event:
                raise PullerError(_one_line(str(event["error"])))
            yield event


def _installed(entry: dict[str, Any]) -> InstalledModel:
    return InstalledModel(
        id=str(entry["name"]),
        digest=hex_digest(entry.get("digest")),
        size_bytes=int(entry.get("size") or 0),
    )


def _describe(error: Exception) -> str:
    text = _one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _error_in(body: bytes) -> str:
    try:
        return _one_line(str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError):
        return _one_line(body.decode("utf-8", "replace")) or "a response without a reason"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
