"""One server while it is measured: asked within bounds, and given up when it only fails."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth.bench import BenchError
from hearth.bench.speech import Ask
from hearth.bench.tts.call import Sample, Server, ask_json, fetch, is_well, listen
from hearth.bench.tts.pieces import settled
from hearth.bench.tts.report.figures import Case, ServerReport, Taken, health_of

# So many failures in a row are no accident: asking on would only take hours.
FAILURES = 3
HEALTH_EVERY_S = 0.025
# In questions for health: about four times a second.
WEIGH_EVERY = 10
_HEALTH_S = 5.0


@dataclass(slots=True)
class Target:
    """One server with all that was measured of it."""

    server: Server
    client: httpx.AsyncClient
    taken: Taken = field(default_factory=Taken)
    health_s: list[float | None] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int | None = None
    stopped: str = ""
    _failures: int = 0

    async def begin(self) -> None:
        """Learn what the server says of itself.

        Raises:
            BenchError: nobody answers there.
        """
        self.status = await ask_json(self.client, "/status")
        self._weigh(self.status)

    async def speak(self, case: Case, text: str) -> Sample:
        """Let the server speak one text, and keep what was heard."""
        (sample,) = await self.speak_at_once(case, [text])
        return sample

    async def speak_at_once(self, case: Case, texts: list[str]) -> list[Sample]:
        """Let the server speak several texts at once; nothing is asked of one that was given up."""
        if self.stopped:
            return [Sample(len(text), self.stopped) for text in texts]
        asks = [Ask(text, case.voice, case.format, case.streamed) for text in texts]
        arrived = await asyncio.gather(*(fetch(self.client, self.server, ask) for ask in asks))
        samples = [listen(one) for one in arrived]
        for sample in samples:
            self.taken.add(case, sample)
            self._failures = self._failures + 1 if sample.error else 0
        if self._failures >= FAILURES:
            self.stopped = f"given up after {self._failures} failures in a row: {samples[-1].error}"
        return samples

    async def settle(self) -> None:
        """Wait until the server does nothing; one that was given up is not waited for."""
        if not self.stopped:
            await settled(self.client)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Ask for health and memory while the body runs, on a connection of its own."""
        async with self.server.client() as client:
            asking = asyncio.create_task(self._watch(client))
            try:
                yield
            finally:
                asking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asking

    async def _watch(self, client: httpx.AsyncClient) -> None:
        # The first question opens the connection; what a server does is in those that follow.
        await is_well(client, _HEALTH_S)
        for turn in itertools.count():
            if self.stopped:
                return
            # What it takes is seen while it speaks: afterwards it has given most of it back.
            if turn % WEIGH_EVERY == 0 and self.memory_bytes is not None:
                with contextlib.suppress(BenchError):
                    self._weigh(await ask_json(client, "/status"))
            start = time.perf_counter()
            well = await is_well(client, _HEALTH_S)
            self.health_s.append(time.perf_counter() - start if well else None)
            await asyncio.sleep(HEALTH_EVERY_S)

    def _weigh(self, said: Mapping[str, Any]) -> None:
        """Keep the most memory that the server has said."""
        size = said.get("memory_bytes")
        if isinstance(size, int) and size:
            self.memory_bytes = max(size, self.memory_bytes or 0)

    def report(self) -> ServerReport:
        """Return what was measured."""
        said = self.status
        threads = said.get("threads")
        return ServerReport(
            name=self.server.name,
            url=self.server.url,
            engine=str(said.get("engine", "")),
            provider=str(said.get("provider", "")),
            model=str(said.get("model", self.server.model)),
            model_sha256=str(said.get("model_sha256", "")),
            threads=threads if isinstance(threads, int) else None,
            memory_bytes=self.memory_bytes,
            figures=self.taken.figures(),
            health=health_of(self.health_s),
            stopped=self.stopped,
        )
