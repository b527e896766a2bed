"""Measures STT servers in turns: utterances, files, several speakers, background noise."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from hearth.bench.baseline import Baseline, MakeRun
from hearth.bench.report import Ratio, health_of, ms, this_machine
from hearth.bench.servers import prepare, run_parts
from hearth.bench.stt import PARTS, USUAL
from hearth.bench.stt.extras import count_word_errors, detect_voice, loop_memory
from hearth.bench.stt.figures import (
    FORM,
    BaselineFigures,
    Case,
    Report,
    ServerReport,
    figures_of,
)
from hearth.bench.stt.ratios import (
    CROWD,
    FILE,
    FOUR,
    LIVE,
    BaselineTimes,
    Measured,
    SttServer,
    good_finals,
    ratios,
)
from hearth.bench.stt.requests import StreamResult, stream_at_once, transcribe
from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import Utterance, concatenated, utterances
from hearth.clients.stt import NoStreamError, StreamOptions

Progress = Callable[[str], None]
"""Called with the next step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is requested; every number bounds the load. `runs` counts those of 3 s."""

    quick: bool = False
    runs: int = 10
    block: int = 5
    """So many utterances alternate with as many baselines of them."""
    lengths: tuple[int, ...] = (1, 10, 30)
    """The lengths beside 3 s; the longer, the fewer rounds."""
    clients: int = FOUR
    long_s: int = 120
    vad_s: int = 60
    vad_runs: int = 3
    loop_s: int = 3600
    lead_s: float = 0.4
    """The least length of noise before the speech."""
    end_of_speech_ms: int = 500
    timeout_s: float = 3600.0
    """All parts together; `memory` has the length of its sound in addition."""
    spoken: Path | None = None
    """A folder of recordings, each with its words beside it in a file that ends in .txt."""
    parts: tuple[str, ...] = field(default=USUAL)

    @property
    def within_s(self) -> float:
        """After so many seconds the run ends with the results until then."""
        return self.timeout_s + (self.loop_s if "memory" in self.parts else 0)

    def rounds(self, length_s: int) -> int:
        """Return the number of rounds of utterances of a length."""
        return max(1, self.runs // {1: 2, 3: 1, 10: 3}.get(length_s, 5))

    @property
    def few(self) -> int:
        """The number of rounds of what takes long, or is only for comparison."""
        return max(1, self.runs // 3)


def quick() -> Plan:
    """Return the plan of about two minutes: everything once or a few times."""
    return Plan(quick=True, runs=3, lengths=(1, 10), long_s=0, vad_runs=1, timeout_s=600.0)


@dataclass(slots=True)
class Session:
    """One run: the first server is compared with its baseline, and the others with it."""

    plan: Plan
    servers: Sequence[SttServer]
    baseline: Baseline
    progress: Progress = lambda what: None
    times: BaselineTimes = field(default_factory=BaselineTimes)
    _reverse: bool = True
    # Speakers start at random moments, but at the same ones in every run.
    _draw: random.Random = field(default_factory=lambda: random.Random(5))  # noqa: S311

    async def run(self) -> str:
        """Measure everything; return why it ended early."""
        parts = (self._live, self._files, self._crowds, self._vad, self._words, self._memory)
        work = [part for name, part in zip(PARTS, parts, strict=True) if name in self.plan.parts]
        return await run_parts([self._warm_up, *work], self.plan.within_s)

    async def _warm_up(self) -> None:
        """Use every server once before anything counts: it loads its model on first use."""
        for server in self.servers:
            self.progress(f"warming up, {server.name}")
            with server.uncounted():
                await write(server, FILE, utterances(3)[0].pcm)
                await talk(server, LIVE, [utterances(1)[0]], StreamOptions(self.plan.lead_s))

    async def _live(self) -> None:
        """Speak utterances of every length; those of 3 s in turns with baselines of the same."""
        spoken = itertools.cycle(utterances(LIVE.seconds))
        for number in range(0, self.plan.runs, self.plan.block):
            some = [next(spoken) for _ in range(min(self.plan.block, self.plan.runs - number))]
            for utterance in some:
                await self._say(LIVE, utterance)
            self.times.three_s += await self._baseline([one.pcm for one in some])
        variants = (
            (Case("live without partials", LIVE.seconds), StreamOptions(partials=False)),
            (Case("flush", LIVE.seconds), StreamOptions(flush=True)),
        )
        for case, options in variants:
            for _ in range(self.plan.few):
                await self._say(case, next(spoken), options)
        for length_s in self.plan.lengths:
            others = itertools.cycle(utterances(length_s))
            for _ in range(self.plan.rounds(length_s)):
                await self._say(Case("live", length_s), next(others))

    async def _say(
        self, case: Case, utterance: Utterance, options: StreamOptions | None = None
    ) -> None:
        options = replace(
            options or StreamOptions(),
            lead_s=self.plan.lead_s * (1 + self._draw.random()),
            end_of_speech_ms=self.plan.end_of_speech_ms,
        )
        for server in self._turns(case):
            async with contextlib.AsyncExitStack() as stack:
                # Health checks beside a short utterance would be part of the result.
                if case.seconds > LIVE.seconds:
                    await stack.enter_async_context(server.watched())
                await talk(server, case, [utterance], options)
            await server.settle()

    async def _files(self) -> None:
        """Transcribe a file of 30 s in turns with baselines, and a longer one."""
        (utterance, *_) = utterances(FILE.seconds)
        for _ in range(self.plan.few):
            await self._write(FILE, utterance.pcm)
            self.times.thirty_s += await self._baseline([utterance.pcm])
        if self.plan.long_s:
            await self._write(Case("file", self.plan.long_s), concatenated(self.plan.long_s))

    async def _write(self, case: Case, pcm: bytes) -> None:
        for server in self._turns(case):
            async with server.watched():
                await write(server, case, pcm)
            await server.settle()

    async def _crowds(self) -> None:
        """Let four speak at once, in turns with baselines of the four one after the other."""
        some = list(itertools.islice(itertools.cycle(utterances(CROWD.seconds)), self.plan.clients))
        options = StreamOptions(self.plan.lead_s, self.plan.end_of_speech_ms)
        for _ in range(self.plan.few):
            last: dict[str, float] = {}
            for server in self._turns(CROWD):
                async with server.watched():
                    finals = good_finals(await talk(server, CROWD, some, options))
                if len(finals) == len(some):
                    last[server.name] = max(finals)
                await server.settle()
            calls = await self._baseline([one.pcm for one in some])
            self.times.four_s += [(name, s, sum(calls)) for name, s in last.items() if calls]

    async def _vad(self) -> None:
        for server in self._turns():
            self.progress(f"background noise, {server.name}")
            server.vad = await detect_voice(server, self.plan.vad_s, self.plan.vad_runs)

    async def _words(self) -> None:
        for server in self._turns():
            self.progress(f"words, {server.name}")
            server.words = await count_word_errors(server, self.plan.spoken)

    async def _memory(self) -> None:
        async with self.servers[0].watched():
            await loop_memory(self.servers[0], self.plan.loop_s, self.progress)

    async def _baseline(self, sounds: Sequence[bytes]) -> list[float]:
        if self.baseline.run is not None:
            self.progress("baseline")
        return await self.baseline.seconds(sounds)

    def _turns(self, case: Case | None = None) -> list[SttServer]:
        """Return the servers, every second time in reverse order: none is always the first."""
        self._reverse = not self._reverse
        if case:
            self.progress(f"{case.what}, {case.seconds} s")
        return list(self.servers)[::-1] if self._reverse else list(self.servers)


async def talk(
    server: SttServer, case: Case, spoken: Sequence[Utterance], options: StreamOptions
) -> list[StreamResult]:
    """Let speakers start together; a server that was given up, or has no streams, gets none."""
    if server.stopped or not server.streams:
        return []
    try:
        results = await stream_at_once(server.endpoint, spoken, options)
    except NoStreamError:
        server.streams = False
        return []
    server.add(case, results)
    return results


async def write(server: SttServer, case: Case, pcm: bytes) -> None:
    """Let the server transcribe a file, unless it was given up."""
    if not server.stopped:
        server.add(case, [await transcribe(server.client, server.endpoint, pcm)])


async def bench_stt(
    endpoints: Sequence[Endpoint],
    plan: Plan,
    *,
    baseline: MakeRun | None = None,
    how: str = "",
    progress: Progress = lambda what: None,
) -> Report:
    """Measure the first server, and the others in turns with it.

    Raises:
        ClientError: the first server does not answer, or a recording cannot be read.
    """
    started, clock, load = datetime.now(UTC), time.perf_counter(), os.getloadavg()[0]
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            SttServer(endpoint, await stack.enter_async_context(endpoint.client()))
            for endpoint in endpoints
        ]
        session = Session(plan, servers, await prepare(servers, baseline), progress)
        stopped = await session.run()
    return Report(
        form=FORM,
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 1),
        quick=plan.quick,
        runs=plan.runs,
        end_of_speech_ms=plan.end_of_speech_ms,
        machine=this_machine(load),
        servers=tuple(_server_report(server) for server in servers),
        baseline=_baseline_figures(session, how),
        ratios=tuple(_ratios(session)),
        stopped=stopped,
    )


def _ratios(session: Session) -> list[Ratio]:
    missing, threshold = session.baseline.missing, session.plan.end_of_speech_ms
    return [
        row
        for number, server in enumerate(session.servers)
        for row in ratios(Measured(server, threshold, session.times, number == 0, missing))
    ]


def _baseline_figures(session: Session, how: str) -> BaselineFigures:
    times, name = session.times, session.servers[0].name
    three, thirty = ms(times.three_s), ms(times.thirty_s)
    four = ms([seconds for server, _, seconds in times.four_s if server == name])
    if three or thirty or four:
        return BaselineFigures(three, thirty, four, how, "")
    reason = session.baseline.missing or "no part that was run needs it"
    return BaselineFigures(None, None, None, "", reason)


def _server_report(server: SttServer) -> ServerReport:
    return ServerReport(
        name=server.name,
        url=server.endpoint.url,
        model=server.text("model") or server.endpoint.model,
        draft=server.text("draft"),
        device=server.text("device"),
        compute_type=server.text("compute_type"),
        threads=server.threads,
        choice_reason=server.text("choice_reason"),
        memory_bytes=server.memory_bytes,
        streams=server.streams,
        figures=tuple(figures_of(case, results) for case, results in server.samples.items()),
        vad=server.vad,
        words=server.words,
        loop=server.loop,
        health=health_of(server.health_s),
        stopped=server.stopped,
    )
