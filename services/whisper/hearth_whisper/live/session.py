"""The session of one live stream: audio in, events out.

The recognition of an utterance starts after a short silence, before the utterance is known to be
over. So it runs while the session waits for the end of speech.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hearth_serving.errors import ServiceError, log_unexpected, outcome_of
from hearth_whisper.live.endpointing import (
    FRAME,
    PRE_ROLL,
    Endpointer,
    SpeechEnded,
    SpeechEvent,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
)
from hearth_whisper.live.messages import StartMessage
from hearth_whisper.live.ring_buffer import RingBuffer
from hearth_whisper.live.utterance import FinalTask, LiveScheduler, Utterance
from hearth_whisper.live.vad import Vad
from hearth_whisper.recognition import SAMPLE_RATE, RecognitionCancelled, Samples
from hearth_whisper.recognition.queues import Speaker

Send = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends one event to the client; it may wait for a slow one."""

# So many utterances may wait for their texts; then audio waits until one is done.
_MAX_WAITING = 2
_MAX_STEP = 16 * FRAME
_FIRST_PARTIAL = PRE_ROLL + SAMPLE_RATE // 2
_PARTIAL_INTERVAL = SAMPLE_RATE // 4


class LiveSession:
    """Transcribes one stream; `send_results` runs beside `add_audio`; `close` cancels the rest."""

    def __init__(
        self,
        vad: Vad,
        scheduler: LiveScheduler,
        start: StartMessage,
        send: Send,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_latency: Callable[[float], None] = lambda latency_s: None,
    ) -> None:
        """Take the stream's parameters; `on_latency` gets the latency of each final."""
        self._vad, self._scheduler, self._start = vad, scheduler, start
        self._send, self._clock = send, clock
        self._on_latency = on_latency
        self._endpointer = Endpointer(start.end_of_speech_ms)
        self._partials = PartialResults(scheduler, start, send)
        self._buffer = RingBuffer()
        self._processed = 0
        self._current: Utterance | None = None
        self._results: asyncio.Queue[Utterance | str] = asyncio.Queue(_MAX_WAITING)
        self._speaker, self._finals = Speaker(), set[FinalTask]()
        self.finals = self.failures = 0

    @property
    def audio_s(self) -> float:
        """The length of the audio until now."""
        return self._buffer.end / SAMPLE_RATE

    @property
    def is_speech(self) -> bool:
        """Whether an utterance is open."""
        return self._current is not None

    @property
    def is_busy(self) -> bool:
        """Whether an utterance is open or has no text yet."""
        return self.is_speech or bool(self._finals)

    async def add_audio(self, samples: Samples) -> None:
        """Process audio; waits while too many utterances wait for their texts."""
        now = self._clock()
        # A long message is processed in steps, between which other sessions run.
        for start in range(0, samples.size, _MAX_STEP):
            self._buffer.append(samples[start : start + _MAX_STEP], now)
            while self._complete_frames >= self._endpointer.batch_frames:
                await self._process(self._complete_frames)
            current = self._current
            if current:
                self._partials.request(current, self._buffer)
            self._buffer.discard(current.audio_start if current else self._processed - 2 * PRE_ROLL)
            await asyncio.sleep(0)

    async def flush(self, then: str = "", *, in_pause: bool = False) -> None:
        """End the open utterance, or only one that is `in_pause`; `then` follows its final."""
        if self._complete_frames:
            await self._process(self._complete_frames)
        if in_pause and not (self._current and self._current.final):
            return
        for event in self._endpointer.flush(self._buffer.end):
            await self._handle(event)
        if then:
            await self._results.put(then)

    async def send_results(self) -> None:
        """Send the finals in order; returns after `done`."""
        while True:
            result = await self._results.get()
            if isinstance(result, Utterance):
                await self._send_final(result)
                continue
            await self._send({"type": result})
            if result == "done":
                return

    async def close(self) -> None:
        """Cancel all recognitions."""
        finals = list(self._finals)
        for final in finals:
            final.cancel()
        await self._partials.close()
        await asyncio.gather(*(final.task for final in finals), return_exceptions=True)

    @property
    def _complete_frames(self) -> int:
        return (self._buffer.end - self._processed) // FRAME

    async def _process(self, count: int) -> None:
        start, self._processed = self._processed, self._processed + count * FRAME
        for frame in self._vad.process(self._buffer.between(start, self._processed)):
            for event in self._endpointer.process(frame):
                await self._handle(event)

    async def _handle(self, event: SpeechEvent) -> None:
        if isinstance(event, SpeechStarted):
            self._current = Utterance(
                event.utterance, event.speech_start, event.audio_start, event.cut
            )
            # A model that was unloaded in a long silence is loaded during the speech.
            self._scheduler.preload()
            await self._send(self._current.started_event())
        elif self._current is None:
            return
        elif isinstance(event, SpeechPaused):
            self._start_final(self._current, event.audio_end)
            if self._start.early:
                await self._send(self._current.paused_event(event.speech_end))
        elif isinstance(event, SpeechResumed):
            self._cancel_final(self._current)
            if self._start.early:
                await self._send(self._current.resumed_event())
        elif isinstance(event, SpeechEnded):
            utterance, self._current = self._current, None
            await self._end(utterance, event)

    def _start_final(self, utterance: Utterance, audio_end: int) -> FinalTask:
        utterance.audio_end = audio_end
        audio = self._buffer.between(utterance.audio_start, audio_end)
        final = FinalTask(self._scheduler, audio, self._start.options(), self._speaker)
        utterance.final = final
        self._finals.add(final)
        final.task.add_done_callback(lambda _: self._finals.discard(final))
        self._partials.announce(utterance, final)
        return final

    def _cancel_final(self, utterance: Utterance) -> None:
        if utterance.final:
            utterance.final.cancel()
            utterance.final = None

    async def _end(self, utterance: Utterance, event: SpeechEnded) -> None:
        utterance.speech_end = event.speech_end
        utterance.end_arrived_at = self._buffer.arrived_at(event.speech_end)
        final = utterance.final
        # A failure in the pause may have been a lack of capacity.
        if final is None or final.failed:
            final = self._start_final(utterance, event.audio_end)
        final.make_due()
        await self._send(utterance.ended_event(cut=event.cut))
        await self._results.put(utterance)

    async def _send_final(self, utterance: Utterance) -> None:
        assert utterance.final  # noqa: S101 - an utterance that has ended has one
        try:
            transcript = await utterance.final.task
        except ServiceError as error:
            utterance.is_final = True
            # The event hides the details of an internal error; `outcome_of` logs them.
            self.failures += outcome_of(error) == "failed"
            await self._send(utterance.error_event(error))
        except RecognitionCancelled:
            utterance.is_final = True
            stopping = ServiceError("the server is stopping", status=503, code="stopping")
            await self._send(utterance.error_event(stopping))
        except Exception as caught:
            utterance.is_final = True
            self.failures += 1
            await self._send(utterance.error_event(log_unexpected(caught)))
        else:
            utterance.is_final = True
            latency_s = max(0.0, self._clock() - utterance.end_arrived_at)
            await self._send(utterance.final_event(transcript, latency_s))
            self._on_latency(latency_s)
            self.finals += 1


