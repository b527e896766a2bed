"""People who send messages from open pages of the chat as a page does; the chat's process."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from hearth.bench.chat import ChatProcess
from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.clients.chat import (
    COMPLETIONS,
    ChatEvent,
    Connection,
    Person,
    live_connection,
    message_body,
    sign_in,
)
from hearth.clients.endpoints import Endpoint
from hearth.clients.health import fault
from hearth.clients.llm import Sample
from hearth.machine import engine

_ASK_S, _POLL_S = 30.0, 0.1
ADD, USERS = "/api/v1/auths/add", "/api/v1/users/"


@dataclass(frozen=True, slots=True)
class Page:
    """A person's open page; each message starts a new chat, which is stored like any other."""

    person: Person
    connection: Connection
    client: httpx.AsyncClient
    model: str
    call_s: float = 60.0

    async def measure(self, prompt: str, max_tokens: int) -> Sample:
        """Send a message and measure the answer from the click to its end."""
        answer = str(uuid.uuid4())
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self.call_s):
                response = await self.client.post(
                    COMPLETIONS, json=self._body(prompt, max_tokens, answer)
                )
                if not response.is_success:
                    return self._failed(
                        start, f"HTTP {response.status_code}: {response.text[:200]}"
                    )
                await asyncio.to_thread(self._wait, answer)
        except TimeoutError:
            return self._failed(start, f"no complete answer within {self.call_s:g} s")
        except httpx.HTTPError as error:
            return self._failed(start, f"{type(error).__name__}: {error}")
        return self._sample(self.connection.of(answer), start)

    def _wait(self, answer: str) -> None:
        # A thread cannot be stopped from outside, so it has a deadline of its own.
        if not self.connection.ended(answer, self.call_s):
            raise TimeoutError

    def _body(self, prompt: str, max_tokens: int, answer: str) -> dict[str, Any]:
        body = message_body(self.connection, answer, prompt, self.model)
        return body | {"params": {"max_tokens": max_tokens, "temperature": 0}}

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
    """Have the admin create ordinary accounts for as long as the block runs, and delete them.

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
            raise ClientError(f"no account could be created: {error}") from error
        yield made


@contextmanager
def connections(persons: Sequence[Person]) -> Iterator[list[Connection]]:
    """Open the live connection of each.

    Raises:
        ClientError: one is refused.
    """
    with ExitStack() as stack:
        try:
            opened = [stack.enter_context(live_connection(person)) for person in persons]
        except ClientError as error:
            raise ClientError(f"no live connection: {error}") from error
        yield opened


def client_for(person: Person) -> httpx.AsyncClient:
    """Return a client that keeps its connection to the chat, as a browser does."""
    return replace(person.server, key=person.token).client()


def inspect_process(service: Service, server: Endpoint, restart: bool) -> ChatProcess:
    """Return the chat's process, restarted first if requested.

    Raises:
        ClientError: it does not become ready.
        EngineError: its instance cannot be inspected.
    """
    ready_s = _restart(service, server) if restart else None
    return ChatProcess(_memory(service), ready_s)


def _restart(service: Service, server: Endpoint) -> float:
    argv = ["/usr/bin/systemctl", "restart", "--no-block", service.unit]
    # The old one may still answer while it ends.
    was, start = _process(service), time.perf_counter()
    done = engine.execute(service.instance, argv, timeout=_ASK_S)
    if done.returncode:
        raise ClientError(f"{service.name} cannot be restarted: {done.stderr.strip()[-200:]}")
    is_new = False
    while time.perf_counter() - start < service.health.ready_s:
        is_new = is_new or _process(service) not in {was, 0}
        if is_new and _healthy(service, server):
            return time.perf_counter() - start
        time.sleep(_POLL_S)
    raise ClientError(f"{service.name} was not ready {service.health.ready_s:g} s after its start")


def _healthy(service: Service, server: Endpoint) -> bool:
    try:
        answer = server.send("GET", service.health.path, within_s=service.health.within_s)
    except ClientError:
        return False
    return not fault(service.health, answer.status_code, answer.text)


def _process(service: Service) -> int:
    argv = ["/usr/bin/systemctl", "show", service.unit, "--property=MainPID", "--value"]
    pid = engine.execute(service.instance, argv, timeout=_ASK_S).stdout.strip()
    return int(pid) if pid.isdecimal() else 0


def _memory(service: Service) -> int | None:
    status = engine.read_file(service.instance, f"/proc/{_process(service)}/status")
    resident = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "")
    words = resident.split()
    return int(words[1]) * 1024 if len(words) > 1 else None
