"""`WS /v1/audio/transcriptions/stream`: live audio in, events out.

docs/speech-to-text.md describes the protocol.
"""

import asyncio
import contextlib
import logging
import time
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from hearth_serving.errors import (
    ServiceError,
    error_body,
    error_response,
    log_unexpected,
    outcome_of,
)
from hearth_serving.metrics import recorder
from hearth_whisper.audio.pcm import PcmResampler
from hearth_whisper.live import vad
from hearth_whisper.live.messages import (
    ControlMessage,
    Message,
    MessageQueue,
    StartMessage,
    read_message,
)
from hearth_whisper.live.session import LiveSession
from hearth_whisper.web.state import ServerState

log = logging.getLogger("hearth_whisper")

_MAX_INVALID_MESSAGES = 20
_POLICY_VIOLATION, _GOING_AWAY, _INTERNAL_ERROR = 1008, 1001, 1011
# A muted client sends nothing, not even silence: then the open utterance is over as well.
_MAX_GAP_S = 2.0


class _NotReading(ConnectionError):
    """The client does not read events any more."""


class _CloseStream(Exception):
    """Ends the stream with this close code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


async def transcribe_stream(socket: WebSocket) -> None:
    """Serve one stream until the client ends it or disconnects."""
    state: ServerState = socket.app.state.server
    outcome = "left"
    try:
        with state.stream_slot():
            state.scheduler.preload()
            outcome = await _serve(socket, state)
    # Only before the socket is accepted; later errors are events.
    except ServiceError as error:
        outcome = "refused" if error.code == "starting" else outcome_of(error)
        await socket.send_denial_response(error_response(error))
    finally:
        recorder(state.metrics, socket.scope).ended(outcome)


async def _serve(socket: WebSocket, state: ServerState) -> str:
    """Serve the stream; return its outcome. Raises ServiceError where there is no VAD."""
    detector = await vad.open_vad()
    await socket.accept()
    connection = _StreamConnection(socket, state, detector)
    try:
        outcome = await connection.run()
    except (WebSocketDisconnect, _NotReading):
        outcome = "left"
    except Exception as error:
        log_unexpected(error)
        outcome = "failed"
    return "failed" if connection.failures else outcome


class _StreamConnection:
    def __init__(self, socket: WebSocket, state: ServerState, detector: vad.VadStream) -> None:
        self._socket, self._state, self._vad = socket, state, detector
        self._scheduler = state.scheduler
        self._messages = MessageQueue()
        self._session: LiveSession | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._invalid_messages = 0
        self._last_message = time.monotonic()
        self._outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Sending `ready` may set an exception before `run` awaits it.
        self._outcome.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def failures(self) -> int:
        """How many utterances have no text because of an internal error."""
        return self._session.failures if self._session else 0

    async def run(self) -> str:
        """Receive, transcribe and send concurrently until one task ends; return the outcome."""
        await self._send(self._ready_event())
        self._start_task(self._receive())
        self._start_task(self._process())
        try:
            outcome = await self._outcome
            await self._close(1000, "")
            return outcome
        except _CloseStream as closing:
            await self._close(closing.code, closing.reason)
            return "left" if closing.code == _GOING_AWAY else "refused"
        except (WebSocketDisconnect, _NotReading):
            raise
        except Exception as error:
            log_unexpected(error)
            await self._close(_INTERNAL_ERROR, "internal error")
            return "failed"
        finally:
            await self._end()

    def _ready_event(self) -> dict[str, Any]:
        defaults = StartMessage()
        return {
            "type": "ready",
            "model": self._scheduler.describe().get("model"),
            "sample_rate": defaults.sample_rate,
            "end_of_speech_ms": defaults.end_of_speech_ms,
            "partials": defaults.partials,
        }

    def _start_task(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(self._task_done)
        self._tasks.append(task)

    def _task_done(self, task: asyncio.Task[str | None]) -> None:
        if task.cancelled() or self._outcome.done():
            return
        if error := task.exception():
            self._outcome.set_exception(error)
        elif outcome := task.result():
            self._outcome.set_result(outcome)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if session := self._session:
            await session.close()
            figures = session.audio_s, session.finals, session.failures
            log.info("stream audio_s=%.1f finals=%d failed=%d", *figures)

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError, RuntimeError):
            async with asyncio.timeout(1):
                await self._socket.close(code, reason)

    async def _receive(self) -> None:
        while True:
            message = await self._next_frame()
            audio = message.get("bytes")
            if audio:
                await self._messages.put(audio)
            elif audio is None:
                try:
                    await self._messages.put(read_message(message.get("text") or ""))
                except ServiceError as error:
                    await self._reject(error)
                    continue
            else:
                # An empty message does not keep the stream open.
                continue
            self._last_message = time.monotonic()

    async def _next_frame(self) -> Any:
        idle_s = self._state.limits.idle_s
        while True:
            left_s = max(0.0, self._last_message + idle_s - time.monotonic())
            try:
                async with asyncio.timeout(left_s):
                    message = await self._socket.receive()
            except TimeoutError:
                if not (self._session and self._session.is_busy):
                    raise _CloseStream(_GOING_AWAY, f"idle for {idle_s:g} s") from None
                self._last_message = time.monotonic()
                continue
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1006))
            return message

    async def _process(self) -> None:
        start = StartMessage()
        pcm = PcmResampler()
        while True:
            message = await self._next_message()
            if isinstance(message, StartMessage):
                if self._session:
                    reason = "send start once, before any audio; open another stream"
                    await self._reject(ServiceError(reason, code="invalid_message"))
                    continue
                try:
                    self._scheduler.check(message.options())
                except ServiceError as error:
                    await self._reject(error)
                    continue
                start, pcm = message, PcmResampler(message.sample_rate)
            session = self._session or self._open_session(start)
            if isinstance(message, bytes):
                await session.add_audio(pcm.read(message))
            elif isinstance(message, ControlMessage):
                then = "flushed" if message.type == "flush" else "done"
                await session.flush(then, in_pause=message.in_pause and then == "flushed")
                if message.type == "end":
                    return

    async def _next_message(self) -> Message:
        """Return the next message; a gap in the audio ends the open utterance."""
        if self._session and self._session.is_speech:
            try:
                async with asyncio.timeout(_MAX_GAP_S):
                    return await self._messages.get()
            except TimeoutError:
                await self._session.flush()
        return await self._messages.get()

    def _open_session(self, start: StartMessage) -> LiveSession:
        on_latency = recorder(self._state.metrics, self._socket.scope).observe_final
        session = LiveSession(self._vad, self._scheduler, start, self._send, on_latency=on_latency)
        self._session = session
        self._start_task(self._send_results(session))
        return session

    async def _send_results(self, session: LiveSession) -> str:
        await session.send_results()
        return "done"

    async def _reject(self, error: ServiceError) -> None:
        self._invalid_messages += 1
        await self._send({"type": "error", **error_body(error)})
        if self._invalid_messages >= _MAX_INVALID_MESSAGES:
            raise _CloseStream(_POLICY_VIOLATION, "too many invalid messages")

    async def _send(self, event: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._state.limits.write_s):
                await self._socket.send_json(event)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            # A partial result's task ignores this error, so the stream is ended here.
            not_reading = _NotReading("the client does not read")
            if not self._outcome.done():
                self._outcome.set_exception(not_reading)
            raise not_reading from None
