"""The tables of a plan, for a terminal and for a Markdown page, and its chart."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from hearth.bench.chart import Bar, Panel
from hearth.bench.view import Section
from hearth.cli.console import out, table
from hearth.plan.memory import Budget
from hearth.plan.proposal import Plan, Row
from hearth.plan.speech import STT
from hearth.plan.speed import PROMPT_TOKENS, Band

TITLE = "Models for this machine"
CHART = "Which models, and how fast: nine of ten machines are in the dark part"
_GB = 1e9
_BAR, _LEAST_BAR, _GAP = 12, 4, "  "
_LEGEND = (
    f"first: to the first token after {PROMPT_TOKENS} tokens of prompt; answer: of a model that "
    "thinks first, by its usual thoughts; load: from the disk. Ranges hold nine of ten machines."
)
_WHERE = {
    "vram": ("card", "green"),
    "shared": ("shared", "green"),
    "cpu": ("CPU", "green"),
    "spilled": ("card + CPU", "yellow"),
    "nowhere": ("too large", "red"),
}
_MODELS = ("model", "GB", "where", "tokens/s", "first", "answer", "load")
_CHOICES = ("for", "use", "because")
_SAVINGS = ("what would make room", "memory", "price")
_FITS, _SPILLS, _SYSTEM = "#2a6f97", "#bc6c25", "#588157"


def shown_rows(plan: Plan, named: set[str], all_models: bool) -> list[Row]:
    """Return the models that are worth a line, what fits first and the fastest on top.

    `named` are models that the inventory has.
    """
    chosen = _chosen(plan)
    rows = (
        row
        for row in plan.rows
        if all_models or row.name in chosen or row.name in named or _is_near(row)
    )
    return sorted(rows, key=lambda row: (not row.fits, -row.tokens_per_s))


def plan_view(plan: Plan, rows: Sequence[Row]) -> RenderableType:
    """Return the tables of a plan for a terminal."""
    parts: list[RenderableType] = [
        Text(machine_text(plan)),
        "",
        table(_CHOICES, map(_texts, _choices(plan))),
        "",
        _models_table(rows, _chosen(plan)),
        "",
        *(part for budget in plan.budgets for part in _budget_view(budget)),
    ]
    if plan.savings:
        parts += [table(_SAVINGS, map(_texts, _savings(plan))), ""]
    if text := _together_text(plan):
        parts.append(Text(text))
    parts += [Text(text, style="yellow") for text in plan.notes]
    return Group(*parts)


def sections(plan: Plan, rows: Sequence[Row]) -> list[Section]:
    """Return the tables of a plan for a Markdown page."""
    found = [
        Section("What to use", _CHOICES, _choices(plan)),
        Section("Models", _MODELS, [(row.name, *_cells(row)) for row in rows], lines=[_LEGEND]),
    ]
    found += [
        Section(f"Memory of {budget.device}", ("", "", "known from"), _budget_rows(budget))
        for budget in plan.budgets
    ]
    found.append(Section("What would make room", _SAVINGS, _savings(plan)))
    lines = [text for text in (_together_text(plan), *plan.notes) if text]
    return [*(each for each in found if each.rows), Section("Notes", lines=lines)]


def panels(plan: Plan, rows: Sequence[Row]) -> list[list[Panel]]:
    """Return the rows of the chart: what to expect of each model, and each device's memory."""
    uses = {row.name: [one.role for one in plan.choices if one.model == row.name] for row in rows}
    labels = {
        name: f"{name} ({', '.join(roles)})" if roles else name for name, roles in uses.items()
    }
    ran = [row for row in rows if row.speed.tokens_per_s]
    speed = [_band_bar(row, labels[row.name], row.speed.tokens_per_s, 1) for row in ran]
    waits = [_band_bar(row, labels[row.name], row.speed.first_token_s, 1000) for row in ran]
    spills = "" if all(row.fits for row in ran) else "; brown: partly on the processor"
    found = [
        [
            Panel(f"generated tokens per second{spills}", tuple(speed)),
            Panel(f"first token after {PROMPT_TOKENS} tokens of prompt, ms", tuple(waits)),
        ]
    ]
    found += [[_memory_panel(budget)] for budget in plan.budgets]
    return [row for row in found if row[0].bars]


def _band_bar(row: Row, label: str, band: Band | None, times: int) -> Bar:
    """Return a bar that is full where the value is likely, and pale before it."""
    if band is None:
        return Bar(label)
    value, low, high = (times * each for each in (band.value, band.low, band.high))
    text = f"{value:,.0f} ({low:,.0f} to {high:,.0f})"
    return Bar(label, high, text, start=low, colour=_FITS if row.fits else _SPILLS)


def _memory_panel(budget: Budget) -> Panel:
    """Return what a device holds, each bar from where the one before it ends."""
    bars, end = list[Bar](), 0.0
    for line in budget.lines:
        start, end = end, end + line.size_bytes / _GB
        text = f"{line.size_bytes / _GB:.2f}"
        bars.append(Bar(line.what, end, text, start=start, colour=_SYSTEM))
    title = f"memory of {budget.device}, GB; dashed: all of it"
    return Panel(title, tuple(bars), mark=budget.memory_bytes / _GB)


def _chosen(plan: Plan) -> set[str]:
    return {choice.model for choice in plan.choices}


