"""Chat as a browser's page does: signed in, by name, over HTTPS, with its live line open beside it.

A message goes out by `POST /api/chat/completions`; what becomes of it comes over the line.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth.clients.edge import Edge
from hearth.clients.socketio import Event, Line, dialled, greeted

SIGN_IN = "/api/v1/auths/signin"
COMPLETIONS = "/api/chat/completions"


class ChatError(Exception):
    """One line for a person: what was asked, and why nothing came of it."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where a chat is reached; with `trust` by HTTPS, as `fqdn`, whatever the address is."""

    url: str
    fqdn: str
    trust: ssl.SSLContext | None = None

    def send(self, method: str, path: str, within_s: float = 60, **more: Any) -> httpx.Response:
        """Send one request and return its whole answer, whatever its status.

        Raises:
            ChatError: nobody answers.
        """
        headers = {"Host": self.fqdn, **more.pop("headers", {})}
        if self.trust:
            more["extensions"] = {"sni_hostname": self.fqdn}
        try:
            with httpx.Client(verify=self.trust or False, trust_env=False) as client:
                return client.request(
                    method, self.url + path, headers=headers, timeout=within_s, **more
                )
        except httpx.HTTPError as error:
            raise ChatError(f"{method} {path}: {error or type(error).__name__}") from error


def through(edge: Edge, fqdn: str) -> Door:
    """Return the way to a site by the house's front door."""
    return Door(f"https://{edge.address}", fqdn, edge.trust())


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in."""

    door: Door
    id: str
    role: str
    token: str = field(repr=False)

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request of this person and return the answer, whatever its status."""
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return self.door.send(method, path, headers=headers, **more)

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request that must be granted and return the answer's JSON.

        Raises:
            ChatError: it was not granted.
        """
        return _granted(self.send(method, path, **more))


def sign_in(door: Door, email: str, password: str) -> Person:
    """Sign in; upstream allows fifteen times in three minutes, so keep who comes back.

    Raises:
        ChatError: the address or the password is wrong.
    """
    form = {"email": email, "password": password}
    said = _granted(door.send("POST", SIGN_IN, json=form))
    return Person(door, said["id"], said["role"], said["token"])


@contextmanager
def live(person: Person, within_s: float = 10) -> Iterator[Line]:
    """Open a person's live line, for as long as the block takes.

    Raises:
        LineError: it is refused, or nobody answers.
    """
    door = person.door
    with (
        dialled(door.url, door.fqdn, door.trust, within_s) as call,
        greeted(call, person.token, within_s) as line,
    ):
        yield line


def _granted(answer: httpx.Response) -> Any:
    if not answer.is_success:
        asked = f"{answer.request.method} {answer.request.url.path}"
        raise ChatError(f"{asked}: HTTP {answer.status_code}: {answer.text[:200]}")
    return answer.json()


@dataclass(frozen=True, slots=True)
class Turn:
    """One message and the answer to it, by their names in the chat."""

    chat: str
    question: str
    answer: str
    asked_s: float

    @property
    def kept(self) -> bool:
        """Whether the chat is written down."""
        return not self.chat.startswith("temporary:")


def say(
    person: Person,
    line: Line,
    text: str,
    model: str,
    *,
    after: Turn | None = None,
    files: Sequence[Mapping[str, Any]] = (),
    kept: bool = True,
    titled: bool = False,
    most: int | None = None,
) -> Turn:
    """Write a message, in a new chat or `after` a turn of one; what is not `kept` is forgotten.

    `files` are pictures and documents in the page's own words; with `titled` the model names the
    chat; the answer has `most` tokens.

    Raises:
        ChatError: it was not taken.
    """
    question, answer = str(uuid.uuid4()), str(uuid.uuid4())
    parent = after.answer if after else None
    chat = after.chat if after else ("" if kept else f"temporary:{line.id}")
    message = {
        **{"id": question, "parentId": parent, "childrenIds": [answer], "models": [model]},
        **{"role": "user", "content": text, "timestamp": int(time.time())},
        **({"files": list(files)} if files else {}),
    }
    body = {
        **{"stream": True, "model": model, "session_id": line.id, "id": answer},
        **{"parent_id": parent, "user_message": message},
        "background_tasks": {"title_generation": True} if titled else {},
        "params": {"max_tokens": most} if most else {},
        **({"chat_id": chat} if chat else {}),
        # Pictures stand in the message alone.
        "files": [file for file in files if file["type"] != "image"] or None,
        # Of a chat that is kept the server knows what was said before.
        **({} if kept else {"messages": [{"role": "user", "content": text}]}),
    }
    began = time.perf_counter()
    said = person.ask("POST", COMPLETIONS, json=body)
    return Turn(chat or str(said["chat_id"]), question, answer, began)


@dataclass(frozen=True, slots=True)
class Heard:
    """What came over the line about one answer."""

    turn: Turn
    events: Sequence[Event]

    @property
    def text(self) -> str:
        """What was streamed of the answer."""
        return "".join(event.text for event in self.events)

    @property
    def pieces(self) -> list[Event]:
        """The pieces in which it came."""
        return [event for event in self.events if event.text]

    @property
    def first_s(self) -> float:
        """After how many seconds its first piece was there."""
        if not self.pieces:
            raise ChatError(f"no word came, only {sorted({event.kind for event in self.events})}")
        return self.pieces[0].at_s - self.turn.asked_s

    @property
    def error(self) -> str:
        """The trouble that the page shows, if any."""
        return next((event.error for event in self.events if event.error), "")


def hear(line: Line, turn: Turn, within_s: float) -> Heard:
    """Wait for an answer's end and return what came.

    Raises:
        ChatError: it did not end in time.
    """
    ended = line.until(lambda: any(event.last for event in line.of(turn.answer)), within_s)
    heard = Heard(turn, line.of(turn.answer))
    if not ended:
        cut = "; the line was cut" if line.closed_s else ""
        said = f"{len(heard.pieces)} pieces came{cut}"
        raise ChatError(f"the answer did not end in {within_s:g} s: {said}")
    return heard
