"""The core of the TTS and STT benchmarks: servers that are measured in turns, step by step."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import httpx

from hearth.bench.baseline import Baseline, Command, MakeRun
from hearth.bench.report import (
    BaselineFigures,
    Ratio,
    SampleT,
    figures_of,
    good,
    health_of,
    this_machine,
    values,
)
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, fetch_json, is_healthy, wait_until_idle
from hearth.clients.stats import spread

# So many failures in a row are no accident: more requests would only take hours.
FAILURES = 3
_HEALTH_EVERY_S = 0.025
_HEALTH_S = 5.0
# The number of health checks between two samples of memory.
_MEMORY_EVERY = 10

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, the next step)."""
Step = tuple[str, Callable[[], Awaitable[object]]]
"""What a step does, and the function that does it."""
CaseT = TypeVar("CaseT", bound=Any)
"""A kind of request: `what` names it; health is sampled meanwhile if it is `watched`."""


@dataclass(slots=True)
class MeasuredServer(Generic[CaseT, SampleT]):
    """One server with its samples and status; `stopped` is the reason for giving it up."""

    endpoint: Endpoint
    client: httpx.AsyncClient
    samples: dict[CaseT, list[SampleT]] = field(default_factory=dict)
    """By the kind of request, in the order of their first."""
    health_s: list[float | None] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int | None = None
    stopped: str = ""
    _failures: int = 0

    @property
    def name(self) -> str:
        """Its name in the report."""
        return self.endpoint.name

    def add(self, case: CaseT, samples: Sequence[SampleT]) -> None:
        """Keep samples, and give the server up when it only fails."""
        for sample in samples:
            self.samples.setdefault(case, []).append(sample)
            self._failures = self._failures + 1 if sample.error else 0
        if self._failures >= FAILURES:
            error = samples[-1].error
            self.stopped = f"given up after {self._failures} failures in a row: {error}"

    def good(self, case: CaseT) -> list[SampleT]:
        """Return the samples of one kind that succeeded."""
        return good(self.samples.get(case, ()))

    def values(self, case: CaseT, name: str) -> list[float]:
        """Return a field of the samples of one kind that succeeded."""
        return values(self.good(case), name)

    @contextlib.asynccontextmanager
    async def watched(self, yes: bool = True) -> AsyncIterator[None]:
        """Sample health and memory while the body runs, on a connection of its own."""
        if not yes:
            yield
            return
        async with self.endpoint.client() as client:
            watching = asyncio.create_task(self._watch(client))
            try:
                yield
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching

    async def _watch(self, client: httpx.AsyncClient) -> None:
        # The first request opens the connection and is not counted.
        await is_healthy(client, _HEALTH_S)
        for turn in itertools.count():
            if self.stopped:
                return
            # Only during the work: afterwards the server has given most of its memory back.
            if turn % _MEMORY_EVERY == 0 and self.memory_bytes is not None:
                with contextlib.suppress(ClientError):
                    await self.sample_memory(client)
            start = time.perf_counter()
            healthy = await is_healthy(client, _HEALTH_S)
            self.health_s.append(time.perf_counter() - start if healthy else None)
            await asyncio.sleep(_HEALTH_EVERY_S)

    async def sample_memory(self, client: httpx.AsyncClient | None = None) -> None:
        """Fetch the status, and keep the most memory in bytes (RSS) that it has reported.

        Raises:
            ClientError: the server does not answer.
        """
        self.status = await fetch_json(client or self.client, "/status") or self.status
        size = self.status.get("memory_bytes")
        if isinstance(size, int) and size:
            self.memory_bytes = max(size, self.memory_bytes or 0)

    def results(self, fields: Sequence[str], totals: Sequence[str] = ()) -> dict[str, Any]:
        """Return the fields of its report, with the figures of these fields of its samples."""
        threads = self.status.get("threads")
        return {
            "name": self.name,
            "url": self.endpoint.url,
            "model": self._text("model") or self.endpoint.model,
            "threads": threads if isinstance(threads, int) else None,
            "memory_bytes": self.memory_bytes,
            "status": {name: text for name in self.status if (text := self._text(name))},
            "figures": tuple(
                figures_of(case, each, fields, totals) for case, each in self.samples.items()
            ),
            "health": health_of(self.health_s),
            "stopped": self.stopped,
        }

    def _text(self, name: str) -> str:
        """Return a text of the status; of an object, its model or name."""
        value = self.status.get(name)
        if isinstance(value, Mapping):
            value = value.get("model") or value.get("name")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """How much is requested; every number bounds the load."""

    quick: bool = False
    runs: int = 10
    timeout_s: float = 3600.0
    """After so many seconds the run ends with the results until then."""
    parts: tuple[str, ...] = ()


