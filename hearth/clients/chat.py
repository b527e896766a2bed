"""The chat client: signs in by HTTPS as a browser's page does, with its live connection open.

A message is sent by `POST /api/chat/completions`; the answer arrives over the live connection,
which speaks Socket.IO. Only as much of Socket.IO is here as listening needs.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, client_errors
from hearth.clients.websocket import WebSocket, opened

SIGN_IN = "/api/v1/auths/signin"
COMPLETIONS = "/api/chat/completions"
SOCKET = "/ws/socket.io/?EIO=4&transport=websocket"
# One character of Engine.IO, and for its messages one of Socket.IO.
_OPEN, _PING, _PONG, _CONNECT, _EVENT = "0", "2", "3", "40", "42"
_LAST_KINDS = ("chat:completion", "chat:message:error")
# The event of a document contains all passages that were found in it.
_MAX_EVENT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is signed in."""

    server: Endpoint
    id: str
    role: str
    token: str = field(repr=False)

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request as this person and return the response, whatever its status."""
        return replace(self.server, key=self.token).send(method, path, **more)

    def request(self, method: str, path: str, **more: Any) -> Any:
        """Send a request that must succeed and return the response's JSON."""
        return _successful(self.send(method, path, **more))


def sign_in(server: Endpoint, email: str, password: str) -> Person:
    """Sign in; upstream allows fifteen times in three minutes, so keep the result."""
    form = {"email": email, "password": password}
    account = _successful(server.send("POST", SIGN_IN, json=form))
    return Person(server, account["id"], account["role"], account["token"])


def _successful(response: httpx.Response) -> Any:
    if not response.is_success:
        request = f"{response.request.method} {response.request.url.path}"
        raise ClientError(f"{request}: HTTP {response.status_code}: {response.text[:200]}")
    return response.json()


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """One event for the page, with the time of its arrival by `perf_counter`."""

    at_s: float
    message: str
    kind: str
    data: Any

    @property
    def text(self) -> str:
        """Its piece of the answer."""
        return self._delta("response.output_text.delta")

    @property
    def thought(self) -> str:
        """Its piece of the thought before the answer, which the page folds."""
        return self._delta("response.reasoning_text.delta")

    @property
    def is_piece(self) -> bool:
        """Whether it has a piece of the thought or of the answer."""
        return bool(self.text or self.thought)

    def _delta(self, kind: str) -> str:
        if self.kind != "response:completion" or not isinstance(self.data, dict):
            return ""
        return str(self.data.get("delta") or "") if self.data.get("type") == kind else ""

    @property
    def error(self) -> str:
        """Its error, as the page shows it."""
        error = self.data.get("error") if isinstance(self.data, dict) else None
        if isinstance(error, dict):
            return str(error.get("content") or error.get("message") or error or "")
        return str(error or "")

    @property
    def last(self) -> bool:
        """Whether it ends the answer; a search for documents has an end, too."""
        done = isinstance(self.data, dict) and bool(self.data.get("done"))
        return done and self.kind in _LAST_KINDS


@dataclass(slots=True)
class Connection:
    """An open live connection, named by `id`: it answers pings and keeps all events."""

    id: str
    events: list[ChatEvent] = field(default_factory=list)
    pings: int = 0
    closed_s: float | None = None
    _news: threading.Condition = field(default_factory=threading.Condition)

    def read(self, socket: WebSocket) -> None:
        """Receive events until the connection is closed."""
        with suppress(ConnectionClosed):
            for message in socket:
                self._take(socket, str(message))
        with self._news:
            self.closed_s = time.perf_counter()
            self._news.notify_all()

    def _take(self, socket: WebSocket, message: str) -> None:
        if message == _PING:
            socket.send(_PONG)
        with self._news:
            self.pings += message == _PING
            if message.startswith(_EVENT):
                name, *payload = json.loads(message[len(_EVENT) :])
                if name == "events" and payload:
                    self.events.append(_event(payload[0]))
            self._news.notify_all()

    def until(self, met: Callable[[], bool], within_s: float) -> bool:
        """Wait at most `within_s` for a condition; return whether it is met."""
        with self._news:
            return self._news.wait_for(met, within_s)

    def of(self, message: str) -> list[ChatEvent]:
        """Return the events of one message."""
        with self._news:
            return [event for event in self.events if event.message == message]

    def ended(self, message: str, within_s: float) -> bool:
        """Wait until an answer has ended; return whether it has."""
        return self.until(lambda: any(event.last for event in self.of(message)), within_s)


def _event(payload: Mapping[str, Any]) -> ChatEvent:
    data = payload.get("data") or {}
    message = str(payload.get("message_id"))
    return ChatEvent(time.perf_counter(), message, str(data.get("type")), data.get("data"))


def open_socket(
    server: Endpoint, within_s: float, origin: str | None = None
) -> AbstractContextManager[WebSocket]:
    """Open the socket as a page from `origin` does; by default a page of this site."""
    origin = origin or f"{server.url.partition(':')[0]}://{server.host}"
    # A browser sends no pings: only the house's own keep the connection open.
    more = {"ping_interval": None, "max_size": _MAX_EVENT_BYTES}
    return opened(server, SOCKET, within_s, origin=Origin(origin), **more)


