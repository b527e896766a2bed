"""The cost of the chat: the first word in a page and from the gateway, for several people.

They send messages from open pages of the chat, as a page does.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import httpx
from rich.console import RenderableType

from hearth.bench.baseline import main_pid
from hearth.bench.report import Ratio, missed, ratio
from hearth.bench.session import Progress
from hearth.bench.turns import TIMES, Comparison, User, added_text, compare, comparison_section
from hearth.bench.view import Section, ratio_section, terminal
from hearth.catalogue.house import Service
from hearth.clients import ClientError, health
from hearth.clients.chat import (
    COMPLETIONS,
    Connection,
    Person,
    live_connection,
    message_body,
    sign_in,
)
from hearth.clients.llm import Sample
from hearth.machine import engine

# Several people start within so long of each other, never in the same millisecond.
APART_S = 1.0
# What a person does not notice.
MEDIAN_MS, P95_MS = 60.0, 150.0
READY_S = 20.0
_ASK_S, _POLL_S = 30.0, 0.1
ADD, USERS = "/api/v1/auths/add", "/api/v1/users/"


@dataclass(frozen=True, slots=True)
class ChatProcess:
    """The chat's own process; `ready_s` is known only after a restart."""

    memory_bytes: int | None = None
    ready_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChatReport:
    """The results of `hearth bench chat`; all users of a round start within `apart_s`."""

    model: str
    users: int
    apart_s: float
    calls: Comparison
    process: ChatProcess
    ratios: tuple[Ratio, ...]

    @property
    def fine(self) -> bool:
        """Whether every question was answered and no target was missed."""
        return self.calls.fine and not missed(self.ratios, "chat")


async def bench_chat(
    model: str,
    users: Sequence[User],
    *,
    rounds: int = 20,
    apart_s: float = APART_S,
    timeout_s: float = 1800.0,
    process: ChatProcess = ChatProcess(),
    progress: Progress = lambda done, of, what: None,
) -> ChatReport:
    """Measure the first word directly and in the chat, for several users."""
    calls = await compare(
        users, "chat", rounds, apart_s=apart_s, timeout_s=timeout_s, progress=progress
    )
    added, each, ready_s = calls.added_first_ms, calls.added_ms, process.ready_s
    what, why = "first word, in the chat - directly", "no pair of calls was answered"
    n, started = each.n if each else 0, int(ready_s is not None)
    rows = (
        (f"{what}, median", "ms", MEDIAN_MS, added.median if added else None, n, why),
        (f"{what}, p95", "ms", P95_MS, each.p95 if each else None, n, why),
        ("ready after a start", "s", READY_S, ready_s, started, "not restarted: add --restart"),
    )
    ratios = tuple(ratio("chat", *row) for row in rows)
    return ChatReport(model, len(users), apart_s, calls, process, ratios)


def chat_view(report: ChatReport) -> RenderableType:
    """Return the figures of both endpoints, the cost and memory of the chat, and the errors."""
    crowd = f"{report.users} in the same instant"
    if report.apart_s:
        crowd = f"{report.users} who start within {report.apart_s:g} s"
    size = report.process.memory_bytes
    lines = [added_text(report.calls.added_first_ms, "chat", "word")]
    lines += [f"Its process has {size / 2**20:.0f} MiB of memory."] if size else []
    return terminal(
        [
            comparison_section(f"{report.model}, {crowd}", TIMES, report.calls),
            ratio_section(report.ratios, "chat"),
            Section(lines=lines),
        ]
    )