Request = Callable[..., Awaitable[Sequence[Any]]]
"""Sends one request: (server, case, more) -> its samples."""
PlanT = TypeVar("PlanT", bound=BenchPlan)
ServerT = TypeVar("ServerT", bound=MeasuredServer[Any, Any])
ReportT = TypeVar("ReportT")


@dataclass(slots=True)
class Session(Generic[PlanT, ServerT, ReportT]):
    """One run: the first server is compared with its baseline, and the others with it."""

    server: ClassVar[Callable[..., Any]] = MeasuredServer
    offers: ClassVar[str]
    """What a service of a house offers that can be measured."""
    in_house: ClassVar[tuple[Command, str]]
    """Makes the command line of its baseline, and describes that."""

    plan: PlanT
    servers: Sequence[ServerT]
    baseline: Baseline
    progress: Progress = lambda done, of, what: None
    _reverse: bool = True

    async def warm_up(self) -> None:
        """Use every server before anything counts: it loads its model on first use."""
        raise NotImplementedError

    def ratios(self, server: ServerT) -> list[Ratio]:
        """Return every ratio of a server, each against what its own machine can do."""
        raise NotImplementedError

    def baseline_ms(self) -> dict[str, list[float]]:
        """Return the times of the baseline, by what was computed."""
        raise NotImplementedError

    def report(self, **run: Any) -> ReportT:
        """Return the report; `run` has the fields that the core fills."""
        raise NotImplementedError

    def steps(self) -> list[Step]:
        """Return all steps of the plan, in their order; each part has a method of its name."""
        planned = (step for part in self.plan.parts for step in getattr(self, f"_{part}")())
        return [("warming up", self.warm_up), *planned]

    async def run(self) -> str:
        """Do every step; return why that ended early, by the clock or by Ctrl-C."""
        try:
            async with asyncio.timeout(self.plan.timeout_s):
                steps = self.steps()
                for number, (what, work) in enumerate(steps):
                    self.progress(number, len(steps), what)
                    await work()
        except TimeoutError:
            return f"ended after {self.plan.timeout_s:g} s with the results until then"
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            return "interrupted: these are the results until then"
        return ""

    def in_turns(self, request: Request, *calls: tuple[Any, ...]) -> Iterator[Step]:
        """Send the requests, each a case with its arguments, to one server after the other.

        The order is reversed every second time: no server is always the first.
        """
        self._reverse = not self._reverse
        for server in self.servers[::-1] if self._reverse else self.servers:
            for case, *arguments in calls:
                work = partial(self.measured, server, request, case, *arguments)
                yield f"{case.what}, {server.name}", work

    async def measured(self, server: ServerT, request: Request, case: Any, *arguments: Any) -> None:
        """Send a request and keep its samples, unless the server was given up."""
        if server.stopped:
            return
        async with server.watched(case.watched):
            server.add(case, await request(server, case, *arguments))
        if not server.stopped:
            await wait_until_idle(server.client)


async def measure(
    kind: type[Session[PlanT, ServerT, ReportT]],
    endpoints: Sequence[Endpoint],
    plan: PlanT,
    *,
    baseline: MakeRun | None = None,
    how: str = "",
    **more: Any,
) -> ReportT:
    """Measure the first server, and the others in turns with it.

    Raises:
        ClientError: the first server does not answer, or a recording cannot be read.
    """
    started, clock, load = datetime.now(UTC), time.perf_counter(), os.getloadavg()[0]
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(one.client()) for one in endpoints]
        servers = [kind.server(*each) for each in zip(endpoints, clients, strict=True)]
        session = kind(plan, servers, await _prepare(servers, baseline), **more)
        stopped = await session.run()
    times = {what: each for what, some in session.baseline_ms().items() if (each := spread(some))}
    reason = "" if times else session.baseline.missing or "nothing was compared with it"
    return session.report(
        baseline=BaselineFigures(times, how, reason),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 1),
        quick=plan.quick,
        runs=plan.runs,
        machine=this_machine(load),
        ratios=tuple(row for server in servers for row in session.ratios(server)),
        stopped=stopped,
    )


async def _prepare(servers: Sequence[MeasuredServer[Any, Any]], make: MakeRun | None) -> Baseline:
    """Fetch the status of every server, and return the baseline of the first."""
    first, *others = servers
    await first.sample_memory()
    for other in others:
        try:
            await other.sample_memory()
        except ClientError as error:
            other.stopped = str(error)
    try:
        return Baseline(make(first.status), "") if make else Baseline()
    except ClientError as error:
        return Baseline(None, str(error))