class PartialResults:
    """The partial results of a session: one at a time, if there is capacity."""

    def __init__(self, scheduler: LiveScheduler, start: StartMessage, send: Send) -> None:
        self._scheduler, self._start, self._send = scheduler, start, send
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = False

    def request(self, utterance: Utterance, buffer: RingBuffer) -> None:
        """Start a partial result if there is enough new audio since the last."""
        end = buffer.end
        # While the final is recognised, a partial result would be later and worse.
        wanted = self._start.partials and utterance.final is None and not self._busy
        earliest = max(
            utterance.audio_start + _FIRST_PARTIAL, utterance.partial_end + _PARTIAL_INTERVAL
        )
        if wanted and end >= earliest:
            utterance.partial_end = end
            self._busy = True
            audio = buffer.between(utterance.audio_start, end)
            self._run(self._recognise(utterance, end, audio))

    def announce(self, utterance: Utterance, final: FinalTask) -> None:
        """Send the text of a final as a partial or early result, if speech may still resume."""
        if self._start.partials or self._start.early:
            self._run(self._announce(utterance, final))

    async def close(self) -> None:
        """Cancel all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._ignore_errors(coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ignore_errors(self, coroutine: Coroutine[Any, Any, None]) -> None:
        # The client needs no partial result; the final reports what is wrong.
        try:
            await coroutine
        except (ServiceError, RecognitionCancelled, ConnectionError):
            pass
        except Exception as error:
            log_unexpected(error)

    async def _recognise(self, utterance: Utterance, end: int, audio: Samples) -> None:
        try:
            options = self._start.options(partial=True)
            partial = await self._scheduler.transcribe_partial(audio, options)
        finally:
            self._busy = False
        if partial and not utterance.is_final:
            await self._send(utterance.partial_event(partial, end))

    async def _announce(self, utterance: Utterance, final: FinalTask) -> None:
        await asyncio.wait({final.task})
        # Once speech has ended, the final event follows at once.
        if utterance.final is final and not utterance.speech_end and not final.failed:
            transcript = final.task.result()
            event = utterance.early_event if self._start.early else utterance.partial_event
            await self._send(event(transcript, utterance.audio_end))
