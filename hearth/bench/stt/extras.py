"""The parts of an STT run beside latency: voice detection, word error rate, and memory."""

from __future__ import annotations

import asyncio
import itertools
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hearth.bench.servers import FAILURES
from hearth.bench.stt.figures import MemoryLoop, Vad, WordErrors
from hearth.bench.stt.ratios import SttServer
from hearth.bench.stt.requests import transcribe
from hearth.clients import ClientError
from hearth.clients.recordings import BYTES, RATE, Utterance, concatenated, read_audio, utterances
from hearth.clients.stats import NOT_UNDERSTOOD, error_rate, spread, words_of
from hearth.clients.stt import NoStreamError, Stream, StreamOptions, background_noise, connected

_VAD_WITHIN_S, _METRICS_S = 120.0, 5.0
# As Prometheus' libraries name it, with or without the program's own name before it.
_CPU_TIME = re.compile(r"^\w*process_cpu_seconds_total ([0-9.e+]+)$", re.MULTILINE)
_NO_STREAMS = "there are no live streams"
_LENGTHS = (3, 10, 30)
# Two texts are enough to see that a model does not know the language.
_ENOUGH = 2
# One request or stream of the memory loop; both take a minute and a half: forty samples an hour.
_FILE_S = 60
_STREAM = (1, 3, 10, 3, 10)
_STREAM_WITHIN_S = 300.0
_QUARTERS = 4
_CHUNK = RATE * BYTES


async def detect_voice(server: SttServer, seconds: int, runs: int) -> Vad:
    """Send noise as fast as the server takes it; return what a second of it took."""
    if server.stopped or not server.streams:
        return Vad(None, None, None, server.stopped or _NO_STREAMS)
    times, reason = [], ""
    before = await _cpu_time_s(server)
    try:
        for _ in range(runs):
            async with connected(server.endpoint, StreamOptions(), _VAD_WITHIN_S) as opened:
                started = time.perf_counter()
                for _ in range(seconds):
                    if opened.done.is_set():
                        break
                    await opened.send(background_noise(1.0))
                await opened.end()
                times.append((time.perf_counter() - started) * 1000 / seconds)
                if opened.error:
                    raise ClientError(opened.error)
                if any(event.kind in ("speech_started", "final") for event in opened.events):
                    raise ClientError("it detected speech in background noise")
    except NoStreamError:
        server.streams, reason = False, _NO_STREAMS
    except ClientError as error:
        times, reason = [], str(error)
    after = await _cpu_time_s(server)
    processor = None
    if times and before is not None and after is not None:
        processor = (after - before) * 1000 / (seconds * runs)
    await server.sample_memory()
    return Vad(spread(times), processor, _reported(server.status), reason)


async def _cpu_time_s(server: SttServer) -> float | None:
    """Return the CPU time of the server until now, where it reports that."""
    try:
        async with asyncio.timeout(_METRICS_S):
            page = await server.client.get("/metrics")
    except (TimeoutError, httpx.HTTPError, OSError):
        return None
    found = _CPU_TIME.search(page.text) if page.is_success else None
    return float(found[1]) if found else None


def _reported(status: Mapping[str, Any]) -> float | None:
    """Return the server's own figure in milliseconds for a second of sound."""
    vad = status.get("vad")
    value = vad.get("ms_per_s") if isinstance(vad, Mapping) else status.get("vad_ms_per_s")
    return float(value) if isinstance(value, int | float) else None


async def count_word_errors(server: SttServer, folder: Path | None) -> WordErrors:
    """Transcribe every recording, and compare the words.

    A server that gets hardly a word right is not measured: its weights are made up, or of another
    language.

    Raises:
        ClientError: a recording cannot be read.
    """
    spoken = own_recordings(folder) if folder else [u for s in _LENGTHS for u in utterances(s)]
    pairs: list[tuple[str, str]] = []
    for one in spoken:
        result = await transcribe(server.client, server.endpoint, one.pcm)
        if result.error:
            return WordErrors(None, 0, 0, result.error, failed=True)
        pairs.append((one.text, result.text))
        if len(pairs) == _ENOUGH and (error_rate(pairs) or 0) > NOT_UNDERSTOOD:
            break
    rate = error_rate(pairs)
    words = sum(len(words_of(text)) for text, _ in pairs)
    if rate is not None and rate <= NOT_UNDERSTOOD:
        return WordErrors(rate, len(pairs), words, "")
    reason = "hardly a word is right: made-up weights, or another language"
    return WordErrors(None, len(pairs), words, reason if pairs else "no recording has words")


