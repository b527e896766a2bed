"""The four calls of Ollama's API that the puller needs, each with a total deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth_model_puller import PullerError
from hearth_model_puller.wanted import key_of, plain_digest

ANSWER_S = 30.0
STALL_S = 180.0
# Ollama says nothing while it hashes what it downloaded, and a slow disk reads 50 MB/s.
VERIFY_S = 3600.0


@dataclass(frozen=True, slots=True)
class Present:
    """One model on Ollama's disk."""

    id: str
    digest: str | None
    size_bytes: int


@dataclass(slots=True)
class Progress:
    """How far a pull is: bytes of each layer, by digest."""

    completed: dict[str, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    status: str = ""

    def take(self, event: dict[str, Any]) -> bool:
        """Take one event in; return whether the pull got further by it."""
        before = (self.status, self.completed_bytes)
        self.status = str(event.get("status") or "")
        layer = str(event.get("digest") or "")
        if layer:
            self.completed[layer] = int(event.get("completed") or 0)
            self.total[layer] = int(event.get("total") or 0)
        return before != (self.status, self.completed_bytes)

    @property
    def completed_bytes(self) -> int:
        """Return the bytes on disk, of all layers known so far."""
        return sum(self.completed.values())

    @property
    def total_bytes(self) -> int:
        """Return the bytes of all layers known so far."""
        return sum(self.total.values())


def client_for(url: str) -> httpx.AsyncClient:
    """Make a client for one Ollama; proxies of the environment are not for the loopback."""
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=None)  # noqa: S113 - see below


async def present(client: httpx.AsyncClient) -> dict[str, Present]:
    """Return what lies on Ollama's disk, by key; raise PullerError when it does not say."""
    try:
        # httpx bounds each read, not the whole answer; so every call here is bounded as a whole.
        async with asyncio.timeout(ANSWER_S):
            response = await client.get("/api/tags")
        response.raise_for_status()
        entries = response.json().get("models") or ()
        return {key_of(e["name"]): _present(e) for e in entries}
    except TimeoutError as error:
        raise PullerError(f"Ollama does not answer within {ANSWER_S:g} s") from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PullerError(f"Ollama does not answer: {_said(error)}") from error


async def delete(client: httpx.AsyncClient, model_id: str) -> None:
    """Remove one model; one that is not there is fine. Raise PullerError when it stays."""
    try:
        async with asyncio.timeout(ANSWER_S):
            response = await client.request("DELETE", "/api/delete", json={"model": model_id})
    except TimeoutError as error:
        raise PullerError(f"{model_id}: not removed within {ANSWER_S:g} s") from error
    except httpx.HTTPError as error:
        raise PullerError(f"{model_id}: not removed: {_said(error)}") from error
    if not response.is_success and response.status_code != httpx.codes.NOT_FOUND:
        raise PullerError(f"{model_id}: not removed: {_error_in(response.content)}")


async def pull(
    client: httpx.AsyncClient, model_id: str, on_progress: Callable[[Progress], bool]
) -> bool:
    """Pull one model; return False when `on_progress` said to stop, which Ollama can resume from.

    Raise PullerError when it fails or stands still. A download may take hours, so its deadline is
    on standing still: each byte that arrives moves it on, not each event, of which a stalled pull
    sends sixteen a second.
    """
    progress = Progress()
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(STALL_S) as deadline, aclosing(_events(client, model_id)) as got:
            async for event in got:
                if progress.take(event):
                    patience_s = VERIFY_S if progress.status.startswith("verifying") else STALL_S
                    deadline.reschedule(loop.time() + patience_s)
                if not on_progress(progress):
                    return False
    except TimeoutError as error:
        raise PullerError(f"stood still for {STALL_S:g} s ({progress.status})") from error
    except (httpx.HTTPError, ValueError) as error:
        raise PullerError(_said(error)) from error
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


def _present(entry: dict[str, Any]) -> Present:
    return Present(
        id=str(entry["name"]),
        digest=plain_digest(entry.get("digest")),
        size_bytes=int(entry.get("size") or 0),
    )


def _said(error: Exception) -> str:
    text = _one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _error_in(body: bytes) -> str:
    try:
        return _one_line(str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError):
        return _one_line(body.decode("utf-8", "replace")) or "an answer without a reason"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
