"""`WS /v1/audio/stream`: text in while it is written, sound out as soon as a clause is complete.

The text between two flushes is an utterance with its own sound file, so that all of it is played.
All utterances up to a cancel are one continuous speech.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from starlette.websockets import WebSocket, WebSocketDisconnect

from hearth_kokoro.engines import SAMPLE_RATE
from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voice
from hearth_kokoro.web.encoders import open_encoder
from hearth_kokoro.web.requests import (
    ControlMessage,
    StreamQuery,
    TextMessage,
    parse_message,
    parse_stream_query,
)
from hearth_kokoro.web.speech import slices
from hearth_kokoro.web.state import LoadedModel, ServerState
from hearth_serving.errors import (
    ServiceError,
    error_body,
    error_response,
    log_unexpected,
    outcome_of,
)
from hearth_serving.metrics import recorder
from hearth_serving.streaming import Stalled

log = logging.getLogger("hearth_kokoro")

# A client beyond these limits is broken or never reads.
_MAX_UTTERANCES = 64
_MAX_INVALID_MESSAGES = 20
_POLICY_VIOLATION, _GOING_AWAY = 1008, 1001


@dataclass(slots=True, eq=False)
class _Utterance:
    buffer: TextBuffer
    # The message that is sent after the last sound; None while the client may add text.
    end: Literal["flushed", "done"] | None = None


class _CloseStream(Exception):
    """Closes the WebSocket with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


async def stream_speech(socket: WebSocket) -> None:
    """Speak until the client ends the stream or disconnects."""
    state: ServerState = socket.app.state.server
    try:
        loaded = state.ready()
        if state.live >= state.limits.live:
            message = f"{state.live} streams are open already; try again later"
            raise ServiceError(message, status=429, code="too_many_streams", retry_after_s=5)
        query = parse_stream_query(dict(socket.query_params))
        voice = loaded.voices.get(query.voice_name)
    except ServiceError as error:
        metrics = recorder(state.metrics, socket.scope)
        metrics.ended("busy" if error.status == 429 else "refused")
        await socket.send_denial_response(error_response(error))
        return
    state.live += 1
    try:
        await socket.accept()
        await _StreamSession(socket, state, loaded, query, voice).run()
    except (WebSocketDisconnect, Stalled):
        pass
    except Exception as error:
        log_unexpected(error)
    finally:
        state.live -= 1


