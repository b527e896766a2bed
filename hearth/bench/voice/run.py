"""Measures the calls of a house: turns beside their parts, pauses, interruptions, and the cost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx

from hearth.bench.report import (
    Ratio,
    Report,
    ServerReport,
    good,
    health_ratio,
    median,
    median_ratio,
    ratio,
    values,
)
from hearth.bench.session import BenchPlan, MeasuredServer, Session, Step
from hearth.bench.voice import requests
from hearth.bench.voice.requests import (
    FIELDS,
    PLAIN,
    SEMANTIC,
    TOTALS,
    CallSample,
    VoiceCase,
    VoicePaths,
    instructions,
)
from hearth.clients.calls import TooManyCallsError, calling
from hearth.clients.endpoints import client_errors
from hearth.clients.recordings import Question, Utterance, questions, utterances
from hearth.clients.stats import NOT_UNDERSTOOD, error_rate, spread
from hearth.clients.texts import Texts

FORM = "hearth-bench-voice/1"
PARTS = ("turn", "pause", "interruption", "crowd", "idle")
TEXT, TOKEN, SOUND = (
    VoiceCase(f"{what}, alone") for what in ("final text", "first token", "first sound")
)
ALONE = (TEXT, TOKEN, SOUND)
LATE, EARLY = VoiceCase("a turn, without speculation"), VoiceCase("a turn")
BARGE_IN = VoiceCase("an interruption")
GLUE_MS, BUDGET_MS, STOPS_MS = 50.0, 800.0, 200.0
FALSE_SHARE, MEMORY_MB = 5.0, 200.0
_OPEN_S = 30.0
DETECTIONS = {"by its text": SEMANTIC, "by silence alone": PLAIN}

_CPU = re.compile(r"^process_cpu_seconds_total (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class VoicePlan(BenchPlan):
    """How much is requested; every number bounds the load. `runs` counts the turns of each kind."""

    parts: tuple[str, ...] = PARTS
    pauses_s: tuple[float, ...] = (0.3, 0.6, 0.9, 1.2)
    asked: int = 8
    """So many questions are asked with each of the pauses."""
    idle_s: float = 60.0

    @property
    def few(self) -> int:
        """The number of rounds of what takes long."""
        return max(1, self.runs // 3)


QUICK = VoicePlan(quick=True, runs=3, pauses_s=(0.3, 1.2), asked=2, idle_s=10.0, timeout_s=600.0)
"""About three minutes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the service takes: without a call, and with as many as it answers.

    `call_share` is the share of one core that each call takes while people ask and listen.
    """

    limit: int | None = None
    refused: str = ""
    """What a caller is told who is one too many; empty if they were answered."""
    idle_share: float | None = None
    idle_memory_bytes: int | None = None
    call_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceReport(Report):
    """The results of one run of `hearth bench voice`; `stopped` is the reason for an early end."""

    cost: Cost


VoiceServer = MeasuredServer[VoiceCase, CallSample]


@dataclass(slots=True)
class VoiceSession(Session[VoicePlan, VoiceServer, VoiceReport]):
    """One run: each turn beside its parts alone, in turns."""

    paths: VoicePaths = field(kw_only=True)
    on_gpu: bool = False
    """Whether the model computes on a graphics card."""
    cost: Cost = Cost()
    spoken: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What was said and what was understood, by how the end of a turn is detected."""

    _texts: Texts = field(default_factory=Texts)

    @property
    def _server(self) -> VoiceServer:
        return self.servers[0]

    async def warm_up(self) -> None:
        """Use all that a call uses: models are loaded on first use."""
        sample = await requests.turn(self.paths.call, questions()[0].whole, instructions())
        if sample.error:
            self._server.stopped = f"no turn was answered: {sample.error}"

    def _turn(self) -> Iterator[Step]:
        """Ask each question with and without speculation, and its parts alone, in one round."""
        asked = itertools.islice(itertools.cycle(questions()), self.plan.runs)
        for number, question in enumerate(asked):
            yield "turns and their parts", partial(self._round, question.whole, number % 2 == 1)

    async def _round(self, question: Utterance, reverse: bool) -> None:
        paths, told = self.paths, instructions()
        text = await requests.text_alone(paths.recogniser, question)
        words = text.text.strip() or question.text
        async with httpx.AsyncClient(trust_env=False) as client:
            token = await requests.token_alone(client, paths.gateway, told, words)
        sound = await requests.sound_alone(paths.speaker, self._texts.phrase())
        alone = dict(zip(ALONE, (text, token, sound), strict=True))
        for case, sample in alone.items():
            self._keep(case, sample)
        times = values(good(list(alone.values())), "total_ms")
        sum_ms = sum(times) if len(times) == len(ALONE) else None
        for case in (EARLY, LATE) if reverse else (LATE, EARLY):
            sample = await requests.turn(
                *(paths.call, question, instructions()), speculates=case is EARLY, sum_ms=sum_ms
            )
            self._keep(case, sample)

    def _keep(self, case: VoiceCase, *samples: CallSample) -> None:
        if not self._server.stopped:
            self._server.add(case, samples)

    def _pause(self) -> Iterator[Step]:
        """Pause within questions, with each way to detect the end, in turns."""
        asked = questions()[: self.plan.asked]
        for pause_s, question in itertools.product(self.plan.pauses_s, asked):
            for way in DETECTIONS:
                yield f"a pause of {pause_s:g} s", partial(self._ask_paused, question, pause_s, way)

    async def _ask_paused(self, question: Question, pause_s: float, way: str) -> None:
        if self._server.stopped:
            return
        sample = await requests.paused(self.paths.call, question, pause_s, DETECTIONS[way])
        self._keep(VoiceCase(f"a pause, end {way}", pause_s=pause_s), sample)
        if not sample.error:
            self.spoken.setdefault(way, []).append((question.text, sample.text))

    def _interruption(self) -> Iterator[Step]:
        for number in range(self.plan.runs):
            asked, other = questions()[number % len(questions())].whole, utterances(1)[number % 3]
            yield "interruptions", partial(self._interrupt, asked, other)

    async def _interrupt(self, question: Utterance, other: Utterance) -> None:
        if not self._server.stopped:
            self._keep(BARGE_IN, await requests.interrupted(self.paths.call, question, other))

    def _crowd(self) -> Iterator[Step]:
        for _ in range(self.plan.few):
            yield "as many calls as it answers", self._together
        yield "one call too many", self._one_too_many

    @property
    def _limit(self) -> int:
        return int(self._server.status.get("limit") or 0)

    async def _together(self) -> None:
        server, number = self._server, self._limit
        if server.stopped or not number:
            return
        asked = [one.whole for one in itertools.islice(itertools.cycle(questions()), number)]
        before, began = await self._cpu_s(), time.perf_counter()
        async with server.watched():
            samples = await asyncio.gather(
                *(
                    # People do not start in the same instant.
                    requests.turn(self.paths.call, one, instructions(), after_s=each / number)
                    for each, one in enumerate(asked)
                )
            )
        took_s = time.perf_counter() - began
        self._keep(VoiceCase("a turn", calls=number), *samples)
        share = (await self._cpu_s() - before) / took_s / number
        self.cost = replace(self.cost, call_share=share)

    async def _cpu_s(self) -> float:
        """Return the seconds of a processor that the service has used since its start."""
        with client_errors("/metrics", _OPEN_S):
            text = (await self._server.client.get("/metrics", timeout=_OPEN_S)).text
        found = _CPU.search(text)
        return float(found[1]) if found else math.nan

    async def _one_too_many(self) -> None:
        refused = ""
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(self._limit):
                await stack.enter_async_context(calling(self.paths.call, _OPEN_S, silent=True))
            try:
                await stack.enter_async_context(calling(self.paths.call, _OPEN_S, silent=True))
            except TooManyCallsError as error:
                refused = str(error)
        self.cost = replace(self.cost, limit=self._limit, refused=refused)

    def _idle(self) -> Iterator[Step]:
        yield "nobody calls", self._wait

    async def _wait(self) -> None:
        server = self._server
        before = await self._cpu_s()
        await asyncio.sleep(self.plan.idle_s)
        share = (await self._cpu_s() - before) / self.plan.idle_s
        await server.sample_memory()
        size = server.status.get("memory_bytes")
        self.cost = replace(self.cost, idle_share=share, idle_memory_bytes=size)

    def baseline_ms(self) -> dict[str, list[float]]:
        """Return nothing: the parts of a turn are measured alone instead."""
        return {}

    def report(self, **run: Any) -> VoiceReport:
        """Return the report; `run` has the fields that the core fills."""
        server = ServerReport(**self._server.results(FIELDS, TOTALS))
        return VoiceReport(form=FORM, servers=(server,), cost=self.cost, **run)

    def ratios(self, server: VoiceServer) -> list[Ratio]:
        """Return every figure with its target."""
        rows = self._turn_ratios(server) if "turn" in self.plan.parts else []
        rows += self._pause_ratios(server) if "pause" in self.plan.parts else []
        if "interruption" in self.plan.parts:
            times = spread(server.values(BARGE_IN, "stopped_ms"))
            what = "first syllable of an interruption → the voice is told to stop, p95"
            value, n = (times.p95, times.n) if times else (None, 0)
            why = "nothing was interrupted"
            rows.append(ratio(server.name, what, "ms", STOPS_MS, value, n, why))
        if "crowd" in self.plan.parts:
            rows += self._crowd_ratios(server)
        if "idle" in self.plan.parts:
            size = self.cost.idle_memory_bytes
            value, n, why = size and size / 1e6, int(bool(size)), "/status has no memory"
            rows.append(ratio(server.name, "memory", "MB", MEMORY_MB, value, n, why))
        return rows

    def _turn_ratios(self, server: VoiceServer) -> list[Ratio]:
        added = server.values(EARLY, "added_ms")
        slower = 100 * sum(one >= 0 for one in added) / len(added) if added else None
        late, why = server.values(LATE, "added_ms"), "no turn had all its parts"
        what = "a turn without speculation, beyond final text + first token + first sound"
        share = "turns with speculation that are not faster than that sum"
        rows = [
            median_ratio(server.name, what, "ms", GLUE_MS, late, why),
            ratio(server.name, share, "%", 50.0, slower, len(added), why),
        ]
        total, only = server.values(EARLY, "total_ms"), "a target of graphics cards only"
        value = median(total) if self.on_gpu else None
        what = "end of speech → first sound"
        return [*rows, ratio(server.name, what, "ms", BUDGET_MS, value, len(total), only)]

    def _pause_ratios(self, server: VoiceServer) -> list[Ratio]:
        way = next(iter(DETECTIONS))
        found = [one for case in _paused(server, way) for one in server.good(case)]
        false = [float(one.false_ends or 0) for one in found]
        value, why = 100 * sum(false) / len(false) if false else None, "no question was heard"
        rate = error_rate(self.spoken.get(way, []))
        if rate is not None and rate > NOT_UNDERSTOOD:
            value, why = None, "the recogniser does not understand the words"
        what = f"pauses taken for the end of a turn, {way}"
        return [ratio(server.name, what, "%", FALSE_SHARE, value, len(false), why)]

    def _crowd_ratios(self, server: VoiceServer) -> list[Ratio]:
        samples = [
            one
            for case in server.samples
            if case.what == "a turn" and case.calls > 1
            for one in server.good(case)
        ]
        stalls = float(sum(one.stalls or 0 for one in samples)) if samples else None
        limit = self.cost.limit
        answered = None if limit is None else float(not self.cost.refused)
        return [
            ratio(
                *(server.name, "stalls in as many calls as it answers", "", 0.0, stalls),
                *(len(samples), "nobody was answered"),
            ),
            ratio(
                *(server.name, "calls beyond the limit that are answered", "", 0.0, answered),
                *(int(limit is not None), "not tried"),
            ),
            health_ratio(server.name, "/health p99 meanwhile", server.health_s),
        ]


def _paused(server: VoiceServer, way: str) -> list[VoiceCase]:
    return [case for case in server.samples if case.what == f"a pause, end {way}"]
