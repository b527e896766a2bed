"""The live line of Open WebUI's page: the little of Socket.IO that it takes to listen."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Origin

from hearth.clients.websocket import WebSocket, opened

PATH = "/ws/socket.io/?EIO=4&transport=websocket"
# One character of Engine.IO, and for its messages one of Socket.IO.
_OPEN, _PING, _PONG, _CONNECT, _EVENT = "0", "2", "3", "40", "42"
_ENDS = ("chat:completion", "chat:message:error")
# A document comes back with all that was found in it, in one message.
_MOST_BYTES = 16 * 1024 * 1024


class LineError(Exception):
    """One line for a person: why there is no line."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the page was told, and when, on `perf_counter`."""

    at_s: float
    chat: str
    message: str
    kind: str
    data: Any

    @property
    def text(self) -> str:
        """The piece of an answer that it brings."""
        if self.kind != "response:completion" or not isinstance(self.data, dict):
            return ""
        is_text = self.data.get("type") == "response.output_text.delta"
        return str(self.data.get("delta") or "") if is_text else ""

    @property
    def error(self) -> str:
        """The trouble that it tells of, in the words that the page shows."""
        said = self.data.get("error") if isinstance(self.data, dict) else None
        if isinstance(said, dict):
            return str(said.get("content") or said.get("message") or said or "")
        return str(said or "")

    @property
    def last(self) -> bool:
        """Whether nothing more comes of the answer."""
        if self.kind not in _ENDS:  # a search for documents is done, too, and is no answer
            return False
        return isinstance(self.data, dict) and bool(self.data.get("done"))


@dataclass(slots=True)
class Line:
    """An open line, named by `id`: it answers the server's pings and keeps all that is said."""

    id: str
    events: list[Event] = field(default_factory=list)
    pings: int = 0
    closed_s: float | None = None
    _news: threading.Condition = field(default_factory=threading.Condition)

    def read(self, call: WebSocket) -> None:
        """Listen until the line is cut."""
        try:
            for message in call:
                self._take(call, str(message))
        except ConnectionClosed:
            pass
        with self._news:
            self.closed_s = time.perf_counter()
            self._news.notify_all()

    def _take(self, call: WebSocket, message: str) -> None:
        if message == _PING:
            call.send(_PONG)
        with self._news:
            self.pings += message == _PING
            if message.startswith(_EVENT):
                name, *said = json.loads(message[len(_EVENT) :])
                if name == "events" and said:
                    self.events.append(_event(said[0]))
            self._news.notify_all()

    def until(self, met: Callable[[], bool], within_s: float) -> bool:
        """Wait until something is so; return whether it is, `within_s` later at the latest."""
        with self._news:
            return self._news.wait_for(met, within_s)

    def of(self, message: str) -> list[Event]:
        """Return what was said about one message."""
        with self._news:
            return [event for event in self.events if event.message == message]


def _event(said: Mapping[str, Any]) -> Event:
    data = said.get("data") or {}
    about = str(said.get("chat_id")), str(said.get("message_id"))
    return Event(time.perf_counter(), *about, str(data.get("type")), data.get("data"))


@contextmanager
def dialled(
    url: str, fqdn: str, trust: ssl.SSLContext | None, within_s: float, origin: str | None = None
) -> Iterator[WebSocket]:
    """Open the socket, as a page that comes from `origin` does; by default a page of this site.

    Raises:
        LineError: it is refused, or nobody answers.
    """
    at = urlsplit(url)
    with ExitStack() as stack:
        try:
            port = at.port or (443 if trust else 80)
            door = opened(
                f"{'wss' if trust else 'ws'}://{fqdn}{PATH}",
                (at.hostname or "", port),
                trust,
                within_s,
                origin=Origin(origin or f"{at.scheme}://{fqdn}"),
                max_size=_MOST_BYTES,
                # A browser sends no pings: what keeps the line open must be the house's own.
                ping_interval=None,
            )
            call = stack.enter_context(door)
        except InvalidStatus as error:
            raise LineError(f"{PATH}: HTTP {error.response.status_code}") from error
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            raise LineError(f"{PATH}: {error or type(error).__name__}") from error
        yield call


@contextmanager
def greeted(call: WebSocket, token: str, within_s: float) -> Iterator[Line]:
    """Say who is there, by a sign-in's `token`, and listen for as long as the block takes.

    Raises:
        LineError: nobody greets back.
    """
    try:
        if not str(call.recv(within_s)).startswith(_OPEN):
            raise LineError(f"{PATH}: it does not speak Engine.IO")
        call.send(_CONNECT + json.dumps({"token": token}))
        said = str(call.recv(within_s))
    except (TimeoutError, ConnectionClosed) as error:
        raise LineError(f"{PATH}: {error or 'no greeting'}") from error
    if not said.startswith(_CONNECT):
        raise LineError(f"{PATH}: refused: {said[:200]}")
    line = Line(json.loads(said[len(_CONNECT) :])["sid"])
    reading = threading.Thread(target=line.read, args=(call,))
    reading.start()
    try:
        yield line
    finally:
        call.close()
        reading.join()
