"""The parts of an STT run beside latency: voice detection, word error rate, and memory."""

from __future__ import annotations

import asyncio
import itertools
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from hearth.bench.session import FAILURES, MeasuredServer
from hearth.bench.stt.requests import Case, SttSample, transcribe
from hearth.clients import ClientError
from hearth.clients.recordings import BYTES, RATE, Utterance, concatenated, read_audio, utterances
from hearth.clients.stats import NOT_UNDERSTOOD, Spread, error_rate, spread, words_of
from hearth.clients.stt import NoStreamError, StreamOptions, background_noise, connected

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


@dataclass(frozen=True, slots=True)
class Vad:
    """The cost of voice detection: milliseconds for a second of background noise.

    `stream` is the wall-clock time of the whole stream, sent as fast as the server takes it;
    `processor` is the CPU time of the whole server meanwhile, which other load hardly changes;
    `reported` is the server's own figure of the detector alone.
    """

    stream: Spread | None
    processor: float | None
    reported: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class WordErrors:
    """The word error rate; `rate` is None where it was not measured, with the reason.

    `failed` means that the server did not answer, not that its words could not be counted.
    """

    rate: float | None
    texts: int
    words: int
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class MemoryLoop:
    """Endless speech, with samples of the server's memory as (seconds of sound, bytes).

    `audio_s` of the `wanted_s` seconds were spoken; `growth_bytes` is the median of the last
    quarter minus that of the second.
    """

    wanted_s: int
    audio_s: float
    seconds: float
    growth_bytes: int | None
    most_bytes: int | None
    samples: tuple[tuple[float, int], ...]
    failed: int
    errors: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether all of it was spoken."""
        return self.audio_s >= self.wanted_s


@dataclass(slots=True)
class SttServer(MeasuredServer[Case, SttSample]):
    """One STT server; `streams` is False once it has shown that it has none."""

    streams: bool = True
    vad: Vad | None = None
    words: WordErrors | None = None
    loop: MemoryLoop | None = None


async def detect_voice(server: SttServer, seconds: int, runs: int) -> None:
    """Send noise as fast as the server takes it; the server's `vad` is what a second of it took."""
    if server.stopped or not server.streams:
        server.vad = Vad(None, None, None, server.stopped or _NO_STREAMS)
        return
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
                if opened.of("speech_started") or opened.of("final"):
                    raise ClientError("it detected speech in background noise")
    except NoStreamError:
        server.streams, reason = False, _NO_STREAMS
    except ClientError as error:
        times, reason = [], str(error)
    after, processor = await _cpu_time_s(server), None
    if times and before is not None and after is not None:
        processor = (after - before) * 1000 / (seconds * runs)
    await server.sample_memory()
    vad = server.status.get("vad")
    own = vad.get("ms_per_s") if isinstance(vad, Mapping) else None
    reported = float(own) if isinstance(own, int | float) else None
    server.vad = Vad(spread(times), processor, reported, reason)


async def _cpu_time_s(server: SttServer) -> float | None:
    """Return the CPU time of the server until now, where it reports that."""
    try:
        async with asyncio.timeout(_METRICS_S):
            page = await server.client.get("/metrics")
    except (TimeoutError, httpx.HTTPError, OSError):
        return None
    found = _CPU_TIME.search(page.text) if page.is_success else None
    return float(found[1]) if found else None


async def count_word_errors(server: SttServer, folder: Path | None) -> None:
    """Transcribe every recording, and compare the words; the result is the server's `words`.

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
            server.words = WordErrors(None, 0, 0, result.error, failed=True)
            return
        pairs.append((one.text, result.text))
        if len(pairs) == _ENOUGH and (error_rate(pairs) or 0) > NOT_UNDERSTOOD:
            break
    rate, reason = error_rate(pairs), ""
    if rate is None or rate > NOT_UNDERSTOOD:
        rate, reason = None, "hardly a word is right: made-up weights, or another language"
    words = sum(len(words_of(text)) for text, _ in pairs)
    server.words = WordErrors(rate, len(pairs), words, reason)


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
            found.append(Utterance(words, read_audio(path)))
    if not found:
        raise ClientError(f"{folder}: no recording with its text beside it (a.wav and a.txt)")
    return found


def memory_loop(
    wanted_s: int,
    audio_s: float,
    samples: Sequence[tuple[float, int]],
    errors: Sequence[str] = (),
    took_s: float = 0.0,
) -> MemoryLoop:
    """Return the growth of memory; the first quarter may still allocate what the rest needs."""
    sizes = [size for _, size in samples]
    quarter, growth = len(sizes) // _QUARTERS, None
    if quarter:
        before, after = sizes[quarter : 2 * quarter], sizes[-quarter:]
        growth = round(statistics.median(after) - statistics.median(before))
    return MemoryLoop(
        wanted_s=wanted_s,
        audio_s=round(audio_s, 1),
        seconds=round(took_s, 1),
        growth_bytes=growth,
        most_bytes=max(sizes, default=None),
        samples=tuple(samples),
        failed=len(errors),
        errors=tuple(dict.fromkeys(errors)),
    )


async def loop_memory(server: SttServer, seconds: int, tell: Callable[[str], None]) -> None:
    """Speak for so many seconds of sound, as fast as the server takes it, and sample its memory.

    The result is the server's `loop`, also when this is ended early.
    """
    started, audio_s, file = time.perf_counter(), 0.0, concatenated(_FILE_S)
    samples: list[tuple[float, int]] = []
    errors: list[str] = []
    try:
        for number in itertools.count():
            if audio_s >= seconds or len(errors) > FAILURES or server.stopped:
                break
            tell(f"memory, {audio_s / 60:.0f} of {seconds / 60:.0f} minutes")
            try:
                audio_s += await _turn(server, number, file)
                if (size := await server.sample_memory()) is not None:
                    samples.append((round(audio_s, 1), size))
            except (NoStreamError, ClientError) as error:
                errors.append(str(error))
    finally:
        took_s = time.perf_counter() - started
        server.loop = memory_loop(seconds, audio_s, samples, errors, took_s)


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
            before = len(opened.of("final"))
            for at in range(0, len(one.pcm), _CHUNK):
                await opened.send(one.pcm[at : at + _CHUNK])
            await opened.command("flush")
            while len(opened.of("final")) <= before and not opened.done.is_set():
                opened.news.clear()
                await opened.news.wait()
        await opened.end()
    if opened.error:
        raise ClientError(opened.error)
