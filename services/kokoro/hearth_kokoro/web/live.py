"""`WS /v1/audio/stream`: text in as it is written, sound out as soon as a clause can be spoken.

What lies between two flushes is a turn: it has its own sound file, so that all of it is heard. All
turns up to a cancel are one speech, so that they sound like one.
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
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.voices import Voice
from hearth_kokoro.web.asked import AskedLive, read_live
from hearth_kokoro.web.encode import open_encoder
from hearth_kokoro.web.orders import Order, Text, read_order
from hearth_kokoro.web.speech import slices
from hearth_kokoro.web.state import Loaded, ServerState
from hearth_serving.errors import (
    ServiceError,
    error_body,
    error_response,
    log_unexpected,
    outcome_of,
)
from hearth_serving.streaming import Stalled

log = logging.getLogger("hearth_kokoro")

# Whoever asks for more than this at once talks nonsense or never reads.
_MAX_TURNS = 64
_MAX_MISTAKES = 20
_POLICY, _IDLE, _BROKEN = 1008, 1001, 1011


@dataclass(slots=True, eq=False)
class _Turn:
    feed: Feed
    # What is said when all of it is spoken; None while it is still being written.
    ends: Literal["flushed", "done"] | None = None


class _Closing(Exception):
    """The conversation ends here, with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


async def stream(socket: WebSocket) -> None:
    """Speak until the client has ended or left."""
    desk: ServerState = socket.app.state.server
    try:
        loaded = desk.ready()
        if desk.live >= desk.limits.live:
            message = f"{desk.live} streams are open already; try again later"
            raise ServiceError(message, status=429, code="too_many_streams", retry_after_s=5)
        asked = read_live(dict(socket.query_params))
        voice = loaded.voices.get(asked.voice_name)
    except ServiceError as error:
        desk.metrics.ended("busy" if error.status == 429 else "refused")
        await socket.send_denial_response(error_response(error))
        return
    desk.live += 1
    try:
        await socket.accept()
        await _Conversation(socket, desk, loaded, asked, voice).run()
    except (WebSocketDisconnect, Stalled):
        pass
    except Exception as error:
        log_unexpected(error)
    finally:
        desk.live -= 1


