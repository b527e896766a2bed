"""One server while it is measured: asked within bounds, and given up when it only fails."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hearth.bench.served.ratios import health_of
from hearth.bench.served.watched import FAILURES, Watched
from hearth.bench.tts.call import Sample, fetch, listen
from hearth.bench.tts.report.figures import Case, ServerReport, Taken
from hearth.clients.endpoints import Endpoint, wait_until_idle
from hearth.clients.tts import SpeechRequest


@dataclass(slots=True)
class Target(Watched):
    """One server with all that was measured of it."""

    weigh_every = 10  # about four times a second

    server: Endpoint
    taken: Taken = field(default_factory=Taken)
    _failures: int = 0

    async def speak(self, case: Case, text: str) -> Sample:
        """Let the server speak one text, and keep what was heard."""
        (sample,) = await self.speak_at_once(case, [text])
        return sample

    async def speak_at_once(self, case: Case, texts: list[str]) -> list[Sample]:
        """Let the server speak several texts at once; nothing is asked of one that was given up."""
        if self.stopped:
            return [Sample(len(text), self.stopped) for text in texts]
        asks = [SpeechRequest(text, case.voice, case.format, case.streamed) for text in texts]
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
            await wait_until_idle(self.client)

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
