"""What a quiet room costs a server: it must listen to all of it, and there is nothing to write."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any

import httpx

from hearth.bench.stt.report.figures import Vad
from hearth.bench.stt.target import Target
from hearth.clients import ClientError
from hearth.clients.stats import spread
from hearth.clients.stt import NoStreamError, Stream, StreamOptions, background_noise, connected

_WITHIN_S, _ASK_S = 120.0, 5.0
# As Prometheus' libraries name it, with or without the program's own name before it.
_PROCESSOR = re.compile(r"^\w*process_cpu_seconds_total ([0-9.e+]+)$", re.MULTILINE)


async def quiet(target: Target, seconds: int, runs: int) -> Vad:
    """Send a quiet room as fast as the server takes it; return what a second of it took."""
    if target.stopped or not target.socket:
        return Vad(None, None, None, target.stopped or "there is no live socket")
    taken, why = [], ""
    before = await _processor_s(target)
    try:
        for _ in range(runs):
            async with connected(target.server, StreamOptions(), _WITHIN_S) as opened:
                started = time.perf_counter()
                await _hear(opened, seconds)
                taken.append((time.perf_counter() - started) * 1000 / seconds)
                if opened.error:
                    raise ClientError(opened.error)
                if any(event.kind in ("speech_started", "final") for event in opened.events):
                    raise ClientError("it heard speech in a quiet room")
    except NoStreamError:
        target.socket, why = False, "there is no live socket"
    except ClientError as error:
        taken, why = [], str(error)
    after = await _processor_s(target)
    processor = None
    if taken and before is not None and after is not None:
        processor = (after - before) * 1000 / (seconds * runs)
    await target.weigh()
    return Vad(spread(taken), processor, said(target.status), why)


async def _processor_s(target: Target) -> float | None:
    """Return the processor's time that the server took until now, where it says that."""
    try:
        async with asyncio.timeout(_ASK_S):
            page = await target.client.get("/metrics")
    except (TimeoutError, httpx.HTTPError, OSError):
        return None
    found = _PROCESSOR.search(page.text) if page.is_success else None
    return float(found[1]) if found else None


async def _hear(opened: Stream, seconds: int) -> None:
    chunk = background_noise(1.0)
    for _ in range(seconds):
        if opened.done.is_set():
            break
        await opened.send(chunk)
    await opened.end()


def said(status: Mapping[str, Any]) -> float | None:
    """Return the milliseconds for a second of sound that a server says itself."""
    vad = status.get("vad")
    value = vad.get("ms_per_s") if isinstance(vad, Mapping) else status.get("vad_ms_per_s")
    return float(value) if isinstance(value, int | float) else None
