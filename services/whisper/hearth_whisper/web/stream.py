"""`WS /v1/audio/transcriptions/stream`: sound in as it is spoken, text out when it was.

docs/speech-to-text.md tells the protocol.
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
from hearth_whisper.live import vad
from hearth_whisper.live.inbox import Inbox
from hearth_whisper.live.listener import Listener
from hearth_whisper.live.orders import Order, Start, read_order
from hearth_whisper.live.rate import Pcm
from hearth_whisper.web.state import ServerState

log = logging.getLogger("hearth_whisper")

_MAX_MISTAKES = 20
_POLICY, _IDLE, _BROKEN = 1008, 1001, 1011
# A client that is muted sends nothing, not even silence: then what was said has ended as well.
_GAP_S = 2.0


class _Gone(ConnectionError):
    """Nobody reads what we say."""


class _Closing(Exception):
    """The stream ends here, with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


async def stream(socket: WebSocket) -> None:
    """Listen until the client has ended or left."""
    desk: ServerState = socket.app.state.server
    outcome = "left"
    try:
        with desk.place():
            desk.work.wake()
            outcome = await _accepted(socket, desk)
    # Only before it was accepted; whatever is wrong later is an event.
    except ServiceError as error:
        outcome = "refused" if error.code == "starting" else outcome_of(error)
        await socket.send_denial_response(error_response(error))
    finally:
        desk.metrics.ended(outcome)


async def _accepted(socket: WebSocket, desk: ServerState) -> str:
    """Listen; return how it ended. Raises ServiceError only where there is no detector."""
    ear = await vad.ear()
    await socket.accept()
    conversation = _Conversation(socket, desk, ear)
    try:
        outcome = await conversation.run()
    except (WebSocketDisconnect, _Gone):
        outcome = "left"
    except Exception as error:
        log_unexpected(error)
        outcome = "failed"
    return "failed" if conversation.failures else outcome


class _Conversation:
    def __init__(self, socket: WebSocket, desk: ServerState, ear: vad.VadStream) -> None:
        self._socket, self._state, self._work, self._ear = socket, desk, desk.work, ear
        self._inbox = Inbox()
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._mistakes = 0
        self._active = time.monotonic()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Where `ready` cannot be told, nobody waits for it yet.
        self._over.add_done_callback(lambda over: over.cancelled() or over.exception())

    @property
    def failures(self) -> int:
        """How many utterances have no text because something broke here."""
        return self._listener.failures if self._listener else 0

    async def run(self) -> str:
        """Read, listen and answer side by side until one of them has ended; return how."""
        await self._tell(self._ready())
        self._go(self._read())
        self._go(self._listen())
        try:
            outcome = await self._over
            await self._close(1000, "")
            return outcome
        except _Closing as closing:
            await self._close(closing.code, closing.reason)
            return "left" if closing.code == _IDLE else "refused"
        except (WebSocketDisconnect, _Gone):
            raise
        except Exception as error:
            log_unexpected(error)
            await self._close(_BROKEN, "internal error")
            return "failed"
        finally:
            await self._end()

    def _ready(self) -> dict[str, Any]:
        usual = Start()
        return {
            "type": "ready",
            "model": self._work.describe().get("model"),
            "sample_rate": usual.sample_rate,
            "end_of_speech_ms": usual.end_of_speech_ms,
            "partials": usual.partials,
        }

    def _go(self, work: Any) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._went)
        self._tasks.append(task)

    def _went(self, task: asyncio.Task[str | None]) -> None:
        if task.cancelled() or self._over.done():
            return
        if error := task.exception():
            self._over.set_exception(error)
        elif outcome := task.result():
            self._over.set_result(outcome)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if listener := self._listener:
            await listener.close()
            said = "stream heard_s=%.1f finals=%d failed=%d"
            log.info(said, listener.heard_s, listener.finals, listener.failures)

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError, RuntimeError):
            async with asyncio.timeout(1):
                await self._socket.close(code, reason)

    async def _read(self) -> None:
        while True:
            message = await self._message()
            sound = message.get("bytes")
            if sound:
                await self._inbox.put(sound)
            elif sound is None:
                try:
                    await self._inbox.put(read_order(message.get("text") or ""))
                except ServiceError as error:
                    await self._mistake(error)
                    continue
            else:
                # An empty message is no sound, and keeps no stream open.
                continue
            self._active = time.monotonic()

    async def _message(self) -> Any:
        idle_s = self._state.limits.idle_s
        while True:
            left_s = max(0.0, self._active + idle_s - time.monotonic())
            try:
                async with asyncio.timeout(left_s):
                    message = await self._socket.receive()
            except TimeoutError:
                if not (self._listener and self._listener.is_busy):
                    raise _Closing(_IDLE, f"idle for {idle_s:g} s") from None
                self._active = time.monotonic()
                continue
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1006))
            return message

    async def _listen(self) -> None:
        asked = Start()
        pcm = Pcm()
        while True:
            item = await self._next()
            if isinstance(item, Start):
                if self._listener:
                    message = "send start once, before any audio; open another stream"
                    await self._mistake(ServiceError(message, code="invalid_message"))
                    continue
                try:
                    self._work.check(item.options())
                except ServiceError as error:
                    await self._mistake(error)
                    continue
                asked, pcm = item, Pcm(item.sample_rate)
            listener = self._listener or self._open(asked)
            if isinstance(item, bytes):
                await listener.hear(pcm.read(item))
            elif isinstance(item, Order):
                await listener.flush("flushed" if item.type == "flush" else "done")
                if item.type == "end":
                    return

    async def _next(self) -> bytes | Start | Order:
        """Return the next message; a talker from whom nothing comes any more has ended."""
        if self._listener and self._listener.is_speech:
            try:
                async with asyncio.timeout(_GAP_S):
                    return await self._inbox.get()
            except TimeoutError:
                await self._listener.flush()
        return await self._inbox.get()

    def _open(self, asked: Start) -> Listener:
        waited = self._state.metrics.final
        listener = Listener(self._ear, self._work, asked, self._tell, waited=waited)
        self._listener = listener
        self._go(self._answer(listener))
        return listener

    async def _answer(self, listener: Listener) -> str:
        await listener.answer()
        return "done"

    async def _mistake(self, error: ServiceError) -> None:
        self._mistakes += 1
        await self._tell({"type": "error", **error_body(error)})
        if self._mistakes >= _MAX_MISTAKES:
            raise _Closing(_POLICY, "too many invalid messages")

    async def _tell(self, event: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._state.limits.write_s):
                await self._socket.send_json(event)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            # Whoever tells this may be but a guess; the stream ends with it all the same.
            gone = _Gone("nobody reads")
            if not self._over.done():
                self._over.set_exception(gone)
            raise gone from None
