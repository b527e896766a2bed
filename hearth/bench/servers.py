"""A server while it is measured, and the parts of a run: the core of the TTS and STT benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import httpx

from hearth.bench.baseline import Baseline, MakeRun
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, fetch_json, is_healthy, wait_until_idle

# So many failures in a row are no accident: more requests would only take hours.
FAILURES = 3
_HEALTH_EVERY_S = 0.025
_HEALTH_S = 5.0


class Sample(Protocol):
    """The result of one request."""

    @property
    def error(self) -> str:
        """The reason for its failure, empty for none."""
        ...


CaseT = TypeVar("CaseT")
SampleT = TypeVar("SampleT", bound=Sample)


@dataclass(slots=True)
class MeasuredServer(Generic[CaseT, SampleT]):
    """One server with its samples and status; `stopped` is the reason for giving it up."""

    memory_every: ClassVar[int] = 10
    """The number of health checks between two samples of memory."""

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

    @contextlib.contextmanager
    def uncounted(self) -> Any:
        """Drop the samples that are taken in the block."""
        counted, self.samples = self.samples, {}
        yield
        self.samples = counted

    async def settle(self) -> None:
        """Wait until the server is idle, unless it was given up."""
        if not self.stopped:
            await wait_until_idle(self.client)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Sample health and memory while the body runs, on a connection of its own."""
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
            if turn % self.memory_every == 0 and self.memory_bytes is not None:
                with contextlib.suppress(ClientError):
                    await self.sample_memory(client)
            start = time.perf_counter()
            healthy = await is_healthy(client, _HEALTH_S)
            self.health_s.append(time.perf_counter() - start if healthy else None)
            await asyncio.sleep(_HEALTH_EVERY_S)

    async def sample_memory(self, client: httpx.AsyncClient | None = None) -> int | None:
        """Fetch the status; return its memory in bytes (RSS), where it has that.

        Raises:
            ClientError: the server does not answer.
        """
        self.status = await fetch_json(client or self.client, "/status") or self.status
        size = self.status.get("memory_bytes")
        if not isinstance(size, int) or not size:
            return None
        self.memory_bytes = max(size, self.memory_bytes or 0)
        return size

    def text(self, name: str) -> str:
        """Return a text of the status; of an object, its model or name."""
        value = self.status.get(name)
        if isinstance(value, Mapping):
            value = value.get("model") or value.get("name")
        return value if isinstance(value, str) else ""

    @property
    def threads(self) -> int | None:
        """The number of threads in its status."""
        value = self.status.get("threads")
        return value if isinstance(value, int) else None


def good(samples: Sequence[SampleT]) -> list[SampleT]:
    """Return the samples that succeeded."""
    return [sample for sample in samples if not sample.error]


def errors(samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return the errors of samples, each once."""
    return tuple(dict.fromkeys(sample.error for sample in samples if sample.error))


async def prepare(servers: Sequence[MeasuredServer[Any, Any]], make: MakeRun | None) -> Baseline:
    """Fetch the status of every server, and return the baseline of the first.

    Raises:
        ClientError: the first server does not answer.
    """
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


async def run_parts(parts: Sequence[Callable[[], Awaitable[None]]], within_s: float) -> str:
    """Run the parts of a benchmark; return why they ended early, by the clock or by Ctrl-C."""
    try:
        async with asyncio.timeout(within_s):
            for part in parts:
                await part()
    except TimeoutError:
        return f"ended after {within_s:g} s with the results until then"
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return "interrupted: these are the results until then"
    return ""