class _Conversation:
    def __init__(
        self, socket: WebSocket, desk: ServerState, loaded: Loaded, asked: AskedLive, voice: Voice
    ) -> None:
        self._socket, self._state, self._loaded = socket, desk, loaded
        self._asked, self._voice = asked, voice
        self._turns: deque[_Turn] = deque()
        self._listener = Listener()
        self._fresh = asyncio.Event()
        self._pieces = self._mistakes = 0
        self._active = time.monotonic()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Listen and talk side by side until one of them has ended."""
        await self._tell(
            {
                "type": "ready",
                "sample_rate": SAMPLE_RATE,
                "response_format": self._asked.response_format,
                "voice": self._voice.name,
                "language": self._voice.language,
            }
        )
        self._talking = self._start_talking()
        listening = asyncio.create_task(self._listen())
        try:
            await asyncio.wait({listening, self._over}, return_when=asyncio.FIRST_COMPLETED)
            (listening if listening.done() else self._over).result()
            await self._close(1000, "")
        except _Closing as closing:
            await self._close(closing.code, closing.reason)
        finally:
            for task in (listening, self._talking, self._over):
                task.cancel()
            await asyncio.gather(listening, self._talking, self._over, return_exceptions=True)

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._socket.close(code, reason)

    def _start_talking(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._talk())
        task.add_done_callback(self._talked)
        return task

    def _talked(self, task: asyncio.Task[None]) -> None:
        """Note that all is said, or why not; a cancelled task is followed by a new one."""
        if task.cancelled() or self._over.done():
            return
        if error := task.exception():
            self._over.set_exception(error)
        else:
            self._over.set_result(None)

    async def _listen(self) -> None:
        while True:
            text = await self._message()
            try:
                await self._obey(read_order(text))
            except ServiceError as error:
                await self._mistake(error)

    async def _message(self) -> str | None:
        """Return the next message, None for a binary one."""
        while True:
            left_s = self._active + self._state.limits.idle_s - time.monotonic()
            try:
                async with asyncio.timeout(max(0, left_s)):
                    message = await self._socket.receive()
            except TimeoutError:
                # It spoke meanwhile, or all that was flushed waits for its turn.
                if self._turns and self._turns[0].ends:
                    self._active = time.monotonic()
                if time.monotonic() - self._active < self._state.limits.idle_s:
                    continue
                raise _Closing(_IDLE, "idle for too long") from None
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1006))
            text: str | None = message.get("text")
            return text

    async def _obey(self, order: Text | Order) -> None:
        if isinstance(order, Text) and not order.text:
            # It opens nothing, and keeps no line alive.
            return
        self._active = time.monotonic()
        if isinstance(order, Text):
            self._room_for(order.text)
            self._open_turn().feed.write(order.text)
        elif order.type == "cancel":
            await self._cancel()
        else:
            turn = self._open_turn()
            turn.ends = "done" if order.type == "end" else "flushed"
            turn.feed.close(goes_on=order.type == "flush")

    def _room_for(self, text: str) -> None:
        waiting = sum(turn.feed.unspoken for turn in self._turns)
        if waiting + len(text) > self._state.limits.text_characters:
            message = f"{waiting} characters are waiting already; this text was rejected"
            raise ServiceError(message, param="text", code="string_above_max_length")

    def _open_turn(self) -> _Turn:
        last = self._turns[-1] if self._turns else None
        if last and last.ends == "done":
            raise ServiceError("this stream has ended; send cancel to start again", code="ended")
        if last and last.ends is None:
            return last
        if len(self._turns) >= _MAX_TURNS:
            raise _Closing(_POLICY, "too many flushes are waiting")
        turn = _Turn(Feed(self._voice.language))
        self._turns.append(turn)
        self._fresh.set()
        return turn

    async def _cancel(self) -> None:
        self._talking.cancel()
        await asyncio.gather(self._talking, return_exceptions=True)
        for turn in self._turns:
            turn.feed.cancel()
        self._turns.clear()
        # Nobody plays on what was cancelled.
        self._listener = Listener()
        await self._tell({"type": "cancelled"})
        self._talking = self._start_talking()

    async def _mistake(self, error: ServiceError) -> None:
        self._mistakes += 1
        await self._tell({"type": "error", **error_body(error)})
        if self._mistakes >= _MAX_MISTAKES:
            raise _Closing(_POLICY, "too many invalid messages")

    async def _talk(self) -> None:
        """Speak one turn after the other; ends after the last one."""
        while True:
            while not self._turns:
                self._fresh.clear()
                await self._fresh.wait()
            turn = self._turns[0]
            outcome, pieces = "left", self._pieces
            try:
                await self._say(turn)
                outcome = "done"
            except Exception as caught:
                if isinstance(caught, WebSocketDisconnect | Stalled):
                    raise
                error = caught if isinstance(caught, ServiceError) else log_unexpected(caught)
                outcome = outcome_of(error)
                await self._tell({"type": "error", **error_body(error)})
            finally:
                # A flush of nothing is no speech: it is neither counted nor written down.
                if outcome != "done" or self._pieces > pieces:
                    self._state.metrics.ended(outcome)
                    log.info("turn %s format=%s", outcome, self._asked.response_format)
            self._turns.popleft()
            # What is written on after a failed turn belongs to a new one.
            turn.feed.cancel()
            if turn.ends:
                await self._tell({"type": turn.ends})
            if turn.ends == "done":
                return

    async def _say(self, turn: _Turn) -> None:
        speak, speed = self._loaded.speaker.speak, self._asked.speed
        speaking = speak(turn.feed, self._voice, speed, self._listener)
        encoder = open_encoder(self._asked.response_format)
        said = False
        async with aclosing(speaking) as pieces:
            async for piece in pieces:
                said = True
                head = {"type": "piece", "index": self._pieces, "text": piece.text}
                await self._tell({**head, "samples": int(piece.samples.size)})
                self._pieces += 1
                for part in slices(piece.samples):
                    await self._sound(encoder.encode(part))
                self._state.metrics.said(piece.samples.size / SAMPLE_RATE)
        if said:
            await self._sound(encoder.finish())

    async def _tell(self, message: dict[str, Any]) -> None:
        await self._in_time(self._socket.send_json(message))

    async def _sound(self, data: bytes) -> None:
        if data:
            await self._in_time(self._socket.send_bytes(data))

    async def _in_time(self, sending: Any) -> None:
        try:
            async with asyncio.timeout(self._state.limits.write_s):
                await sending
                await asyncio.sleep(0)
        except TimeoutError:
            raise Stalled from None
        self._active = time.monotonic()
