"""Tables and bars of a report of language models, alone or beside another machine's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from hearth.bench.accelerator import proof_text
from hearth.bench.chart import Bar, Panel, bar_of
from hearth.bench.llm.report import LlmReport, ModelReport
from hearth.bench.llm.requests import (
    COLD,
    DIRECT,
    GATEWAY,
    LONG,
    PROMPTS,
    THOUGHT,
    TOOL,
)
from hearth.bench.report import Figures
from hearth.bench.turns import added_text
from hearth.bench.view import Section, errors_of
from hearth.clients.llm import thought_alone

TITLE = "Language models, measured"
CHART = "Language models"
PATHS = {DIRECT: "directly", GATEWAY: "through LiteLLM"}
_GIB = 2**30
_COLOUR = "#2a6f97"
# What a reader must see before two machines are compared.
_SAME = ("digest", "quantisation", "parameters")

Cell = Callable[[Figures], str]


def sections(report: LlmReport) -> list[Section]:
    """Return all tables, with the errors below them."""
    found = [
        Section(
            "Generated tokens per second",
            ("model", "quantisation", "", *PROMPTS, "runs"),
            [row for model in report.models for row in _speed_rows(model)],
            lines=["Medians of warm answers. Directly: by Ollama's own counters."],
        ),
        _waits(report),
        *_prompts(report),
        *_crowds(report),
        *_tools(report),
        _costs(report),
        *_predictions(report),
    ]
    return [each for each in found if each.rows] + [_notes(report)]


def _speed_rows(model: ModelReport) -> Iterator[tuple[str, ...]]:
    for path, text in PATHS.items():
        cells = [_median(model.of(what, path), "tokens_per_s", 1) for what in PROMPTS]
        n = model.of("coding", path) or model.of("short", path)
        yield model.name, model.quantisation or "?", text, *cells, str(n.calls if n else 0)


def _waits(report: LlmReport) -> Section:
    rows = []
    for model in report.models:
        for path, text in PATHS.items():
            cold, warm, thought = (model.of(what, path) for what in (COLD, "short", THOUGHT))
            rows.append(
                (
                    *(model.name, text),
                    _median(cold, "load_s", 1),
                    _median(cold, "first_ms"),
                    _median(warm, "first_ms"),
                    _median(thought, "thought_ms"),
                    _median(thought, "answer_ms"),
                )
            )
    heads = ("load s", "first token, cold, ms", "warm, ms", "thought starts, ms", "its answer, ms")
    return Section("Waiting, medians", ("model", "", *heads), rows)


def _prompts(report: LlmReport) -> Iterator[Section]:
    rows = [
        (
            model.name,
            _median(long, "prompt_tokens"),
            _median(long, "prompt_tokens_per_s", 1),
            _median(long, "first_ms"),
            _median(model.of(LONG, GATEWAY), "first_ms"),
            _median(long, "tokens_per_s", 1),
        )
        for model in report.models
        if (long := model.of(LONG))
    ]
    heads = ("prompt tokens", "read per s", "first token ms", "LiteLLM ms", "then generated per s")
    yield Section("A long prompt", ("model", *heads), rows)


def _crowds(report: LlmReport) -> Iterator[Section]:
    rows = []
    for model in report.models:
        for path, text in PATHS.items():
            for clients in sorted({each.case.clients for each in model.figures}):
                if figures := model.of("coding", path, clients):
                    together = _median(figures, "together_per_s", 1)
                    first = figures["first_ms"]
                    last = f"{first.p95:,.0f}" if first else "-"
                    cells = (_median(figures, "first_ms"), last, _failed(figures))
                    rows.append((model.name, text, str(clients), together, *cells))
    heads = ("clients", "tokens/s together", "first token ms", "p95", "")
    if any(row[2] != "1" for row in rows):
        yield Section("Several clients at once, coding", ("model", "", *heads), rows)


def _tools(report: LlmReport) -> Iterator[Section]:
    rows = []
    for model in report.models:
        for path, text in PATHS.items():
            if figures := model.of(TOOL, path):
                good = figures.calls - figures.failed
                called = f"{figures.totals['called']:.0f} of {good}"
                rows.append((model.name, text, called, _median(figures, "total_ms")))
    yield Section("A tool", ("model", "", "called rightly", "whole ms"), rows)


def _costs(report: LlmReport) -> Section:
    rows = []
    for model in report.models:
        there, coding = model.in_memory, model.of("coding")
        size = there.size_bytes - there.vram_bytes if there else 0
        rows.append(
            (
                model.name,
                _gib(there.vram_bytes) if there else "-",
                _gib(size) if there else "-",
                f"{there.context:,}" if there and there.context else "-",
                *_energy(coding),
            )
        )
    heads = ("on the card, GiB", "processor, GiB", "context", "watts", "joules per token")
    lines = [_power_text(report)]
    lines += [
        f"{model.name} adds to the cards: "
        + ", ".join(
            f"{card} {_gib(size)} GiB" for card, size in model.in_memory.cards_bytes.items()
        )
        for model in report.models
        if model.in_memory and model.in_memory.cards_bytes
    ]
    return Section("Memory and energy, coding", ("model", *heads), rows, lines=lines)


def _power_text(report: LlmReport) -> str:
    if not report.watts_from:
        return "Watts: not measured, because this machine does not tell them."
    idle = f"; {report.idle_watts:.1f} W before the first request" if report.idle_watts else ""
    return f"Watts: {', '.join(report.watts_from)}, idling included{idle}."


def _energy(figures: Figures | None) -> tuple[str, str]:
    """Return watts and joules per token of requests that were made one at a time."""
    if figures is None or not figures.totals.get("joules"):
        return "-", "-"
    joules, tokens, total = figures.totals["joules"], figures.totals["tokens"], figures["total_ms"]
    seconds = total.median * total.n / 1000 if total else 0.0
    watts = f"{joules / seconds:.1f}" if seconds else "-"
    return watts, f"{joules / tokens:.2f}" if tokens else "-"


def _predictions(report: LlmReport) -> Iterator[Section]:
    if not any(model.expected for model in report.models):
        return
    rows = []
    for model in report.models:
        ours, other = model.expected.get("hearth"), model.expected.get("llmfit")
        band = f"{ours.low:.1f} to {ours.high:.1f}" if ours and ours.low and ours.high else "-"
        rows.append(
            (
                model.name,
                f"{model.tokens_per_s:.1f}" if model.tokens_per_s else "-",
                f"{ours.tokens_per_s:.1f}" if ours else "-",
                band,
                f"{other.tokens_per_s:.1f}" if other else "-",
                model.match,
            )
        )
    heads = ("measured", "hearth plan", "its band", "llmfit", "")
    lines = [
        f"{model.name}, {who}: {one.note}."
        for model in report.models
        for who, one in model.expected.items()
        if one.note
    ]
    yield Section("Predicted and measured, tokens per second", ("model", *heads), rows, lines=lines)


def _notes(report: LlmReport) -> Section:
    lines, errors = [], []
    for model in report.models:
        if model.gateway_adds_ms:
            lines.append(f"{model.name}: {added_text(model.gateway_adds_ms)}")
        if model.proof:
            lines.append(proof_text(model.proof).plain)
        alone = int(sum(each.totals.get("thought_alone", 0) for each in model.figures))
        if alone:
            lines.append(f"{alone} answers of {model.name}: {thought_alone('the model')}.")
        lines += [f"{model.name} is slow: {n}. {why}" for n, why in enumerate(model.causes, 1)]
        errors += [f"{model.name}: {line}" for line in errors_of(model.stopped, model.figures)]
    lines += [f"{name} is not measured: {why}" for name, why in report.skipped.items()]
    return Section("Notes", lines=lines, errors=[*errors, *filter(None, [report.stopped])])


def panels(report: LlmReport) -> list[list[Panel]]:
    """Return the rows of the chart: speed beside its prediction, and the wait for a first token."""
    speed, waits = list[Bar](), list[Bar]()
    for model in report.models:
        speed += _bars(model, PROMPTS, "tokens_per_s")
        for who, one in model.expected.items():
            low, high = one.low or 0.0, one.high or one.tokens_per_s
            text = f"{low:.0f} to {high:.0f}" if one.low else f"{high:.0f}"
            speed.append(Bar(f"{model.name}, predicted by {who}", high, text, start=low))
        waits += _bars(model, (COLD, "short", LONG), "first_ms")
    rows = [("generated tokens per second", speed), ("first token, ms", waits)]
    return [[Panel(title, tuple(bars))] for title, bars in rows if bars]


def _bars(model: ModelReport, parts: Iterable[str], field: str) -> Iterator[Bar]:
    """Yield a bar for each part; parts that were not asked for have none."""
    for what in parts:
        figures = model.of(what)
        if figures or not model.figures:
            bar = bar_of(f"{model.name}, {what}", figures[field] if figures else None)
            yield replace(bar, colour=_COLOUR)


def beside(here: LlmReport, there: LlmReport) -> list[Section]:
    """Return the figures of two machines side by side, and what cannot be compared."""
    names = (here.machine.name, there.machine.name)
    names = names if names[0] != names[1] else (f"{names[0]}, now", f"{names[1]}, in the file")
    others = {model.name: model for model in there.models}
    rows: list[tuple[str, ...]] = []
    lines = list(_unlike(here, there))
    for model in here.models:
        other = others.pop(model.name, None)
        if other is None:
            lines.append(f"{model.name} is only in this report.")
            continue
        lines += _unlike_models(model, other)
        for name, cell in _COMPARED:
            a, b = cell(model), cell(other)
            if a is not None or b is not None:
                ratio = f"{a / b:.2f}" if a and b else "-"
                rows.append((model.name, name, _number(a), _number(b), ratio))
    lines += [f"{name} is only in the file." for name in others]
    heads = ("model", "median", *names, "first ÷ second")
    found = Section(f"{names[0]} beside {names[1]}", heads, rows)
    return [found, Section("Not comparable", lines=lines or ["Everything is comparable."])]


def _unlike(here: LlmReport, there: LlmReport) -> Iterator[str]:
    for what, a, b in (
        ("rounds", here.runs, there.runs),
        ("tokens of the long prompt", here.long_tokens, there.long_tokens),
    ):
        if a != b:
            yield f"All models: {a} {what} here, {b} there."
    for name in sorted({*here.versions} | {*there.versions}):
        versions = [each.versions.get(name, "none") for each in (here, there)]
        if versions[0] != versions[1]:
            yield f"All models: {name} is {versions[0]} here and {versions[1]} there."
    if set(here.watts_from) != set(there.watts_from):
        yield "Joules per token: other parts of the machines tell them."
    for name, report in (("here", here), ("there", there)):
        machine = report.machine
        if machine.load > machine.cores / 2:
            yield f"All models: the machine was busy {name} (load {machine.load:g})."
        if report.stopped:
            yield f"All models: the run {name} is unfinished."


def _unlike_models(here: ModelReport, there: ModelReport) -> Iterator[str]:
    # A digest that neither knows is the same.
    for what in _SAME:
        a, b = getattr(here, what), getattr(there, what)
        if a != b:
            a, b = (text[:19] or "unknown" for text in (a, b))
            yield f"{here.name}: its {what} is {a} here, {b} there."
    contexts = [one.in_memory.context if one.in_memory else None for one in (here, there)]
    if contexts[0] != contexts[1]:
        yield f"{here.name}: its context is {contexts[0]} here, {contexts[1]} there."


def _value(what: str, field: str, clients: int = 1) -> Callable[[ModelReport], float | None]:
    def value(model: ModelReport) -> float | None:
        figures = model.of(what, clients=clients)
        found = figures[field] if figures else None
        return found.median if found else None

    return value


def _joules(model: ModelReport) -> float | None:
    figures = model.of("coding")
    if figures is None or not figures.totals.get("joules") or not figures.totals["tokens"]:
        return None
    return figures.totals["joules"] / figures.totals["tokens"]


_COMPARED: Sequence[tuple[str, Callable[[ModelReport], float | None]]] = (
    *((f"{what}, tokens/s", _value(what, "tokens_per_s")) for what in PROMPTS),
    ("first token, cold, ms", _value(COLD, "first_ms")),
    ("first token, warm, ms", _value("short", "first_ms")),
    ("load, s", _value(COLD, "load_s")),
    ("long prompt, read per s", _value(LONG, "prompt_tokens_per_s")),
    *(
        (f"{clients} clients, tokens/s together", _value("coding", "together_per_s", clients))
        for clients in (2, 4, 8)
    ),
    ("joules per token", _joules),
)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _median(figures: Figures | None, name: str, digits: int = 0) -> str:
    each = figures[name] if figures else None
    return f"{each.median:,.{digits}f}" if each else "-"


def _failed(figures: Figures) -> str:
    return f"{figures.failed} failed" if figures.failed else ""


def _gib(size: float) -> str:
    return f"{size / _GIB:.2f}"