def _texts(row: Iterable[str]) -> list[Text | str]:
    """Return a row whose last cell is never read as markup."""
    *cells, last = row
    return [*cells, Text(last)]


def _together_text(plan: Plan) -> str:
    """Return how many of the proposed models fit at once, and what it costs to change them."""
    chosen = _chosen(plan)
    if len(chosen) < 2:
        return ""
    if plan.most_loaded >= len(chosen):
        return "All proposed models fit at once."
    loads = [row.speed.load_s for row in plan.rows if row.name in chosen and row.speed.load_s]
    wait = max((load.value for load in loads), default=0.0)
    text = f"{plan.most_loaded} of {len(chosen)} proposed models fit at once"
    return (
        f"{text}; another one is loaded first, in up to {_seconds(wait)}." if wait else f"{text}."
    )


def _is_near(row: Row) -> bool:
    """Return whether a model that nobody named is worth a line: it fits and is quick."""
    return row.fits and row.tokens_per_s >= 5 and row.quantisation != "Q8_0"


def machine_text(plan: Plan) -> str:
    """Return what a plan was made for, in one line."""
    machine, place = plan.machine, plan.place
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
    rate = machine.bandwidth
    parts = [f"{machine.cores} cores of {machine.processor}", memory]
    if rate:
        parts.append(
            f"copies {rate.median / _GB:.0f} GB/s ({rate.low / _GB:.0f} to {rate.high / _GB:.0f})"
        )
    if machine.disk:
        parts.append(f"disk {machine.disk.median / _GB:.1f} GB/s")
    for card in machine.cards:
        speed = f", {card.bandwidth.median / _GB:.0f} GB/s" if card.bandwidth else ""
        parts.append(f"{card.name}, {card.memory_bytes / 2**30:.1f} GiB{speed}")
    return f"{'; '.join(parts)}. Models compute on: {place.name}."


def _choices(plan: Plan) -> list[tuple[str, str, str]]:
    rows = [(choice.role, choice.model, choice.reason) for choice in plan.choices]
    return rows + [
        (
            each.what,
            each.model,
            f"{each.reason}; {'text' if each.what == STT else 'first sound'} after "
            f"{each.wait_s:.1f} s ({each.wait_source})",
        )
        for each in plan.speech
    ]


def _savings(plan: Plan) -> list[tuple[str, str, str]]:
    return [
        (saving.what, f"-{saving.saves_bytes / _GB:.1f} GB", saving.price)
        for saving in plan.savings
    ]


def _models_table(rows: Sequence[Row], chosen: set[str]) -> RenderableType:
    cells = [_styled_cells(row, row.name in chosen) for row in rows]
    widths = [max(map(len, column)) for column in zip(_MODELS, *cells, strict=True)]
    # A narrow terminal has all figures: with shorter bars or none, and shorter names.
    left = out.width - sum(widths) - len(_GAP) * len(_MODELS)
    bar = min(_BAR, left)
    most = max((row.tokens_per_s for row in rows), default=1.0) or 1.0
    drawn = [""] if bar >= _LEAST_BAR else []
    heads = (*_MODELS[:4], *drawn, *_MODELS[4:])
    columns = (Column(name, no_wrap=True) for name in heads)
    grid = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row, own in zip(rows, cells, strict=True):
        own[0].truncate(widths[0] + min(0, left + len(_GAP)), overflow="ellipsis")
        share = row.tokens_per_s / most
        length = max(1, round(bar * share)) if share else 0
        grid.add_row(*own[:4], *("█" * length for _ in drawn), *own[4:])
    return Group(grid, Text(_LEGEND, style="dim"))


def _styled_cells(row: Row, chosen: bool) -> Sequence[Text]:
    styles = ("", _WHERE[row.speed.where][1], "", "", "", "")
    name = Text(row.name, style="bold" if chosen else "")
    return name, *(Text(text, style=one) for text, one in zip(_cells(row), styles, strict=True))


def _cells(row: Row) -> Sequence[str]:
    """Return all cells of a model but its name."""
    speed = row.speed
    return (
        f"{row.needed_bytes / _GB:.1f}",
        _WHERE[speed.where][0],
        _band(speed.tokens_per_s),
        _seconds(speed.first_token_s.value if speed.first_token_s else None),
        _seconds(row.answer_s) if row.answer_s else "",
        _seconds(speed.load_s.value if speed.load_s else None),
    )


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def _band(band: Band | None) -> str:
    if band is None:
        return "-"
    digits = 0 if band.value >= 10 else 1
    return f"{band.value:.{digits}f} ({band.low:.{digits}f}-{band.high:.{digits}f})"


def _budget_view(budget: Budget) -> Iterable[RenderableType]:
    *rows, (free, size, whole) = _budget_rows(budget)
    last = (free, Text(size, style="green" if budget.fits else "red"), whole)
    yield table((f"memory of {budget.device}", "", "known from"), [*rows, last])
    yield ""


def _budget_rows(budget: Budget) -> list[tuple[str, str, str]]:
    """Return a row for each line of a budget, and what is free as the last one."""
    rows = [(line.what, f"{line.size_bytes / _GB:.2f} GB", line.source) for line in budget.lines]
    whole = f"of {budget.memory_bytes / _GB:.1f} GB"
    return [*rows, ("free", f"{budget.free_bytes / _GB:.2f} GB", whole)]
