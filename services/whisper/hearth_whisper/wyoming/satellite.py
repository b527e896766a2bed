"""One satellite: what it says is recorded until it stops, and answered with the text."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from wyoming.asr import Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.ping import Pong

from hearth_serving.answers import BROKEN, outcome_of, unforeseen
from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Segment, Stop
from hearth_whisper.recognising.work import FileText, Recognised
from hearth_whisper.wyoming.asked import read_transcribe
from hearth_whisper.wyoming.info import info_of
from hearth_whisper.wyoming.limits import SatelliteLimits
from hearth_whisper.wyoming.recording import Recording
from hearth_whisper.wyoming.wire import Left, Wire

log = logging.getLogger(__name__)

T = TypeVar("T")

# What Whisper hears at once; a longer recording is a file, which lets others go before.
_WINDOW_S = 30.0


class Listens(Protocol):
    """What a satellite needs of recognising.work.Work."""

    async def file(self, sound: Samples, options: Options) -> FileText:
        """Begin a long recording."""
        ...

    async def final(self, samples: Samples, options: Options, stop: Stop) -> Recognised:
        """Recognise a short one before any long one goes on."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say which model it is, and its languages."""
        ...


@dataclass(slots=True)
class Satellite:
    """A conversation with whoever is at the other end of `wire`."""

    work: Listens
    wire: Wire
    limits: SatelliteLimits
    ended: Callable[[str], None] = lambda _: None
    """Is told how each recording ended, in the words of the metrics."""
    _options: Options = field(default_factory=Options)
    _recording: Recording | None = None
    _until: float = 0.0

    async def serve(self) -> None:
        """Answer until the satellite leaves, or says something that cannot be answered."""
        try:
            while (event := await self.wire.hear(self._within_s())) is not None:
                await self._obey(event)
        except Left:
            pass
        except ServiceError as error:
            await self._refuse(error)
        except Exception as error:
            await self._refuse(unforeseen(error))
        finally:
            if self._recording is not None:
                self.ended("left")

    def _within_s(self) -> float:
        """Return how long the next event may take: a recording has its end in sight."""
        if self._recording is None:
            return self.limits.idle_s
        return min(self.limits.idle_s, self._until - time.monotonic())

    async def _obey(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "describe":
                await self.wire.tell(info_of(self.work.describe()))
            case "ping":
                text = data.get("text")
                await self.wire.tell(Pong(text if isinstance(text, str) else None))
            case "transcribe":
                self._options = read_transcribe(data, str(self.work.describe().get("model")))
            case "audio-start":
                self._begin()
            case "audio-chunk":
                recording = self._recording or self._begin()
                sound = event.payload or b""
                recording.add(data.get("rate"), data.get("width"), data.get("channels"), sound)
            case "audio-stop":
                await self._answer()
            # What a newer satellite says besides is not for us.

    def _begin(self) -> Recording:
        self._until = time.monotonic() + self.limits.turn_s
        self._recording = Recording(self.limits.audio_s)
        return self._recording

    async def _answer(self) -> None:
        """Send the text of what was recorded, and be ready for the next one."""
        recording, options = self._recording or self._begin(), self._options
        self._recording, self._options = None, Options()
        outcome = "left"
        try:
            async with asyncio.timeout(self.limits.total_s):
                await self._write_down(recording.finish(), options)
            outcome = "done"
        except TimeoutError:
            outcome = "late"
            message = f"no text within {self.limits.total_s:g} s"
            raise ServiceError(message, status=504, code="too_slow") from None
        except ServiceError as error:
            outcome = outcome_of(error)
            raise
        except Left:
            raise
        except Exception as error:
            outcome = "failed"
            raise unforeseen(error) from None
        finally:
            self.ended(outcome)
            log.info("satellite %s audio=%.1fs", outcome, recording.seconds)

    async def _write_down(self, samples: Samples, options: Options) -> None:
        language, text = options.language, ""
        async with aclosing(self._segments(samples, options)) as segments:
            async for found, said in segments:
                language = found
                if not text:
                    said = said.lstrip()
                    await self.wire.tell(TranscriptStart(language=language))
                text += said
                await self.wire.tell(TranscriptChunk(said))
        if not text:
            await self.wire.tell(TranscriptStart(language=language))
        # Who knows no streaming waits for this one.
        await self.wire.tell(Transcript(text.strip(), language=language), TranscriptStop())

    async def _segments(
        self, samples: Samples, options: Options
    ) -> AsyncGenerator[tuple[str | None, str], None]:
        """Yield language and text piece by piece; what is left early is stopped."""
        if samples.size <= _WINDOW_S * SAMPLE_RATE:
            if samples.size:
                found = await self._unless_left(self.work.final(samples, options, Stop()))
                for segment in found.segments:
                    if segment.text.strip():
                        yield found.language, segment.text
            return
        file = await self._unless_left(self.work.file(samples, options))
        async with aclosing(file):
            segments = aiter(file)
            while (said := await self._unless_left(_following(segments))) is not None:
                if said.strip():
                    yield file.language, said

    async def _unless_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; raises Left, and cancels it, when the satellite hangs up."""
        task, ahead = asyncio.ensure_future(work), self.wire.ahead()
        try:
            await asyncio.wait({task, ahead}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not ahead.exception() and ahead.result() is None:
                raise Left
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _refuse(self, error: ServiceError) -> None:
        """Say what is wrong. Satellites wait for their text all the same, so we hang up then."""
        if self._recording is not None:
            self.ended(outcome_of(error))
            self._recording = None
        said = BROKEN if error.status == 500 else str(error)
        with contextlib.suppress(Left):
            await self.wire.tell(Error(said, error.code))


async def _following(segments: AsyncIterator[Segment]) -> str | None:
    async for segment in segments:
        return segment.text
    return None