def own_recordings(folder: Path) -> list[Utterance]:
    """Return a person's recordings, each with its words beside it in a file that ends in .txt.

    Raises:
        ClientError: there is none, or one cannot be read.
    """
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        text = path.with_suffix(".txt")
        if path != text and text.is_file():
            try:
                words = text.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ClientError(f"{text}: {error}") from error
            found.append(Utterance(path.stem, 0, words, read_audio(path)))
    if not found:
        raise ClientError(f"{folder}: no recording with its words beside it (a.wav and a.txt)")
    return found


@dataclass(slots=True)
class LoopProgress:
    """The memory loop so far, of so many seconds of sound."""

    wanted_s: int
    audio_s: float = 0.0
    samples: list[tuple[float, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def result(self, took_s: float) -> MemoryLoop:
        """Return the growth of memory; the first quarter may still allocate what the rest needs."""
        sizes = [size for _, size in self.samples]
        quarter, growth = len(sizes) // _QUARTERS, None
        if quarter:
            before, after = sizes[quarter : 2 * quarter], sizes[-quarter:]
            growth = round(statistics.median(after) - statistics.median(before))
        return MemoryLoop(
            wanted_s=self.wanted_s,
            audio_s=round(self.audio_s, 1),
            seconds=took_s,
            growth_bytes=growth,
            most_bytes=max(sizes, default=None),
            samples=tuple(self.samples),
            failed=len(self.errors),
            errors=tuple(dict.fromkeys(self.errors)),
        )


async def loop_memory(server: SttServer, seconds: int, progress: Callable[[str], None]) -> None:
    """Speak for so many seconds of sound, as fast as the server takes it, and sample its memory.

    The result is the server's `loop`, also when this is ended early.
    """
    started, so_far = time.perf_counter(), LoopProgress(seconds)
    file = concatenated(_FILE_S)
    try:
        for number in itertools.count():
            over = so_far.audio_s >= seconds or len(so_far.errors) > FAILURES
            if over or server.stopped:
                break
            progress(f"memory, {so_far.audio_s / 60:.0f} of {seconds / 60:.0f} minutes")
            try:
                so_far.audio_s += await _turn(server, number, file)
                size = await server.sample_memory()
            except (NoStreamError, ClientError) as error:
                so_far.errors.append(str(error))
                continue
            if size is not None:
                so_far.samples.append((round(so_far.audio_s, 1), size))
    finally:
        server.loop = so_far.result(round(time.perf_counter() - started, 1))


async def _turn(server: SttServer, number: int, file: bytes) -> float:
    """Send a file or a stream, in turns, and return the seconds of its sound."""
    if number % 2 and server.streams:
        spoken = [utterances(length)[number // 2 % 2] for length in _STREAM]
        await _send_stream(server, spoken)
        return sum(one.seconds for one in spoken)
    result = await transcribe(server.client, server.endpoint, file)
    if result.error:
        raise ClientError(result.error)
    return result.audio_s


async def _send_stream(server: SttServer, spoken: Sequence[Utterance]) -> None:
    """Send utterances through one stream as fast as it takes them, each with a flush."""
    async with connected(server.endpoint, StreamOptions(), _STREAM_WITHIN_S) as opened:
        for one in spoken:
            before = _finals(opened)
            for at in range(0, len(one.pcm), _CHUNK):
                await opened.send(one.pcm[at : at + _CHUNK])
            await opened.command("flush")
            while _finals(opened) <= before and not opened.done.is_set():
                opened.news.clear()
                await opened.news.wait()
        await opened.end()
    if opened.error:
        raise ClientError(opened.error)


def _finals(opened: Stream) -> int:
    return sum(1 for event in opened.events if event.kind == "final")
