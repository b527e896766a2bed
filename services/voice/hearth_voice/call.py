"""One call: the client's events, one after the other, until either side ends it."""

import asyncio
import base64
import binascii
import contextlib
import json
import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.websockets import WebSocket, WebSocketDisconnect

from hearth_serving.errors import ServiceError, log_unexpected, quoted
from hearth_voice.answering import Answering
from hearth_voice.conversation import read_item
from hearth_voice.listening import Listening
from hearth_voice.session import Session
from hearth_voice.settings import SAMPLE_RATE, ResponseSettings, read

MAX_EVENT_BYTES = 512 * 1024
_MAX_APPEND_BYTES = 2 * 15 * SAMPLE_RATE
_MAX_ERRORS = 100
"""A client with more errors in a minute is broken."""
_WRITE_S = 20.0
_ALIVE_S = 1.0
"""How often a client that wants figures learns that the connection stands."""
_NORMAL, _GOING_AWAY, _POLICY, _INTERNAL = 1000, 1001, 1008, 1011


class _Truncate(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    item_id: str
    content_index: int = Field(0, ge=0, le=0)
    audio_end_ms: int = Field(ge=0)


class _Closing(Exception):
    """Ends the call with this code, after an error event if there is one."""

    def __init__(self, code: int, error: ServiceError | None = None) -> None:
        super().__init__(str(error))
        self.code, self.error = code, error


class NotReading(ConnectionError):
    """The client does not read its events any more."""


class Line:
    """The client's WebSocket: events out in order, each within its time."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket, self._lock = socket, asyncio.Lock()

    async def send(self, event: dict[str, Any]) -> None:
        """Send an event; raises NotReading."""
        text = json.dumps(event, separators=(",", ":"))
        try:
            async with asyncio.timeout(_WRITE_S), self._lock:
                await self._socket.send_text(text)
        except TimeoutError:
            # The call ends with it, and so does all work for it.
            await self.close(_INTERNAL)
            raise NotReading from None
        except (WebSocketDisconnect, RuntimeError):
            raise NotReading from None

    async def close(self, code: int) -> None:
        """Close the WebSocket."""
        try:
            async with asyncio.timeout(1):
                await self._socket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            pass


class Call:
    """Serves one client."""

    def __init__(self, socket: WebSocket, line: Line, session: Session) -> None:
        self._socket, self._line, self._session = socket, line, session
        self._answering = Answering(session)
        self._listening = Listening(session, self._answering)
        self._errors: list[float] = []
        config = session.config
        self._ends_at = time.monotonic() + config.call_s
        self._idle_s = config.idle_s

    async def run(self) -> str:
        """Serve the call; return how it ended."""
        alive = asyncio.create_task(self._alive()) if self._session.wants_figures else None
        try:
            await self._session.send("session.created", session=self._session.described())
            while True:
                await self._take(await self._receive())
        except (WebSocketDisconnect, NotReading):
            return "left"
        except _Closing as closing:
            if closing.error:
                await self._session.send_error(closing.error)
            await self._line.close(closing.code)
            return "done" if closing.code == _GOING_AWAY else "refused"
        except Exception as error:
            await self._session.send_error(log_unexpected(error))
            await self._line.close(_INTERNAL)
            return "failed"
        finally:
            if alive:
                alive.cancel()
            await self._listening.close()
            await self._answering.close()

    async def _alive(self) -> None:
        """Send a sign of life; a browser itself notices only after minutes that a network is gone.

        Ends with the connection.
        """
        with contextlib.suppress(NotReading):
            while True:
                await asyncio.sleep(_ALIVE_S)
                await self._session.send("hearth.alive")

    async def _receive(self) -> str:
        """Return the next message; raises _Closing after too long a silence or call."""
        now = time.monotonic()
        left_s = min(self._idle_s, self._ends_at - now)
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                message = await self._socket.receive()
        except TimeoutError:
            is_over = time.monotonic() >= self._ends_at
            reason = "a call lasts an hour at most" if is_over else "nothing arrived for too long"
            error = ServiceError(f"{reason}; start another one", code="session_expired")
            raise _Closing(_GOING_AWAY, error) from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        text: str | None = message.get("text")
        if text is None:
            await self._reject(ServiceError("send events as text, not binary", code="invalid_json"))
            return ""
        return text

    async def _take(self, text: str) -> None:
        """Handle one event; what is wrong with it is an event for the client."""
        if not text:
            return
        event_id = None
        try:
            if len(text) > MAX_EVENT_BYTES:
                message = f"an event has at most {MAX_EVENT_BYTES // 1024} KiB"
                raise ServiceError(message, code="event_too_large")
            event = _parse(text)
            found = event.get("event_id")
            event_id = found[:512] if isinstance(found, str) else None
            await self._handle(event)
        except ServiceError as error:
            await self._reject(error, event_id)

    async def _reject(self, error: ServiceError, event_id: str | None = None) -> None:
        now = time.monotonic()
        self._errors = [moment for moment in self._errors if moment > now - 60] + [now]
        await self._session.send_error(error, event_id)
        if len(self._errors) > _MAX_ERRORS:
            reason = ServiceError("too many invalid events", status=429, code="too_many_errors")
            raise _Closing(_POLICY, reason)

    async def _handle(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "input_audio_buffer.append":
                await self._listening.hear(_sound(event.get("audio")))
            case "input_audio_buffer.commit":
                await self._listening.commit()
            case "input_audio_buffer.clear":
                await self._listening.clear()
            case "session.update":
                await self._update(event.get("session"))
            case "conversation.item.create":
                await self._create(event)
            case "conversation.item.delete":
                item_id = _name(event)
                self._session.conversation.delete(item_id)
                await self._session.send("conversation.item.deleted", item_id=item_id)
            case "conversation.item.retrieve":
                item = self._session.conversation.get(_name(event))
                await self._session.send("conversation.item.retrieved", item=item.as_event())
            case "conversation.item.truncate":
                await self._truncate(event)
            case "response.create":
                data = event.get("response") or {}
                settings = read(ResponseSettings, data, "response")
                await self._answering.respond(settings, is_asked=True)
            case "response.cancel":
                found = event.get("response_id")
                await self._answering.cancel(found if isinstance(found, str) else None)
            case kind:
                message = f"{quoted(str(kind))} is not an event of a client"
                raise ServiceError(message, param="type", code="invalid_value")

    async def _update(self, changes: Any) -> None:
        self._session.settings = self._session.settings.updated(changes)
        await self._listening.changed()
        await self._session.send("session.updated", session=self._session.described())

    async def _create(self, event: dict[str, Any]) -> None:
        item, after = read_item(event.get("item")), event.get("previous_item_id")
        before = self._session.conversation.add(item, after if isinstance(after, str) else None)
        fields = {"previous_item_id": before, "item": item.as_event()}
        await self._session.send("conversation.item.added", **fields)
        await self._session.send("conversation.item.done", **fields)

    async def _truncate(self, event: dict[str, Any]) -> None:
        wanted = read(_Truncate, event, "event")
        item = self._session.conversation.get(wanted.item_id)
        self._answering.truncate(item, wanted.audio_end_ms)
        await self._session.send("conversation.item.truncated", **wanted.model_dump())


def _parse(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        raise ServiceError("the event is not valid JSON", code="invalid_json") from None
    if not isinstance(event, dict):
        raise ServiceError("an event is a JSON object with a type", code="invalid_json")
    return event


def _name(event: dict[str, Any]) -> str:
    found = event.get("item_id")
    if not isinstance(found, str):
        message = "item_id is missing"
        raise ServiceError(message, param="item_id", code="missing_required_parameter")
    return found


def _sound(audio: object) -> bytes:
    """Return the sound of an append; raises ServiceError for what is not 16-bit PCM."""
    try:
        sound = base64.b64decode(audio, validate=True) if isinstance(audio, str) else b""
    except (binascii.Error, ValueError):
        raise _bad_sound("is not base64") from None
    if not sound:
        raise _bad_sound("is missing or empty")
    if len(sound) % 2:
        raise _bad_sound("ends in the middle of a sample")
    if len(sound) > _MAX_APPEND_BYTES:
        raise _bad_sound("is longer than 15 s; send shorter pieces")
    return sound


def _bad_sound(reason: str) -> ServiceError:
    message = f"audio {reason}: send 16-bit little-endian mono PCM at 24 kHz, in base64"
    return ServiceError(message, param="audio", code="invalid_value")
