"""Transcribe a short clip at once, or a file of any length in chunks that fit into memory."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Event

import numpy as np

from hearth_serving.errors import ServiceError
from hearth_whisper.recognition import (
    SAMPLE_RATE,
    Audio,
    Options,
    Recogniser,
    RecognitionCancelled,
    Samples,
    Segment,
    Word,
)
from hearth_whisper.recognition.queues import Clock, DirectAccess, FileAccess, PriorityLock

# The spectrogram of a chunk is held as a whole: five minutes take 150 MB for a moment.
CHUNK_S = 300
"""The longest audio that is recognised at once."""
_SEARCH_S = 20
_PAUSE_S = 0.2
# As many characters as Whisper itself carries from window to window.
_CONTEXT_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Transcript:
    """A complete text, and its cost."""

    segments: tuple[Segment, ...]
    language: str | None
    """None for audio without speech."""
    language_probability: float
    audio_s: float
    seconds: float
    """The work, without the wait for it."""

    @property
    def text(self) -> str:
        """The text of all segments, without the space before and after."""
        return "".join(segment.text for segment in self.segments).strip()


def transcribe(
    model: Recogniser, samples: Samples, options: Options, cancelled: Event, clock: Clock
) -> Transcript:
    """Transcribe a clip in this thread."""
    started = clock()
    found = model.recognise(samples, options, DirectAccess(cancelled))
    segments = tuple(found.segments)
    return Transcript(
        segments=segments,
        language=found.language,
        language_probability=found.language_probability,
        audio_s=samples.size / SAMPLE_RATE,
        seconds=clock() - started,
    )


@dataclass(frozen=True, slots=True)
class _Language:
    """The detected or given language; None for audio without speech."""

    code: str | None
    probability: float


class FileTranscription:
    """A file being transcribed: `async for segment in it`; `aclose()` cancels it.

    `language` and `language_probability` are known once Scheduler.transcribe_file has returned.
    `audio_s`, the length of what was read, and `seconds`, its cost, are known after the last
    segment.
    """

    def __init__(self, cancelled: Event) -> None:
        """Take the event that cancels the work."""
        self._cancelled = cancelled
        self._loop = asyncio.get_running_loop()
        self._results: asyncio.Queue[Segment | _Language | Exception | None] = asyncio.Queue()
        self.language: str | None = None
        self.language_probability = 0.0
        self.audio_s = 0.0
        self.seconds = 0.0

    async def wait_for_language(self) -> None:
        """Wait until the language is known; raises the error that ended the work before."""
        first = await self._results.get()
        if isinstance(first, Exception):
            raise first
        if isinstance(first, _Language):
            self.language, self.language_probability = first.code, first.probability

    async def __aiter__(self) -> AsyncIterator[Segment]:
        """Yield the segments as they are decoded."""
        while (result := await self._results.get()) is not None:
            if isinstance(result, Exception):
                self._results.put_nowait(result)  # a second iteration raises it as well
                raise result
            if isinstance(result, Segment):
                yield result
        self._results.put_nowait(None)

    async def aclose(self) -> None:
        """Cancel the work before its next step; closing twice is harmless."""
        self._cancelled.set()

    def put(self, result: Segment | _Language | Exception | None) -> None:
        """Hand over a result from the file's thread."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._results.put_nowait, result)


@dataclass(slots=True)
class FileJob:
    """The input and the output of a file's thread."""

    audio: Audio
    options: Options
    output: FileTranscription
    cancelled: Event

    def close(self) -> None:
        """Close the source of the audio; closing twice is harmless."""
        close = getattr(self.audio, "close", None)
        if close:
            close()


def run_file(
    job: FileJob, model: Recogniser, lock: PriorityLock, preparing: threading.Lock, clock: Clock
) -> float:
    """Transcribe a file in this thread; returns the seconds that it cost."""
    access = FileAccess(lock, preparing, job.cancelled, clock)
    put = job.output.put
    try:
        for result in _recognise_chunks(job, model, access):
            put(result)
        job.output.seconds = access.spent_s
        put(None)
    except RecognitionCancelled:
        put(ServiceError("the recognition was stopped", status=503))
    except Exception as error:  # reading or recognising failed: so does this request
        put(error)
    finally:
        job.close()
    return access.spent_s


def _recognise_chunks(
    job: FileJob, model: Recogniser, access: FileAccess
) -> Iterator[Segment | _Language]:
    """Yield the language once, and the segments of all chunks with their times in the file."""
    options, known, context = job.options, False, job.options.prompt
    for chunk in split_audio(job.audio):
        job.output.audio_s = chunk.start_s + chunk.samples.size / SAMPLE_RATE
        found = model.recognise(chunk.samples, replace(options, prompt=context), access)
        if not known and found.language_probability > 0:
            known, options = True, replace(options, language=found.language)
            yield _Language(found.language, found.language_probability)
        for segment in found.segments:
            context = (context + segment.text)[-_CONTEXT_CHARACTERS:]
            yield _shifted(segment, chunk.start_s)
    if not known:
        yield _Language(options.language, 0.0)


def _shifted(segment: Segment, by_s: float) -> Segment:
    def at(seconds: float) -> float:
        return round(seconds + by_s, 3)

    words = tuple(Word(at(w.start_s), at(w.end_s), w.text, w.probability) for w in segment.words)
    return replace(segment, start_s=at(segment.start_s), end_s=at(segment.end_s), words=words)


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A part of a file, and where it starts."""

    start_s: float
    samples: Samples


def split_audio(audio: Audio, max_s: float = CHUNK_S) -> Iterator[AudioChunk]:
    """Yield the audio in chunks of at most `max_s`, cut where it is quietest."""
    size, start = round(max_s * SAMPLE_RATE), 0
    held: list[Samples] = []
    for block in _blocks(audio, size):
        held.append(block)
        while sum(one.size for one in held) > size:
            joined = np.concatenate(held)
            cut = _quietest_position(joined[:size])
            yield AudioChunk(start / SAMPLE_RATE, joined[:cut])
            start += cut
            held = [joined[cut:]]
    rest = np.concatenate(held) if held else np.zeros(0, np.float32)
    if rest.size:
        yield AudioChunk(start / SAMPLE_RATE, rest)


def _blocks(audio: Audio, size: int) -> Iterable[Samples]:
    """Yield blocks of at most one chunk: larger ones would be copied again for each chunk."""
    for block in [audio] if isinstance(audio, np.ndarray) else audio:
        for start in range(0, block.size, size):
            yield block[start : start + size]


def _quietest_position(chunk: Samples) -> int:
    """Return the middle of the quietest 0.2 s among the last seconds."""
    span = round(_PAUSE_S * SAMPLE_RATE)
    searched = min(chunk.size // 2, _SEARCH_S * SAMPLE_RATE) // span * span
    if not searched:
        return int(chunk.size)
    spans = chunk[chunk.size - searched :].reshape(-1, span)
    power = np.square(spans).mean(axis=1)
    # Of equals the last, so that a chunk is long.
    quietest = power.size - 1 - int(np.argmin(power[::-1]))
    return int(chunk.size - searched + quietest * span + span // 2)
