"""One open page of the chat: signed in, with its live line, asking as the page itself does."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from hearth.clients import ClientError
from hearth.clients.chat import (
    COMPLETIONS,
    ChatEvent,
    ChatServer,
    Connection,
    Person,
    live_connection,
    sign_in,
)
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import Sample

ADD, USERS = "/api/v1/auths/add", "/api/v1/users/"


@dataclass(frozen=True, slots=True)
class Page:
    """Somebody's open page; what it asks is a new chat each time, and is kept like any other."""

    person: Person
    line: Connection
    client: httpx.AsyncClient
    model: str
    call_s: float = 60.0

    async def ask(self, prompt: str, max_tokens: int) -> Sample:
        """Ask one thing and measure the answer from the click to what comes over the line."""
        answer = str(uuid.uuid4())
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self.call_s):
                said = await self.client.post(
                    COMPLETIONS, json=self._body(prompt, max_tokens, answer)
                )
                if not said.is_success:
                    return self._failed(start, f"HTTP {said.status_code}: {said.text[:200]}")
                await asyncio.to_thread(self._wait, answer)
        except TimeoutError:
            return self._failed(start, f"no whole answer within {self.call_s:g} s")
        except httpx.HTTPError as error:
            return self._failed(start, f"{type(error).__name__}: {error}")
        return self._sample(self.line.of(answer), start)

    def _wait(self, answer: str) -> None:
        def ended() -> bool:
            return any(event.last for event in self.line.of(answer))

        # A thread cannot be stopped from outside, so it has the deadline of its own.
        if not self.line.until(ended, self.call_s):
            raise TimeoutError

    def _body(self, prompt: str, max_tokens: int, answer: str) -> dict[str, Any]:
        question = str(uuid.uuid4())
        message = {
            **{"id": question, "parentId": None, "childrenIds": [answer], "role": "user"},
            **{"content": prompt, "timestamp": int(time.time()), "models": [self.model]},
        }
        return {
            **{"stream": True, "model": self.model, "session_id": self.line.id, "id": answer},
            **{"parent_id": None, "user_message": message},
            "params": {"max_tokens": max_tokens, "temperature": 0},
            # The title of a new chat is one more call of the model, and not this answer's.
            "background_tasks": {},
        }

    def _sample(self, events: Sequence[ChatEvent], start: float) -> Sample:
        pieces = [event for event in events if event.text]
        error = next((event.error for event in events if event.error), "")
        first_ms = (pieces[0].at_s - start) * 1000 if pieces else None
        if not pieces and not error:
            error = "an answer without a single token"
        total_ms = (events[-1].at_s - start) * 1000 if events else 0.0
        return Sample("chat", first_ms, total_ms, len(pieces), None, None, error)

    def _failed(self, start: float, error: str) -> Sample:
        return Sample("chat", None, (time.perf_counter() - start) * 1000, 0, None, None, error)


@contextmanager
def people(admin: Person, number: int) -> Iterator[list[Person]]:
    """Have the admin make ordinary accounts for as long as the block takes; nothing of them stays.

    Raises:
        ClientError: the chat refuses.
    """
    with ExitStack() as stack:
        made = []
        try:
            for count in range(number):
                email, word = f"bench-{secrets.token_hex(6)}@bench.invalid", secrets.token_urlsafe()
                form = {"name": f"Bench {count + 1}", "email": email, "password": word}
                admin.request("POST", ADD, json=form | {"role": "user"})
                person = sign_in(admin.server, email, word)
                stack.callback(admin.send, "DELETE", USERS + person.id)
                made.append(person)
        except ClientError as error:
            raise ClientError(f"no account could be made: {error}") from error
        yield made


@contextmanager
def lines(persons: Sequence[Person]) -> Iterator[list[Connection]]:
    """Open the live line of each.

    Raises:
        ClientError: one is refused.
    """
    with ExitStack() as stack:
        try:
            opened = [stack.enter_context(live_connection(person)) for person in persons]
        except ClientError as error:
            raise ClientError(f"no live line: {error}") from error
        yield opened


def client_of(person: Person) -> httpx.AsyncClient:
    """Return a client that keeps its connection to the chat, as a browser does."""
    door: ChatServer = person.server
    return Endpoint("chat", door.url, "", person.token, door.fqdn, door.trust).client()