@dataclass(frozen=True, slots=True)
class Page:
    """A person's open page; each message starts a new chat, which is stored like any other."""

    connection: Connection
    client: httpx.AsyncClient
    model: str
    call_s: float = 60.0

    async def measure(self, prompt: str, max_tokens: int) -> Sample:
        """Send a message and measure the answer from the click to its end."""
        answer, error = str(uuid.uuid4()), ""
        body = message_body(self.connection, answer, prompt, self.model)
        body["params"] = {"max_tokens": max_tokens, "temperature": 0}
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self.call_s):
                response = await self.client.post(COMPLETIONS, json=body)
                if not response.is_success:
                    error = f"HTTP {response.status_code}: {response.text[:200]}"
                # A thread cannot be stopped from outside, so it has a deadline of its own.
                elif not await asyncio.to_thread(self.connection.ended, answer, self.call_s):
                    raise TimeoutError
        except TimeoutError:
            error = f"no complete answer within {self.call_s:g} s"
        except httpx.HTTPError as failure:
            error = f"{type(failure).__name__}: {failure}"
        if error:
            return Sample("chat", None, (time.perf_counter() - start) * 1000, 0, None, None, error)
        events = self.connection.of(answer)
        texts = [event for event in events if event.text]
        pieces = [event for event in events if event.is_piece]
        error = next((event.error for event in events if event.error), "")
        if not pieces and not error:
            error = "an answer without a single token"
        first_ms = (pieces[0].at_s - start) * 1000 if pieces else None
        answer_ms = (texts[0].at_s - start) * 1000 if texts else None
        total_ms = (events[-1].at_s - start) * 1000 if events else 0.0
        return Sample("chat", first_ms, total_ms, len(pieces), None, None, error, answer_ms)


@asynccontextmanager
async def open_pages(admin: Person, number: int, model: str) -> AsyncIterator[list[Page]]:
    """Have the admin create ordinary accounts for as long as the block runs, and delete them.

    Each has an open page with a live connection, and a client that keeps its connection to the
    chat, as a browser does.

    Raises:
        ClientError: the chat refuses.
    """
    chat, pages = admin.server, []
    async with AsyncExitStack() as stack:
        for count in range(number):
            email, word = f"bench-{secrets.token_hex(6)}@bench.invalid", secrets.token_urlsafe()
            form = {"name": f"Bench {count + 1}", "email": email, "password": word, "role": "user"}
            try:
                admin.request("POST", ADD, json=form)
                person = sign_in(chat, email, word)
            except ClientError as error:
                raise ClientError(f"no account could be created: {error}") from error
            stack.callback(admin.send, "DELETE", USERS + person.id)
            try:
                connection = stack.enter_context(live_connection(person))
            except ClientError as error:
                raise ClientError(f"no live connection: {error}") from error
            client = await stack.enter_async_context(replace(chat, key=person.token).client())
            pages.append(Page(connection, client, model))
        yield pages


def inspect_process(service: Service, restart: bool) -> ChatProcess:
    """Return the chat's process, restarted first if requested.

    Raises:
        ClientError: it does not become ready.
        EngineError: its instance cannot be inspected.
    """
    ready_s = _restart(service) if restart else None
    return ChatProcess(_memory(service), ready_s)


def _restart(service: Service) -> float:
    argv = ["/usr/bin/systemctl", "restart", "--no-block", service.unit]
    # The old one may still answer while it ends.
    was, start = main_pid(service), time.perf_counter()
    done = engine.execute(service.system, argv, timeout=_ASK_S)
    if done.returncode:
        raise ClientError(f"{service.name} cannot be restarted: {done.stderr.strip()[-200:]}")
    is_new = False
    while time.perf_counter() - start < service.health.ready_s:
        is_new = is_new or main_pid(service) not in {was, 0}
        if is_new and health.check(service).healthy:
            return time.perf_counter() - start
        time.sleep(_POLL_S)
    raise ClientError(f"{service.name} was not ready {service.health.ready_s:g} s after its start")


def _memory(service: Service) -> int | None:
    status = engine.read_file(None, f"/proc/{main_pid(service)}/status")
    resident = re.search(r"^VmRSS:\s*(\d+)", status, re.MULTILINE)
    return int(resident[1]) * 1024 if resident else None
