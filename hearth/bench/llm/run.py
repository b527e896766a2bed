"""Measures language models one after the other, so that each is loaded once.

Every result is kept at once (journal.py). A run that was interrupted goes on with what is missing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
from pydantic import TypeAdapter

from hearth.bench.accelerator import Proof, loaded_entry, unload
from hearth.bench.llm.journal import END, Journal
from hearth.bench.llm.report import (
    FORM,
    Expected,
    InMemory,
    LlmReport,
    ModelReport,
    Slowed,
    causes,
    figure_of,
    gateway_pairs,
    matches,
)
from hearth.bench.llm.requests import (
    COLD,
    DIRECT,
    FIELDS,
    GATEWAY,
    LONG,
    PAIR,
    PROMPTS,
    THOUGHT,
    TOOL,
    TOTALS,
    LlmCase,
    LlmSample,
    Target,
    send,
)
from hearth.bench.report import BenchMachine, figures_of, this_machine
from hearth.bench.session import FAILURES, BenchPlan, Progress
from hearth.clients import ClientError
from hearth.clients.llm import JsonCall
from hearth.clients.stats import paired_difference
from hearth.machine import card_usage, slowed
from hearth.machine.power import Energy, PowerMeter

PARTS = ("cold", "prompts", "long", "tool", "thought", "clients", "gateway", "accelerator")
HEAD, LOADED, PROOF, SLOWED, NOTHING = "head", "loaded", "proof", "slowed", ""
_IDLE_S = 2.0
# Room for the answer, and for the words of a template.
_CONTEXT_PART = 0.75

Expect = Callable[[Target, Mapping[str, Any]], dict[str, Expected]]
"""Predicts a model by who predicts: (target, Ollama's details of the model) -> predictions."""
Prove = Callable[[Target], Awaitable[Proof]]
Step = tuple[str, Callable[[], Awaitable[object]]]


@dataclass(frozen=True, slots=True)
class LlmPlan(BenchPlan):
    """How much is requested of each model."""

    runs: int = 3
    timeout_s: float = 6 * 3600.0
    parts: tuple[str, ...] = PARTS
    clients: tuple[int, ...] = (2, 4, 8)
    long_tokens: int = 4096
    pairs: int = 100


QUICK = LlmPlan(quick=True, runs=1, clients=(4,), long_tokens=1024, pairs=10, timeout_s=1800.0)


@dataclass(slots=True)
class LlmBench:
    """One run over some models; `journal` has what an interrupted run left."""

    plan: LlmPlan
    targets: Sequence[Target]
    journal: Journal
    client: httpx.AsyncClient
    ollama: Callable[[Target], JsonCall]
    prove: Prove
    expect: Expect
    meter: PowerMeter
    progress: Progress = lambda done, of, what: None
    skipped: dict[str, str] = field(default_factory=dict)
    stopped_models: dict[str, str] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    """Those in a row, by path."""
    _heat: int = 0

    async def run(self) -> LlmReport:
        """Do every step that is missing, and return the report, also of an interrupted run."""
        clock, stopped = time.perf_counter(), ""
        try:
            async with asyncio.timeout(self.plan.timeout_s):
                await self._idle()
                await self._all()
        except TimeoutError:
            stopped = f"ended after {self.plan.timeout_s:g} s: the same command goes on from here"
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            stopped = "interrupted: the same command goes on from here"
        except OSError as error:
            stopped = f"{self.journal.path}: {error.strerror}: free some space; the same command "
            stopped += "goes on from here"
        if not stopped:
            self.journal.add(NOTHING, END, True)
        return self._report(time.perf_counter() - clock, stopped)

    async def _all(self) -> None:
        steps = [
            (target, self._steps(number, target)) for number, target in enumerate(self.targets)
        ]
        of, done = sum(len(some) for _, some in steps), 0
        for target, some in steps:
            missing = [one for one in some if not self._is_done(target.name, one[0])]
            done += len(some) - len(missing)
            try:
                await self._measure(target, missing, done, of)
            except ClientError as error:
                self.stopped_models[target.name] = str(error)
            done += len(missing)

    def _is_done(self, model: str, step: str) -> bool:
        """Return whether a step has a result; one that failed is done again."""
        result = self.journal.results.get((model, step))
        if isinstance(result, list) and any(sample["error"] for _, sample in result):
            self.journal.drop(model, step)
            return False
        return result is not None

    async def _measure(self, target: Target, missing: list[Step], done: int, of: int) -> None:
        self._heat, warm = slowed.heat_events(), False
        self._failures.clear()
        for number, (name, work) in enumerate(missing):
            self.progress(done + number, of, f"{target.name}: {name}")
            if not (warm or name == LOADED or name.startswith(COLD)):
                # Connections are opened, and the model is loaded, before anything counts.
                await self._send(target, [LlmCase("short", path) for path in (DIRECT, GATEWAY)])
                warm = True
            await work()
            if target.name in self.stopped_models:
                return

    def _steps(self, number: int, target: Target) -> list[Step]:
        """Return all steps of a model in their order; each part has a method of its name."""
        found: list[Step] = [(LOADED, partial(self._in_memory, target))]
        for part in self.plan.parts:
            # What the gateway adds does not depend on the model.
            if part != "gateway" or number == 0:
                found += getattr(self, f"_{part}")(target)
        return found

    def _cold(self, target: Target) -> Iterator[Step]:
        yield from self._rounds(target, COLD, 1 if self.plan.quick else 2)

    def _prompts(self, target: Target) -> Iterator[Step]:
        for what in PROMPTS:
            yield from self._rounds(target, what, self.plan.runs)
        yield SLOWED, partial(self._look_for_causes, target)

    def _long(self, target: Target) -> Iterator[Step]:
        yield from self._rounds(target, LONG, 1)

    def _tool(self, target: Target) -> Iterator[Step]:
        yield from self._rounds(target, TOOL, self.plan.runs if target.calls else 0)

    def _thought(self, target: Target) -> Iterator[Step]:
        yield from self._rounds(target, THOUGHT, 1 if target.quiet else 0)

    def _clients(self, target: Target) -> Iterator[Step]:
        for clients in self.plan.clients:
            yield from self._rounds(target, "coding", 1, clients)

    def _gateway(self, target: Target) -> Iterator[Step]:
        yield from self._rounds(target, PAIR, self.plan.pairs)

    def _accelerator(self, target: Target) -> Iterator[Step]:
        yield PROOF, partial(self._prove, target)

    def _rounds(self, target: Target, what: str, runs: int, clients: int = 1) -> Iterator[Step]:
        """Yield rounds on both paths in turns; neither is always first."""
        for number in range(runs):
            order = -1 if number % 2 else 1
            both = [LlmCase(what, path, clients) for path in (DIRECT, GATEWAY)][::order]
            at_once = f" by {clients}" if clients > 1 else ""
            name = f"{what}{at_once}, {number + 1} of {runs}"
            yield name, partial(self._round, target, name, both)

    async def _round(self, target: Target, name: str, both: Sequence[LlmCase]) -> None:
        result = []
        for case in both:
            if case.what == COLD:
                await unload(self.ollama(target), target.id)
            for sample in await self._send(target, [case]):
                self._failures[case.path] += 1
                self._failures[case.path] *= bool(sample.error)
                result.append([asdict(case), asdict(sample)])
                if self._failures[case.path] >= FAILURES:
                    why = f"given up after {FAILURES} failures in a row ({case.path})"
                    self.stopped_models[target.name] = f"{why}: {sample.error}"
        self.journal.add(target.name, name, result)

    async def _send(self, target: Target, cases: Sequence[LlmCase]) -> list[LlmSample]:
        long_tokens = min(self.plan.long_tokens, int(target.context * _CONTEXT_PART))
        found: list[LlmSample] = []
        for case in cases:
            found += await send(self.client, target, case, long_tokens, self.meter)
        return found

    async def _in_memory(self, target: Target) -> None:
        """Load the model, and note what its load adds to the cards' memory."""
        call = self.ollama(target)
        await unload(call, target.id)
        before = await asyncio.to_thread(card_usage.memory_used)
        (sample,) = await self._send(target, [LlmCase("short")])
        if sample.error:
            raise ClientError(f"{target.id} cannot be loaded: {sample.error}")
        after = await asyncio.to_thread(card_usage.memory_used)
        there = await loaded_entry(call, target.id)
        if there is None:
            raise ClientError(f"{target.id} is not in memory after an answer")
        size, vram = (int(there.get(key) or 0) for key in ("size", "size_vram"))
        # Ollama counts a processor's AMX buffers as a card's.
        vram = 0 if target.cardless else vram
        found = InMemory(
            size,
            min(size, vram),
            there.get("context_length"),
            {card: used - before.get(card, 0) for card, used in after.items()},
        )
        details = {"details": there.get("details") or {}, "digest": there.get("digest") or ""}
        self.journal.add(target.name, LOADED, details | {"in_memory": asdict(found)})

    async def _look_for_causes(self, target: Target) -> None:
        held = await asyncio.to_thread(slowed.throttled, self._heat)
        seen = Slowed(held, slowed.memory_modules())
        self.journal.add(target.name, SLOWED, asdict(seen))

    async def _prove(self, target: Target) -> None:
        self.journal.add(target.name, PROOF, asdict(await self.prove(target)))

    async def _idle(self) -> None:
        """Measure the power of the idle machine once."""
        if not self._is_done(NOTHING, "idle"):
            energy = Energy()
            if self.meter.names:
                async with self.meter.measured() as energy:
                    await asyncio.sleep(_IDLE_S)
            self.journal.add(NOTHING, "idle", {"watts": energy.watts})

    def _report(self, seconds: float, stopped: str) -> LlmReport:
        head = self.journal.head
        idle = self.journal.results.get((NOTHING, "idle")) or {}
        return LlmReport(
            form=FORM,
            started=head["started"],
            seconds=round(seconds, 1),
            quick=self.plan.quick,
            runs=self.plan.runs,
            long_tokens=self.plan.long_tokens,
            machine=TypeAdapter(BenchMachine).validate_python(head["machine"]),
            versions=head["versions"],
            watts_from=tuple(self.meter.names),
            idle_watts=idle.get("watts"),
            models=tuple(map(self._model, self.targets)),
            skipped=self.skipped,
            stopped=stopped,
        )

    def samples(self, target: Target) -> dict[LlmCase, list[LlmSample]]:
        """Return all samples of a model by their case, in the order of its steps."""
        case_of, sample_of = TypeAdapter(LlmCase), TypeAdapter(LlmSample)
        found: dict[LlmCase, list[LlmSample]] = {}
        for (name, _), result in self.journal.results.items():
            if name == target.name and isinstance(result, list):
                for case, sample in result:
                    each = found.setdefault(case_of.validate_python(case), [])
                    each.append(sample_of.validate_python(sample))
        return found

    def _model(self, target: Target) -> ModelReport:
        def kept(step: str) -> Any:
            return self.journal.results.get((target.name, step)) or {}

        samples, loaded = self.samples(target), kept(LOADED)
        in_memory = TypeAdapter(InMemory).validate_python(loaded["in_memory"]) if loaded else None
        proof = TypeAdapter(Proof).validate_python(kept(PROOF)) if kept(PROOF) else None
        seen = TypeAdapter(Slowed).validate_python(kept(SLOWED))
        details, figure = loaded.get("details") or {}, figure_of(samples)
        expected = self.expect(target, loaded) if loaded else {}
        planned = expected.get("hearth")
        match = matches(figure, planned)
        on_card = planned is not None and planned.where != "cpu"
        why = causes(in_memory, proof, seen, on_card) if match == "slower" else []
        machine = self.journal.head["machine"]
        if match == "slower" and machine["load"] > machine["cores"] / 2:
            why.append(f"the machine was busy before the run: load {machine['load']:g}")
        return ModelReport(
            name=target.name,
            id=target.id,
            digest=str(loaded.get("digest") or ""),
            quantisation=str(details.get("quantization_level") or ""),
            parameters=str(details.get("parameter_size") or ""),
            figures=tuple(figures_of(case, each, FIELDS, TOTALS) for case, each in samples.items()),
            in_memory=in_memory,
            proof=proof,
            gateway_adds_ms=paired_difference(gateway_pairs(samples)),
            expected=expected,
            tokens_per_s=figure,
            match=match,
            causes=tuple(why),
            stopped=self.stopped_models.get(target.name, ""),
        )


def head_of(
    plan: LlmPlan, targets: Sequence[Target], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the first line of a journal; runs with an equal `run` are one."""
    machine = asdict(this_machine(os.getloadavg()[0]))
    same = {key: machine[key] for key in ("name", "kernel", "cpu", "cores", "memory_bytes")}
    models = {one.name: one.id for one in targets}
    # Parts and their order may be others, as in a run that goes on with one part more.
    asked = {key: value for key, value in asdict(plan).items() if key not in ("parts", "timeout_s")}
    asked = {key: list(each) if isinstance(each, tuple) else each for key, each in asked.items()}
    return {
        "form": FORM,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "versions": dict(versions),
        "run": {"plan": asked, "machine": same, "versions": dict(versions), "models": models},
    }