@contextmanager
def handshake(socket: WebSocket, token: str, within_s: float) -> Iterator[Connection]:
    """Authenticate by a sign-in's `token`, and receive events for as long as the block runs."""
    with client_errors(SOCKET, within_s):
        if not str(socket.recv(within_s)).startswith(_OPEN):
            raise ClientError(f"{SOCKET}: it is not an Engine.IO server")
        socket.send(_CONNECT + json.dumps({"token": token}))
        reply = str(socket.recv(within_s))
    if not reply.startswith(_CONNECT):
        raise ClientError(f"{SOCKET}: refused: {reply[:200]}")
    connection = Connection(json.loads(reply[len(_CONNECT) :])["sid"])
    reading = threading.Thread(target=connection.read, args=(socket,))
    reading.start()
    try:
        yield connection
    finally:
        socket.close()
        reading.join()


@contextmanager
def live_connection(person: Person, within_s: float = 10) -> Iterator[Connection]:
    """Open a person's live connection, for as long as the block runs."""
    with (
        open_socket(person.server, within_s) as socket,
        handshake(socket, person.token, within_s) as connection,
    ):
        yield connection


@dataclass(frozen=True, slots=True)
class Turn:
    """One message and the answer to it, by their names in the chat."""

    chat: str
    question: str
    answer: str
    asked_s: float


def message_body(
    connection: Connection, answer: str, text: str, model: str, parent: str | None = None
) -> dict[str, Any]:
    """Return the request by which a page sends a message; `answer` is the answer's new name."""
    return {
        "stream": True,
        "model": model,
        "session_id": connection.id,
        "id": answer,
        "parent_id": parent,
        "user_message": {
            "id": str(uuid.uuid4()),
            "parentId": parent,
            "childrenIds": [answer],
            "models": [model],
            "role": "user",
            "content": text,
            "timestamp": int(time.time()),
        },
        "background_tasks": {},
    }


def send_message(
    person: Person,
    connection: Connection,
    text: str,
    model: str,
    *,
    after: Turn | None = None,
    files: Sequence[Mapping[str, Any]] = (),
    tools: Sequence[str] = (),
    kept: bool = True,
    titled: bool = False,
    max_tokens: int | None = None,
) -> Turn:
    """Send a message, in a new chat or `after` a turn of one; a chat that is not `kept` is dropped.

    `files` are pictures and documents in the page's own form, `tools` the ids of tools that the
    model may call; with `titled` the model names the chat.
    """
    answer = str(uuid.uuid4())
    chat = after.chat if after else ("" if kept else f"temporary:{connection.id}")
    body = message_body(connection, answer, text, model, after.answer if after else None)
    if files:
        body["user_message"]["files"] = list(files)
    body |= {
        "background_tasks": {"title_generation": True} if titled else {},
        "params": {"max_tokens": max_tokens} if max_tokens else {},
        **({"chat_id": chat} if chat else {}),
        **({"tool_ids": list(tools)} if tools else {}),
        # Pictures belong to the message only.
        "files": [file for file in files if file["type"] != "image"] or None,
        # Of a stored chat the server knows the earlier messages.
        **({} if kept else {"messages": [{"role": "user", "content": text}]}),
    }
    began = time.perf_counter()
    reply = person.request("POST", COMPLETIONS, json=body)
    return Turn(chat or str(reply["chat_id"]), body["user_message"]["id"], answer, began)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The events of one answer."""

    turn: Turn
    events: Sequence[ChatEvent]

    @property
    def text(self) -> str:
        """The text that was streamed."""
        return "".join(event.text for event in self.events)

    @property
    def thought(self) -> str:
        """The thought before it."""
        return "".join(event.thought for event in self.events)

    @property
    def pieces(self) -> list[ChatEvent]:
        """The events with its pieces, of the thought or of the text."""
        return [event for event in self.events if event.is_piece]

    @property
    def first_s(self) -> float:
        """After how many seconds its first piece arrived."""
        if not self.pieces:
            kinds = sorted({event.kind for event in self.events})
            raise ClientError(f"nothing of an answer arrived, only {kinds}")
        return self.pieces[0].at_s - self.turn.asked_s

    @property
    def error(self) -> str:
        """The error that the page shows, if any."""
        return next((event.error for event in self.events if event.error), "")


def wait_for_answer(connection: Connection, turn: Turn, within_s: float) -> ChatAnswer:
    """Wait for an answer's end and return its events; ClientError if it does not end in time."""
    ended = connection.ended(turn.answer, within_s)
    answer = ChatAnswer(turn, connection.of(turn.answer))
    if not ended:
        cut = "; the connection was closed" if connection.closed_s else ""
        pieces = f"{len(answer.pieces)} pieces arrived{cut}"
        raise ClientError(f"the answer did not end in {within_s:g} s: {pieces}")
    return answer