class _StreamSession:
    def __init__(
        self,
        socket: WebSocket,
        state: ServerState,
        loaded: LoadedModel,
        query: StreamQuery,
        voice: Voice,
    ) -> None:
        self._socket, self._state, self._loaded = socket, state, loaded
        self._metrics = recorder(state.metrics, socket.scope)
        self._query, self._voice = query, voice
        self._utterances: deque[_Utterance] = deque()
        self._playback = Playback(early=query.early)
        self._utterance_added = asyncio.Event()
        self._segments = self._invalid_messages = 0
        self._last_active = time.monotonic()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Receive and speak side by side until one of them ends."""
        await self._send_json(
            {
                "type": "ready",
                "sample_rate": SAMPLE_RATE,
                "response_format": self._query.response_format,
                "voice": self._voice.name,
                "language": self._voice.language,
            }
        )
        self._speaking = self._start_speaking()
        receiving = asyncio.create_task(self._receive_messages())
        try:
            await asyncio.wait({receiving, self._finished}, return_when=asyncio.FIRST_COMPLETED)
            (receiving if receiving.done() else self._finished).result()
            await self._close(1000, "")
        except _CloseStream as close:
            await self._close(close.code, close.reason)
        finally:
            tasks = (receiving, self._speaking, self._finished)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._socket.close(code, reason)

    def _start_speaking(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._speak_utterances())
        task.add_done_callback(self._speaking_ended)
        return task

    def _speaking_ended(self, task: asyncio.Task[None]) -> None:
        """Finish the stream with the task's result; a cancelled task gets a successor."""
        if task.cancelled() or self._finished.done():
            return
        if error := task.exception():
            self._finished.set_exception(error)
        else:
            self._finished.set_result(None)

    async def _receive_messages(self) -> None:
        while True:
            text = await self._receive()
            try:
                await self._handle(parse_message(text))
            except ServiceError as error:
                await self._report_invalid(error)

    async def _receive(self) -> str | None:
        """Return the next message, None for a binary one."""
        while True:
            left_s = self._last_active + self._state.limits.idle_s - time.monotonic()
            try:
                async with asyncio.timeout(max(0, left_s)):
                    message = await self._socket.receive()
            except TimeoutError:
                # Flushed text that is still being spoken keeps the stream open.
                if self._utterances and self._utterances[0].end:
                    self._last_active = time.monotonic()
                if time.monotonic() - self._last_active < self._state.limits.idle_s:
                    continue
                raise _CloseStream(_GOING_AWAY, "idle for too long") from None
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1006))
            text: str | None = message.get("text")
            return text

    async def _handle(self, message: TextMessage | ControlMessage) -> None:
        if isinstance(message, TextMessage) and not message.text:
            # An empty text does not keep a stream open.
            return
        self._last_active = time.monotonic()
        if isinstance(message, TextMessage):
            self._check_text_limit(message.text)
            self._open_utterance().buffer.write(message.text)
        elif message.type == "cancel":
            await self._cancel()
        else:
            utterance = self._open_utterance()
            utterance.end = "done" if message.type == "end" else "flushed"
            utterance.buffer.close(continues=message.type == "flush")

    def _check_text_limit(self, text: str) -> None:
        waiting = sum(utterance.buffer.unspoken for utterance in self._utterances)
        if waiting + len(text) > self._state.limits.text_characters:
            message = f"{waiting} characters are waiting already; this text was rejected"
            raise ServiceError(message, param="text", code="string_above_max_length")

    def _open_utterance(self) -> _Utterance:
        """Return the utterance that accepts text; create one if there is none."""
        last = self._utterances[-1] if self._utterances else None
        if last and last.end == "done":
            raise ServiceError("this stream has ended; send cancel to start again", code="ended")
        if last and last.end is None:
            return last
        if len(self._utterances) >= _MAX_UTTERANCES:
            raise _CloseStream(_POLICY_VIOLATION, "too many flushes are waiting")
        utterance = _Utterance(TextBuffer(self._voice.language))
        self._utterances.append(utterance)
        self._utterance_added.set()
        return utterance

    async def _cancel(self) -> None:
        self._speaking.cancel()
        await asyncio.gather(self._speaking, return_exceptions=True)
        for utterance in self._utterances:
            utterance.buffer.cancel()
        self._utterances.clear()
        # The client drops the sound that it has not played.
        self._playback = Playback(early=self._query.early)
        await self._send_json({"type": "cancelled"})
        self._speaking = self._start_speaking()

    async def _report_invalid(self, error: ServiceError) -> None:
        self._invalid_messages += 1
        await self._send_json({"type": "error", **error_body(error)})
        if self._invalid_messages >= _MAX_INVALID_MESSAGES:
            raise _CloseStream(_POLICY_VIOLATION, "too many invalid messages")

    async def _speak_utterances(self) -> None:
        """Speak one utterance after the other; return after the last one."""
        while True:
            while not self._utterances:
                self._utterance_added.clear()
                await self._utterance_added.wait()
            utterance = self._utterances[0]
            outcome, segments = "left", self._segments
            try:
                await self._speak(utterance)
                outcome = "done"
            except Exception as caught:
                if isinstance(caught, WebSocketDisconnect | Stalled):
                    raise
                error = caught if isinstance(caught, ServiceError) else log_unexpected(caught)
                outcome = outcome_of(error)
                await self._send_json({"type": "error", **error_body(error)})
            finally:
                # A flush without text is neither counted nor logged.
                if outcome != "done" or self._segments > segments:
                    self._metrics.ended(outcome)
                    log.info("utterance %s format=%s", outcome, self._query.response_format)
            self._utterances.popleft()
            # Text that arrives after a failed utterance belongs to a new one.
            utterance.buffer.cancel()
            if utterance.end:
                await self._send_json({"type": utterance.end})
            if utterance.end == "done":
                return

    async def _speak(self, utterance: _Utterance) -> None:
        speech = self._loaded.synthesizer.speak(
            utterance.buffer, self._voice, self._query.speed, self._playback
        )
        encoder = open_encoder(self._query.response_format)
        has_segments = False
        async with aclosing(speech) as segments:
            async for segment in segments:
                has_segments = True
                head = {"type": "piece", "index": self._segments, "text": segment.text}
                held = {"held_ms": round(segment.held_s * 1000)} if segment.held_s else {}
                await self._send_json({**head, "samples": int(segment.samples.size), **held})
                self._metrics.record_hold(segment.held_s)
                self._segments += 1
                for part in slices(segment.samples):
                    await self._send_sound(encoder.encode(part))
                self._metrics.record_segment(segment, encoder.lap_s())
        if has_segments:
            await self._send_sound(encoder.finish())

    async def _send_json(self, message: dict[str, Any]) -> None:
        await self._send_in_time(self._socket.send_json(message))

    async def _send_sound(self, data: bytes) -> None:
        if data:
            await self._send_in_time(self._socket.send_bytes(data))

    async def _send_in_time(self, sending: Any) -> None:
        try:
            async with asyncio.timeout(self._state.limits.write_s):
                await sending
                await asyncio.sleep(0)
        except TimeoutError:
            raise Stalled from None
        self._last_active = time.monotonic()
