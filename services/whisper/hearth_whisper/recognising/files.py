"""One file under way: its thread, piece by piece, and the segments as somebody takes them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import (
    SAMPLE_RATE,
    Options,
    Recogniser,
    Segment,
    Sound,
    Stop,
    Stopped,
    Word,
)
from hearth_whisper.recognising.pieces import PIECE_S, Piece, pieces
from hearth_whisper.recognising.steps import Clock, InTurn, Steps

# As much of what was said as Whisper itself takes along from window to window, in letters.
_TAIL = 400


@dataclass(frozen=True, slots=True)
class _Language:
    """What was found, or asked; None where nobody spoke."""

    code: str | None
    probability: float


class FileText:
    """A file under way: `async for segment in it`; leaving it needs `aclose()`, which stops it.

    `language` and `language_probability` are known as soon as Work.file has returned it; `audio_s`,
    the length of what was read, and `seconds`, what it cost, when the last segment has come.
    """

    def __init__(self, stop: Stop) -> None:
        """Take what ends its work."""
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._told: asyncio.Queue[Segment | _Language | Exception | None] = asyncio.Queue()
        self.language: str | None = None
        self.language_probability = 0.0
        self.audio_s = 0.0
        self.seconds = 0.0

    async def begun(self) -> None:
        """Wait until its language is known; raises what ended it before that."""
        first = await self._told.get()
        if isinstance(first, Exception):
            raise first
        if isinstance(first, _Language):
            self.language, self.language_probability = first.code, first.probability

    async def __aiter__(self) -> AsyncIterator[Segment]:
        """Yield the segments as they come."""
        while (told := await self._told.get()) is not None:
            if isinstance(told, Exception):
                self._told.put_nowait(told)  # whoever asks once more hears it again
                raise told
            if isinstance(told, Segment):
                yield told
        self._told.put_nowait(None)

    async def aclose(self) -> None:
        """Stop it before its next step; a second time does nothing."""
        self._stop.set()

    def tell(self, what: Segment | _Language | Exception | None) -> None:
        """Hand something over from the file's thread."""
        with contextlib.suppress(RuntimeError):  # its event loop has ended, and who waited there
            self._loop.call_soon_threadsafe(self._told.put_nowait, what)


@dataclass(slots=True)
class Job:
    """What the thread of one file needs."""

    sound: Sound
    options: Options
    text: FileText
    stop: Stop
    piece_s: float = PIECE_S

    def close(self) -> None:
        """Let go of what gives the sound; a second time does nothing."""
        close = getattr(self.sound, "close", None)
        if close:
            close()


def run(job: Job, model: Recogniser, place: Steps, room: threading.Lock, clock: Clock) -> float:
    """Recognise a file in this thread and tell everything; returns the seconds it cost."""
    steps = InTurn(place, room, job.stop, clock)
    told = job.text.tell
    try:
        for found in _told(job, model, steps):
            told(found)
        job.text.seconds = steps.spent_s
        told(None)
    except Stopped:
        told(ServiceError("the recognition was stopped", status=503))
    except Exception as error:  # whatever reading or recognising raises is this request's failure
        told(error)
    finally:
        job.close()
    return steps.spent_s


def _told(job: Job, model: Recogniser, steps: InTurn) -> Iterator[Segment | _Language]:
    """Yield the language once, and the segments of all pieces at their place in the whole."""
    options, known, tail = job.options, False, job.options.prompt
    for piece in pieces(job.sound, job.piece_s):
        job.text.audio_s = piece.start_s + piece.samples.size / SAMPLE_RATE
        found = model.recognise(piece.samples, replace(options, prompt=tail), steps)
        if not known and found.language_probability > 0:
            known, options = True, replace(options, language=found.language)
            yield _Language(found.language, found.language_probability)
        for segment in found.segments:
            tail = (tail + segment.text)[-_TAIL:]
            yield _later(segment, piece)
    if not known:
        yield _Language(options.language, 0.0)


def _later(segment: Segment, piece: Piece) -> Segment:
    """Return a segment at its place in the whole."""
    by = piece.start_s

    def at(seconds: float) -> float:
        return round(seconds + by, 3)

    words = tuple(Word(at(w.start_s), at(w.end_s), w.text, w.probability) for w in segment.words)
    return replace(segment, start_s=at(segment.start_s), end_s=at(segment.end_s), words=words)
