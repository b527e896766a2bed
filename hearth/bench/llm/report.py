"""The report of language models: what was measured, what was predicted, and why they differ.

It follows the schema docs/schema/bench-llm.json.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from hearth.bench.accelerator import GPU_PROVEN, NO_GPU, SOFTWARE, Proof
from hearth.bench.llm.requests import DIRECT, GATEWAY, PAIR, PROMPTS, LlmCase, LlmSample
from hearth.bench.report import BenchMachine, Figures
from hearth.clients import ClientError
from hearth.clients.stats import Difference
from hearth.files import write_atomic

FORM = "hearth-bench-llm/1"
# A report has some hundred kilobytes.
_MOST_BYTES = 64 << 20

Match = Literal["as predicted", "slower", "faster", "not predicted", "not measured"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a program predicts of a model here; `low` and `high` bound it, None without a band.

    `note` says what it assumed that differs from what was measured.
    """

    tokens_per_s: float
    low: float | None = None
    high: float | None = None
    first_ms: float | None = None
    load_s: float | None = None
    where: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class InMemory:
    """One loaded model in bytes, and by how much its load filled each card; None where unknown."""

    size_bytes: int
    vram_bytes: int
    context: int | None = None
    cards_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slowed:
    """What was seen to slow the machine down meanwhile, and its memory modules, if listed."""

    throttled: str = ""
    memory_modules: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """One model or alias; `stopped` is why it was given up, `tokens_per_s` the figure of it.

    That figure is the median of the three prompts, directly, one client, as Ollama counts. `match`
    compares it with the prediction of `hearth plan`; `causes` are likely ones of a slow model, the
    likeliest first.
    """

    name: str
    id: str
    digest: str
    quantisation: str
    parameters: str
    figures: tuple[Figures, ...]
    in_memory: InMemory | None
    proof: Proof | None
    gateway_adds_ms: Difference | None
    expected: dict[str, Expected]
    tokens_per_s: float | None
    match: Match
    causes: tuple[str, ...]
    stopped: str

    def of(self, what: str, path: str = DIRECT, clients: int = 1) -> Figures | None:
        """Return the figures of one kind of request."""
        wanted = LlmCase(what, path, clients)
        return next((each for each in self.figures if each.case == wanted), None)

    @property
    def failed(self) -> bool:
        """Whether it was given up, or a request of it failed."""
        return bool(self.stopped) or any(each.failed for each in self.figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReport:
    """The results of `hearth bench llm`; `skipped` says why a model was not measured.

    `watts_from` names what measures power, and `idle_watts` is what that shows before the first
    request. `stopped` is the reason for an early end; the next run then goes on.
    """

    form: str
    started: str
    seconds: float
    quick: bool
    runs: int
    long_tokens: int
    machine: BenchMachine
    versions: dict[str, str]
    watts_from: tuple[str, ...]
    idle_watts: float | None
    models: tuple[ModelReport, ...]
    skipped: dict[str, str]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every request was answered and no model is slower than predicted."""
        bad = any(one.failed or one.match == "slower" for one in self.models)
        return bool(self.models) and not self.stopped and not bad


def figure_of(samples: Mapping[LlmCase, Sequence[LlmSample]]) -> float | None:
    """Return the tokens per second of a model: the median of its warm answers to the prompts."""
    found = [
        sample.tokens_per_s
        for case, each in samples.items()
        if case.path == DIRECT and case.clients == 1 and case.what in PROMPTS
        for sample in each
        if not sample.error and sample.tokens_per_s
    ]
    return statistics.median(found) if found else None


def matches(figure: float | None, expected: Expected | None) -> Match:
    """Return whether a figure is within its band."""
    if figure is None:
        return "not measured"
    if expected is None or expected.low is None or expected.high is None:
        return "not predicted"
    if figure < expected.low:
        return "slower"
    return "faster" if figure > expected.high else "as predicted"


def causes(
    in_memory: InMemory | None, proof: Proof | None, slowed: Slowed, expects_card: bool
) -> list[str]:
    """Return the likely causes of a model that is too slow, in the order in which to look."""
    found = []
    size, vram = (in_memory.size_bytes, in_memory.vram_bytes) if in_memory else (0, 0)
    verdict = proof.verdict if proof else ""
    if expects_card and (verdict in (NO_GPU, SOFTWARE) or (size and not vram)):
        why = (
            proof.reason if proof and verdict in (NO_GPU, SOFTWARE) else "no weights are on a card"
        )
        found.append(f"it computes on the processor, silently: {why}")
    if slowed.throttled:
        found.append(f"throttled: {slowed.throttled}")
    if slowed.memory_modules == 1 and not (expects_card and verdict == GPU_PROVEN):
        found.append("one memory channel: the firmware lists one memory module")
    if expects_card and 0 < vram < size:
        off, whole = (size - vram) / 2**30, size / 2**30
        found.append(f"spilled: {off:.1f} of {whole:.1f} GiB are in the machine's memory")
    return found


def gateway_pairs(
    samples: Mapping[LlmCase, Sequence[LlmSample]],
) -> list[tuple[float, float]]:
    """Return the first tokens of each round on both paths; a failed answer has no partner."""
    both = (samples.get(LlmCase(PAIR, path), ()) for path in (DIRECT, GATEWAY))
    return [
        (a.first_ms, b.first_ms)
        for a, b in zip(*both, strict=False)
        if a.first_ms is not None and b.first_ms is not None
    ]


def write_report(report: LlmReport, path: Path) -> None:
    """Write a report as JSON; a reader sees the old or the new one."""
    content = json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"
    write_atomic(path, content.encode())


def read_report(path: Path) -> LlmReport:
    """Return a report that was written here or on another machine.

    Raises:
        ClientError: there is none, or it has another form; in one line.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ClientError(f"{path}: larger than any report of `hearth bench llm`")
        found = TypeAdapter(LlmReport).validate_json(path.read_bytes())
        if found.form != FORM:
            raise ClientError(f"{path}: its form is {found.form[:40]!r}, not {FORM}")
        return with_cases(found)
    except OSError as error:
        raise ClientError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its start"
        text = f"no report of `hearth bench llm`: {where}: {first['msg']}"
        raise ClientError(f"{path}: {text}") from None


def with_cases(report: LlmReport) -> LlmReport:
    """Return a report whose cases are objects again, after it was JSON."""
    case = TypeAdapter(LlmCase)
    models = (
        replace(
            one,
            figures=tuple(replace(f, case=case.validate_python(f.case)) for f in one.figures),
        )
        for one in report.models
    )
    return replace(report, models=tuple(models))
