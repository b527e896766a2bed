"""One server while it is measured: asked within bounds, and given up when it only fails."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth.bench import BenchError
from hearth.bench.stt.call import Written, transcribe
from hearth.bench.stt.heard import Heard, talk, talk_at_once
from hearth.bench.stt.line import Manner, NoSocketError
from hearth.bench.stt.report.figures import Case, Loop, ServerReport, Taken, Vad, Words
from hearth.bench.stt.spoken import Utterance
from hearth.bench.tts.call import Server, ask_json, is_well
from hearth.bench.tts.report.figures import health_of

# So many failures in a row are no accident: asking on would only take hours.
FAILURES = 3
HEALTH_EVERY_S = 0.025
# In questions for health: about once a second.
WEIGH_EVERY = 40
_HEALTH_S = 5.0


@dataclass(slots=True)
class Target:
    """One server with all that was measured of it; `socket` is False once it has shown none."""

    server: Server
    client: httpx.AsyncClient
    taken: Taken = field(default_factory=Taken)
    health_s: list[float | None] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int | None = None
    socket: bool = True
    vad: Vad | None = None
    words: Words | None = None
    loop: Loop | None = None
    stopped: str = ""
    _failures: int = 0

    async def begin(self) -> None:
        """Learn what the server says of itself.

        Raises:
            BenchError: nobody answers there.
        """
        await self.weigh()

    async def talk(self, case: Case, utterance: Utterance, manner: Manner) -> Heard | None:
        """Say one utterance and keep what came; None where there is no socket."""
        taken = await self.talk_at_once(case, [utterance], manner)
        return taken[0] if taken else None

    async def talk_at_once(
        self, case: Case, spoken: Sequence[Utterance], manner: Manner
    ) -> list[Heard]:
        """Let several talkers begin together; nothing is asked of a server that was given up."""
        if self.stopped or not self.socket:
            return []
        try:
            if len(spoken) == 1:
                samples = [await talk(self.server, spoken[0], manner)]
            else:
                samples = await talk_at_once(self.server, spoken, manner)
        except NoSocketError:
            self.socket = False
            return []
        for sample in samples:
            self.keep(case, sample)
        return samples

    async def write(self, case: Case, pcm: bytes) -> Written:
        """Let the server transcribe a file, and keep what came."""
        if self.stopped:
            return Written(1.0, self.stopped)
        written = await transcribe(self.client, self.server, pcm)
        self.keep(case, written)
        return written

    def keep(self, case: Case, sample: Heard | Written) -> None:
        """Keep one sample, and give the server up when it only fails."""
        self.taken.add(case, sample)
        self._failures = self._failures + 1 if sample.error else 0
        if self._failures >= FAILURES:
            self.stopped = f"given up after {self._failures} failures in a row: {sample.error}"

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
            if turn % WEIGH_EVERY == 0 and self.memory_bytes is not None:
                with contextlib.suppress(BenchError):
                    await self.weigh()
            start = time.perf_counter()
            well = await is_well(client, _HEALTH_S)
            self.health_s.append(time.perf_counter() - start if well else None)
            await asyncio.sleep(HEALTH_EVERY_S)

    async def weigh(self) -> int | None:
        """Ask what the server says of itself; return its memory in bytes, where it says that.

        Raises:
            BenchError: nobody answers there.
        """
        self.status = await ask_json(self.client, "/status") or self.status
        size = self.status.get("memory_bytes")
        if not isinstance(size, int) or not size:
            return None
        self.memory_bytes = max(size, self.memory_bytes or 0)
        return size

    def report(self) -> ServerReport:
        """Return what was measured."""
        said = self.status
        threads = said.get("threads")
        return ServerReport(
            name=self.server.name,
            url=self.server.url,
            model=_text(said, "model") or self.server.model,
            draft=_text(said, "draft"),
            device=_text(said, "device"),
            compute_type=_text(said, "compute_type"),
            threads=threads if isinstance(threads, int) else None,
            chosen_because=_text(said, "chosen_because"),
            memory_bytes=self.memory_bytes,
            socket=self.socket,
            figures=self.taken.figures(),
            vad=self.vad,
            words=self.words,
            loop=self.loop,
            health=health_of(self.health_s),
            stopped=self.stopped,
        )


def _text(said: Mapping[str, Any], name: str) -> str:
    """Return what a status says under a name; of a thing with parts, its own name."""
    value = said.get(name)
    if isinstance(value, Mapping):
        value = value.get("model") or value.get("name")
    return value if isinstance(value, str) else ""
