"""One satellite's session: each recording is answered with its text.

A recording is transcribed like a live stream: its text is recognised in the first short silence.
The satellite waits longer than that before it ends the recording; then the text is ready.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from wyoming.asr import Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.ping import Pong

from hearth_serving.errors import BROKEN, ServiceError, log_unexpected, outcome_of
from hearth_whisper.audio.pcm import PcmRecording
from hearth_whisper.limits import SatelliteLimits
from hearth_whisper.live.messages import StartMessage
from hearth_whisper.live.session import LiveSession
from hearth_whisper.live.utterance import LiveScheduler
from hearth_whisper.live.vad import Vad
from hearth_whisper.recognition import Options
from hearth_whisper.wyoming.connection import Connection, Disconnected
from hearth_whisper.wyoming.protocol import DEFAULT_START, info_event, read_transcribe

log = logging.getLogger(__name__)

# These languages are written without spaces between words.
_UNSPACED = frozenset(["zh", "ja", "th", "lo", "my", "bo", "km", "yue"])
_STATUS = {"rate_limit_error": 429, "service_unavailable_error": 503, "server_error": 500}


class SatelliteScheduler(LiveScheduler, Protocol):
    """The part of `Scheduler` that satellites use."""

    def describe(self) -> dict[str, Any]:
        """Return the model's name and its languages."""
        ...

    def check(self, options: Options) -> None:
        """Raise ServiceError for options that the model, once it is known, does not support."""
        ...


@dataclass(slots=True)
class SatelliteSession:
    """One satellite on a connection."""

    scheduler: SatelliteScheduler
    connection: Connection
    limits: SatelliteLimits
    open_vad: Callable[[], Awaitable[Vad]]
    """Returns the detector for one recording."""
    on_end: Callable[[str], None] = lambda _: None
    """Gets the outcome of each recording, as the metrics name it."""
    on_latency: Callable[[float], None] = lambda _: None
    """Gets the latency of each final."""
    _start: StartMessage = DEFAULT_START
    _recording: "SatelliteRecording | None" = None
    _deadline: float = 0.0

    async def serve(self) -> None:
        """Serve until the satellite disconnects or sends an invalid event."""
        outcome = "left"
        try:
            while (event := await self.connection.receive(self._timeout_s())) is not None:
                await self._handle(event)
        except Disconnected:
            pass
        except ServiceError as error:
            outcome = outcome_of(error)
            await self._send_error(error)
        except Exception as error:
            outcome = "failed"
            await self._send_error(log_unexpected(error))
        finally:
            await self._end_recording(outcome)

    def _timeout_s(self) -> float:
        """Return the time for the next event; a recording has a deadline of its own."""
        if self._recording is None:
            return self.limits.idle_s
        return min(self.limits.idle_s, self._deadline - time.monotonic())

    async def _handle(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "describe":
                await self.connection.send(info_event(self.scheduler.describe()))
            case "ping":
                text = data.get("text")
                await self.connection.send(Pong(text if isinstance(text, str) else None))
            case "transcribe":
                # Speech follows at once: an unloaded model is loaded by then.
                self.scheduler.preload()
                start = read_transcribe(data, self.scheduler.describe().get("model"))
                self.scheduler.check(start.options())
                self._start = start
            case "audio-start":
                await self._start_recording()
            case "audio-chunk":
                recording = self._recording or await self._start_recording()
                await recording.add_audio(data, event.payload or b"")
            case "audio-stop":
                await self._finish(self._recording or await self._start_recording())
            # Further events of newer satellites are ignored.

    async def _start_recording(self) -> "SatelliteRecording":
        await self._end_recording("left")
        self.scheduler.preload()
        self._deadline = time.monotonic() + self.limits.turn_s
        self._recording = SatelliteRecording(
            await self.open_vad(),
            self.scheduler,
            self._start,
            self.connection,
            self.limits.audio_s,
            self.on_latency,
        )
        return self._recording

    async def _finish(self, recording: "SatelliteRecording") -> None:
        """Send the text of a recording, and be ready for the next one."""
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                await recording.finish()
        except TimeoutError:
            message = f"no text within {self.limits.timeout_s:g} s"
            raise ServiceError(message, status=504, code="too_slow") from None
        self._start = DEFAULT_START
        await self._end_recording("done")

    async def _end_recording(self, outcome: str) -> None:
        """Count the open recording, if any, and cancel its work."""
        recording, self._recording = self._recording, None
        if recording is not None:
            self.on_end(outcome)
            log.info("satellite %s audio=%.1fs", outcome, recording.seconds)
            await recording.close()

    async def _send_error(self, error: ServiceError) -> None:
        """Report an error. The connection is closed then, or the satellite would wait on."""
        message = BROKEN if error.status == 500 else str(error)
        with contextlib.suppress(Disconnected):
            await self.connection.send(Error(message, error.code))


class SatelliteRecording:
    """One recording, from `audio-start` to `audio-stop`."""

    def __init__(
        self,
        vad: Vad,
        scheduler: LiveScheduler,
        start: StartMessage,
        connection: Connection,
        max_s: float,
        on_latency: Callable[[float], None],
    ) -> None:
        """Start the transcription; `close` ends it in every case."""
        self._text, self._language = "", start.language
        self._pcm, self._connection = PcmRecording(max_s), connection
        self._session = LiveSession(vad, scheduler, start, self._send_event, on_latency=on_latency)
        self._results = asyncio.create_task(self._session.send_results())

    @property
    def seconds(self) -> float:
        """The length of the audio until now."""
        return self._pcm.seconds

    async def add_audio(self, data: Mapping[str, Any], audio: bytes) -> None:
        """Process the next chunk; raises ServiceError and Disconnected."""
        pcm_format = (data.get("rate"), data.get("width"), data.get("channels"))
        samples = self._pcm.read(*pcm_format, audio)
        await self._while_connected(self._session.add_audio(samples))

    async def finish(self) -> None:
        """Send the rest of the text, and all of it; raises ServiceError and Disconnected."""
        await self._while_connected(self._session.flush("done"))
        await self._while_connected(asyncio.wait({self._results}))
        if not self._text:
            await self._connection.send(TranscriptStart(language=self._language))
        # Satellites without streaming support read this event alone.
        await self._connection.send(
            Transcript(self._text, language=self._language), TranscriptStop()
        )

    async def close(self) -> None:
        """Cancel the work that is left."""
        self._results.cancel()
        await asyncio.gather(self._results, return_exceptions=True)
        await self._session.close()

    async def _send_event(self, event: dict[str, Any]) -> None:
        """Send a final as a chunk of the transcript; raise an error event as ServiceError."""
        if event["type"] == "error":
            error = event["error"]
            status = _STATUS.get(error["type"], 400)
            raise ServiceError(error["message"], status=status, code=error["code"])
        if event["type"] != "final" or not event["text"]:
            return
        self._language = event["language"]
        chunk = event["text"]
        if not self._text:
            await self._connection.send(TranscriptStart(language=self._language))
        elif self._language not in _UNSPACED:
            chunk = f" {chunk}"
        self._text += chunk
        await self._connection.send(TranscriptChunk(chunk))

    async def _while_connected(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run it; raises the errors of `_send_event`, and Disconnected when the client leaves."""
        task, next_event = asyncio.ensure_future(coroutine), self._connection.read_ahead()
        waiting: set[asyncio.Future[Any]] = {task, next_event, self._results}
        try:
            while not task.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                ended = next_event in done and not next_event.exception()
                if ended and next_event.result() is None:
                    raise Disconnected
                if self._results in done:
                    self._results.result()
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
