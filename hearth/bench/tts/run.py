"""Measures TTS servers in turns: phrases, longer texts, several clients, every format."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hearth.bench.baseline import Baseline, MakeRun
from hearth.bench.report import Ratio, health_of, ms, this_machine
from hearth.bench.servers import prepare, run_parts
from hearth.bench.tts import PARTS
from hearth.bench.tts.answer import Sample, analyse, fetch, first_piece
from hearth.bench.tts.decode import FORMATS
from hearth.bench.tts.figures import (
    FORM,
    FOUR,
    BaselineFigures,
    Case,
    Report,
    RoundFigures,
    ServerReport,
    figures_of,
)
from hearth.bench.tts.ratios import Measured, Round, TtsServer, ratios
from hearth.clients.endpoints import Endpoint
from hearth.clients.texts import LONG_CHARACTERS, SAMPLE, SHORT_CHARACTERS, Texts
from hearth.clients.tts import VOICE, SpeechRequest

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, the next step)."""
WARM_UPS = 2
NO_CADDY = "no path through Caddy: only a service of a house has one"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is requested; every number bounds the load."""

    quick: bool = False
    runs: int = 10
    cell_runs: int = 3
    long_characters: int = LONG_CHARACTERS
    # Each takes minutes: a third would take the whole far beyond a quarter of an hour.
    long_runs: int = 2
    clients: tuple[int, ...] = (FOUR, 8)
    formats: tuple[str, ...] = FORMATS
    voices: tuple[str, ...] = (VOICE, "bm_fable", "ef_dora")
    caddy_pairs: int = 20
    timeout_s: float = 3600.0
    parts: tuple[str, ...] = PARTS

    @property
    def voice(self) -> str:
        """The voice of all parts but formats."""
        return self.voices[0]

    @property
    def cells(self) -> list[Case]:
        """The formats and voices, streamed and not."""
        grid = itertools.product(self.formats, self.voices, (True, False))
        return [Case("sample", form, voice, streamed) for form, voice, streamed in grid]

    def steps(self, servers: int, through: bool) -> int:
        """Return the number of steps, for a progress bar."""
        each = {
            "phrase": 2 * self.runs,
            "paragraph": self.runs,
            "crowd": self.runs * len(self.clients),
            "long": self.long_runs,
            "formats": len(self.cells) * self.cell_runs,
        }
        once = {"phrase": self.runs, "caddy": self.caddy_pairs if through else 0}
        return sum(each.get(p, 0) * servers + once.get(p, 0) for p in self.parts)


def quick() -> Plan:
    """Return the plan of about a minute: everything once or a few times."""
    return Plan(
        quick=True,
        runs=3,
        cell_runs=1,
        long_characters=SHORT_CHARACTERS,
        long_runs=1,
        clients=(FOUR,),
        formats=("pcm", "mp3"),
        voices=(VOICE,),
        caddy_pairs=10,
        timeout_s=600.0,
    )


@dataclass(slots=True)
class Session:
    """One run: the first server is compared with its baseline, and the others with it."""

    plan: Plan
    servers: Sequence[TtsServer]
    baseline: Baseline
    through: TtsServer | None = None
    """The first server again, through Caddy."""
    progress: Progress = lambda done, of, what: None
    texts: Texts = field(default_factory=Texts)
    rounds: list[Round] = field(default_factory=list)
    caddy_s: list[tuple[float, float]] = field(default_factory=list)
    _done: int = 0

    async def run(self) -> str:
        """Measure everything; return why it ended early."""
        rounds, caddy, paragraphs = self._rounds, self._caddy, self._paragraphs
        parts = (rounds, caddy, paragraphs, self._crowds, self._long, self._cells)
        work = [part for name, part in zip(PARTS, parts, strict=True) if name in self.plan.parts]
        return await run_parts([self._warm_up, *work], self.plan.timeout_s)

    async def _warm_up(self) -> None:
        """Let every server speak before anything counts: it loads its model on first use."""
        for server in self.servers:
            with server.uncounted():
                for _ in range(WARM_UPS):
                    await speak(server, Case("phrase"), self.texts.phrase(self.plan.voice))
        await self.baseline.seconds([SAMPLE])

    async def _rounds(self) -> None:
        for number in range(self.plan.runs):
            await self._round(number)

    async def _round(self, number: int) -> None:
        """Speak one fresh phrase and repeat it, with every server and the baseline, in turns."""
        voice = self.plan.voice
        phrase, around = self.texts.phrase(voice), Round()
        self.rounds.append(around)
        for server in self._turns(number):
            self._step(f"phrase, {server.name}")
            around.fresh[server.name] = await speak(server, Case("phrase", voice=voice), phrase)
            await server.settle()
            self._step(f"repeated phrase, {server.name}")
            await speak(server, Case("phrase", voice=voice, repeated=True), phrase)
            await server.settle()
        self._step("baseline")
        if self.baseline.run is not None:
            first = self.servers[0]
            request = SpeechRequest(phrase, voice)
            around.first_piece = await first_piece(first.client, first.endpoint, request)
            await first.settle()
            texts = [phrase] + ([around.first_piece] if around.first_piece else [])
            seconds = await self.baseline.seconds(texts)
            if seconds:
                around.baseline_whole_s = seconds[0]
                around.baseline_first_s = seconds[1] if len(seconds) > 1 else None

    async def _caddy(self) -> None:
        """Compare the path through Caddy with the direct one, by a text that the server caches."""
        if self.through is None:
            return
        paths, case = (self.servers[0], self.through), Case("caddy", voice=self.plan.voice)
        # Once each uncounted: this opens the connections and fills the server's cache.
        for number in range(-1, self.plan.caddy_pairs):
            first_byte_s: dict[int, float] = {}
            for which in (0, 1) if number % 2 else (1, 0):
                sample = await speak(paths[which], case, SAMPLE)
                if sample.first_byte_s is not None:
                    first_byte_s[which] = sample.first_byte_s
            if number < 0:
                continue
            self._step("through Caddy")
            if len(first_byte_s) == len(paths):
                self.caddy_s.append((first_byte_s[0], first_byte_s[1]))

    async def _paragraphs(self) -> None:
        case = Case("paragraph", voice=self.plan.voice)
        for number in range(self.plan.runs):
            for server in self._turns(number):
                self._step(f"paragraph, {server.name}")
                async with server.watched():
                    await speak(server, case, self.texts.paragraph())

    async def _crowds(self) -> None:
        for clients, number in itertools.product(self.plan.clients, range(self.plan.runs)):
            case = Case("phrase", voice=self.plan.voice, clients=clients)
            for server in self._turns(number):
                self._step(f"{clients} at once, {server.name}")
                texts = [self.texts.phrase(self.plan.voice) for _ in range(clients)]
                async with server.watched():
                    await speak_at_once(server, case, texts)
                await server.settle()

    async def _long(self) -> None:
        for number in range(self.plan.long_runs):
            text = self.texts.long(self.plan.long_characters)
            for server in self._turns(number):
                self._step(f"{len(text):,} characters, {server.name}")
                async with server.watched():
                    await speak(server, Case("long", voice=self.plan.voice), text)

    async def _cells(self) -> None:
        for number, case in itertools.product(range(self.plan.cell_runs), self.plan.cells):
            for server in self._turns(number):
                how = "streamed" if case.streamed else "whole"
                self._step(f"{case.format}, {case.voice}, {how}, {server.name}")
                await speak(server, case, self.texts.phrase(case.voice))

    def _turns(self, number: int) -> list[TtsServer]:
        """Return the servers, every second time in reverse order: none is always the first."""
        order = list(self.servers)
        return order[::-1] if number % 2 else order

    def _step(self, what: str) -> None:
        steps = self.plan.steps(len(self.servers), self.through is not None)
        self.progress(self._done, steps, what)
        self._done += 1


async def speak(server: TtsServer, case: Case, text: str) -> Sample:
    """Let the server speak one text, and keep the sample."""
    (sample,) = await speak_at_once(server, case, [text])
    return sample


async def speak_at_once(server: TtsServer, case: Case, texts: list[str]) -> list[Sample]:
    """Let the server speak several texts at once; one that was given up gets no requests."""
    if server.stopped:
        return [Sample(len(text), server.stopped) for text in texts]
    requests = [SpeechRequest(text, case.voice, case.format, case.streamed) for text in texts]
    answers = await asyncio.gather(*(fetch(server.client, server.endpoint, r) for r in requests))
    samples = [analyse(answer) for answer in answers]
    server.add(case, samples)
    return samples


async def bench_tts(
    endpoints: Sequence[Endpoint],
    plan: Plan,
    *,
    baseline: MakeRun | None = None,
    how: str = "",
    through: Endpoint | None = None,
    progress: Progress = lambda done, of, what: None,
) -> Report:
    """Measure the first server, and the others in turns with it.

    Raises:
        ClientError: the first server does not answer.
    """
    started, clock, load = datetime.now(UTC), time.perf_counter(), os.getloadavg()[0]
    async with contextlib.AsyncExitStack() as stack:
        every = [
            TtsServer(endpoint, await stack.enter_async_context(endpoint.client()))
            for endpoint in [*endpoints, *([through] if through else [])]
        ]
        servers, caddy = every[: len(endpoints)], every[-1] if through else None
        session = Session(plan, servers, await prepare(servers, baseline), caddy, progress)
        stopped = await session.run()
    return Report(
        form=FORM,
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 1),
        quick=plan.quick,
        runs=plan.runs,
        machine=this_machine(load),
        servers=tuple(_server_report(server) for server in servers),
        baseline=_baseline_figures(session, how),
        rounds=tuple(_round_figures(around) for around in session.rounds),
        ratios=tuple(_ratios(session)),
        stopped=stopped,
    )


def _ratios(session: Session) -> list[Ratio]:
    rows = []
    no_caddy = NO_CADDY
    if session.through is not None:
        errors = [s.error for samples in session.through.samples.values() for s in samples]
        no_caddy = next(filter(None, errors), session.through.stopped or "no pair was answered")
    for number, server in enumerate(session.servers):
        rows += ratios(
            Measured(
                server=server,
                voice=session.plan.voice,
                rounds=session.rounds,
                caddy_s=session.caddy_s if number == 0 else (),
                primary=number == 0,
                no_baseline=session.baseline.missing
                or "the server does not report its first piece",
                no_caddy=no_caddy,
            )
        )
    return rows


def _server_report(server: TtsServer) -> ServerReport:
    return ServerReport(
        name=server.name,
        url=server.endpoint.url,
        engine=server.text("engine"),
        provider=server.text("provider"),
        model=server.text("model") or server.endpoint.model,
        model_sha256=server.text("model_sha256"),
        threads=server.threads,
        memory_bytes=server.memory_bytes,
        figures=tuple(figures_of(case, samples) for case, samples in server.samples.items()),
        health=health_of(server.health_s),
        stopped=server.stopped,
    )


def _baseline_figures(session: Session, how: str) -> BaselineFigures:
    whole = ms([around.baseline_whole_s for around in session.rounds])
    pieces = [around.first_piece for around in session.rounds if around.first_piece]
    return BaselineFigures(
        first_piece_ms=ms([around.baseline_first_s for around in session.rounds]),
        whole_ms=whole,
        first_piece=pieces[-1] if pieces else "",
        how=how,
        reason="" if whole else session.baseline.missing or "no round was completed",
    )


def _round_figures(around: Round) -> RoundFigures:
    def in_ms(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * 1000

    good = {name: sample for name, sample in around.fresh.items() if not sample.error}
    return RoundFigures(
        ttfa_ms={name: in_ms(sample.ttfa_s) for name, sample in good.items()},
        last_byte_ms={name: sample.last_byte_s * 1000 for name, sample in good.items()},
        first_piece=around.first_piece,
        baseline_first_ms=in_ms(around.baseline_first_s),
        baseline_whole_ms=in_ms(around.baseline_whole_s),
    )
