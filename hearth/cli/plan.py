"""`hearth plan` and `hearth machine`."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import yaml
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from hearth.catalogue import House
from hearth.catalogue.naming import size_bytes
from hearth.cli.console import AsJson, confirm, known, note, out, print_json, show, table, waiting
from hearth.files import write_atomic
from hearth.machine.measured import measure
from hearth.paths import PLAN, RECEIPT, RECEIPT_FOLDER
from hearth.plan import PlanError
from hearth.plan.document import document_of
from hearth.plan.headers import as_model, read_header
from hearth.plan.inventory import (
    apply_changes,
    changes,
    diff,
    measured_waits,
    slots_of,
    unlisted_models,
    wishes_of,
)
from hearth.plan.machine import as_plain, read_machine
from hearth.plan.memory import Budget
from hearth.plan.models import CACHE_BYTES, CacheType, KnownModel, find_model
from hearth.plan.predict import predictions
from hearth.plan.proposal import Plan, Row, make_plan
from hearth.plan.speech import STT
from hearth.plan.speed import PROMPT_TOKENS, Band
from hearth.project import Project, current
from hearth.sources.model_header import registry_header

app = typer.Typer()

_File = Annotated[Path, typer.Option(exists=True, dir_okay=False, show_default=False)]
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


def show_machine(as_json: AsJson = False) -> None:
    """Measure this machine for the planner, and print it as YAML.

    It takes a few seconds and changes nothing: the memory's bandwidth, matrix products, the disk,
    and the graphics processors with the memory that programs can get.

    Example: hearth machine > machine.yml
    """
    with waiting("measure this machine"):
        plain = as_plain(measure())
    if as_json:
        print_json(plain)
    else:
        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True)


@app.callback(invoke_without_command=True)
def plan_models(
    context: typer.Context,
    machine: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            show_default=False,
            help="A machine that `hearth machine` wrote, in place of this one.",
        ),
    ] = None,
    gguf: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            show_default=False,
            help="A GGUF file to plan with; its header has the dimensions. Can be repeated.",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            show_default=False,
            help="A model of Ollama's registry, whose header is read there. Can be repeated.",
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--context", min=1, show_default="the inventory's", help="Tokens of a chat."),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(min=1, max=64, show_default="the inventory's, or 1", help="Requests at once."),
    ] = None,
    cache: Annotated[
        str, typer.Option(help=f"Type of the key-value cache: {', '.join(CACHE_BYTES)}.")
    ] = "f16",
    reserve: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            show_default=False,
            help="Memory for other programs, such as ComfyUI: 2GB. By default what they hold now.",
        ),
    ] = None,
    all_models: Annotated[bool, typer.Option("--all", help="Show every model.")] = False,
    write: Annotated[
        bool, typer.Option("--apply", help="Write the proposal into inventory/local.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Propose models for this machine: what fits, how fast, and why.

    Example: hearth plan
    Example: hearth plan --machine other.yml --reserve 2GB
    """
    if context.invoked_subcommand:
        return
    project = current()
    house = project.house()
    here = machine is None
    if machine is None:
        with waiting("measure this machine"):
            measured = measure()
    else:
        measured = read_machine(machine.read_text("utf-8", errors="replace"), str(machine))
    wishes = wishes_of(
        house,
        context=tokens,
        slots=_slots(slots, house),
        cache_type=cast(CacheType, known("cache type", cache, CACHE_BYTES)),
        reserve_bytes=_size(reserve),
        # Another machine's speech was not measured here.
        measured=measured_waits(_receipt(), house, measured) if here else (),
    )
    extra = [*unlisted_models(house), *map(_model, gguf or ())]
    extra += _from_registry(models or (), house)
    plan = make_plan(measured, wishes, extra)
    document = document_of(plan)
    if here:
        _keep(document)
    if as_json:
        print_json(document)
    else:
        in_house = {model.id.removesuffix(":latest") for model in house.models.values()}
        show(plan_view(plan, in_house | {one.name for one in extra}, all_models))
    if write:
        _apply(project, plan, yes)


def _size(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(size_bytes(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a size: write e.g. 2GB") from None


def _receipt() -> bytes:
    try:
        return (RECEIPT_FOLDER / RECEIPT).read_bytes()
    except OSError:
        return b""


def _slots(asked: int | None, house: House) -> int | None:
    """Return the requests at once that were asked for; what the inventory sets would overrule it.

    Raises:
        BadParameter: the inventory sets another number.
    """
    fixed = slots_of(house)
    if asked and fixed and asked != fixed:
        raise typer.BadParameter(
            f"the inventory lets the model server answer {fixed} requests at once: change it there"
        )
    return asked


def _from_registry(names: Iterable[str], house: House) -> Iterable[KnownModel]:
    """Yield the models that the registry knows; the others are noted."""
    for name in names:
        if find_model(name):
            continue
        try:
            yield as_model(registry_header(name, house.mirrors), name)
        except PlanError as error:
            note(str(error))


def _model(path: Path) -> KnownModel:
    return as_model(read_header(path), path.stem)


def _keep(document: Any) -> None:
    """Store the plan for the page; without the right to do so, it is only shown."""
    path = RECEIPT_FOLDER / PLAN
    if path.parent.is_dir():
        try:
            write_atomic(path, json.dumps(document).encode())
        except PermissionError:
            note(f"{path} is not written: put `sudo` before the command to show it on the page")


def _apply(project: Project, plan: Plan, yes: bool) -> None:
    wanted = changes(plan, project.house(), project.catalogue())
    if not wanted:
        note("the inventory already has these models")
        return
    show(Text(diff(project.inventory, wanted)))
    confirm("Write this into inventory/local?", yes)
    apply_changes(project.inventory, wanted, project.catalogue)
    note("written: `hearth up` downloads the models and uses them")


def plan_view(plan: Plan, named: set[str], all_models: bool) -> RenderableType:
    """Return the tables of a plan; `named` are models that the inventory has."""
    chosen = {choice.model for choice in plan.choices}
    rows = [
        row
        for row in plan.rows
        if all_models or row.name in chosen or row.name in named or _is_near(row)
    ]
    parts: list[RenderableType] = [
        Text(_machine_text(plan)),
        "",
        _choices_table(plan),
        "",
        _models_table(rows, chosen),
        "",
        *(part for budget in plan.budgets for part in _budget_view(budget)),
    ]
    if plan.savings:
        savings = (
            (saving.what, f"-{saving.saves_bytes / _GB:.1f} GB", saving.price)
            for saving in plan.savings
        )
        parts += [table(("what would make room", "memory", "price"), savings), ""]
    if text := _together_text(plan):
        parts.append(Text(text))
    parts += [Text(text, style="yellow") for text in plan.notes]
    return Group(*parts)


def _together_text(plan: Plan) -> str:
    """Return how many of the proposed models fit at once, and what it costs to change them."""
    chosen = {choice.model for choice in plan.choices}
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


def _machine_text(plan: Plan) -> str:
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


def _choices_table(plan: Plan) -> RenderableType:
    rows = [(choice.role, choice.model, Text(choice.reason)) for choice in plan.choices]
    rows += [
        (
            each.what,
            each.model,
            Text(
                f"{each.reason}; {'text' if each.what == STT else 'first sound'} after "
                f"{each.wait_s:.1f} s ({each.wait_source})"
            ),
        )
        for each in plan.speech
    ]
    return table(("for", "use", "because"), rows)


def _models_table(rows: Sequence[Row], chosen: set[str]) -> RenderableType:
    names = ("model", "GB", "where", "tokens/s", "first", "answer", "load")
    # What fits comes first, the fastest on top.
    ordered = sorted(rows, key=lambda row: (not row.fits, -row.tokens_per_s))
    cells = [_cells(row, row.name in chosen) for row in ordered]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    # A narrow terminal has all figures: with shorter bars or none, and shorter names.
    left = out.width - sum(widths) - len(_GAP) * len(names)
    bar = min(_BAR, left)
    most = max((row.tokens_per_s for row in rows), default=1.0) or 1.0
    drawn = [""] if bar >= _LEAST_BAR else []
    heads = (*names[:4], *drawn, *names[4:])
    columns = (Column(name, no_wrap=True) for name in heads)
    grid = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row, own in zip(ordered, cells, strict=True):
        own[0].truncate(widths[0] + min(0, left + len(_GAP)), overflow="ellipsis")
        share = row.tokens_per_s / most
        length = max(1, round(bar * share)) if share else 0
        grid.add_row(*own[:4], *("█" * length for _ in drawn), *own[4:])
    return Group(grid, Text(_LEGEND, style="dim"))


def _cells(row: Row, chosen: bool) -> Sequence[Text]:
    where, style = _WHERE[row.speed.where]
    speed = row.speed
    texts = (
        f"{row.needed_bytes / _GB:.1f}",
        where,
        _band(speed.tokens_per_s),
        _seconds(speed.first_token_s.value if speed.first_token_s else None),
        _seconds(row.answer_s) if row.answer_s else "",
        _seconds(speed.load_s.value if speed.load_s else None),
    )
    styles = ("", style, "", "", "", "")
    name = Text(row.name, style="bold" if chosen else "")
    return name, *(Text(text, style=one) for text, one in zip(texts, styles, strict=True))


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
    rows = [(line.what, f"{line.size_bytes / _GB:.2f} GB", line.source) for line in budget.lines]
    free = Text(f"{budget.free_bytes / _GB:.2f} GB", style="green" if budget.fits else "red")
    whole = f"of {budget.memory_bytes / _GB:.1f} GB"
    yield table((f"memory of {budget.device}", "", "known from"), [*rows, ("free", free, whole)])
    yield ""


@app.command("predict")
def predict_speed(
    machine: _File,
    models: _File,
    as_json: AsJson = False,
) -> None:
    """Predict how fast models run on a machine, from numbers alone.

    docs/planner.md describes the two YAML files.

    Example: hearth plan predict --machine machine.yml --models models.yml --json
    """
    read, wanted = (path.read_text("utf-8", errors="replace") for path in (machine, models))
    found = predictions(read, wanted, (str(machine), str(models)))
    if as_json:
        print_json(found)
        return
    rows = [
        (row["name"], row["error"], "")
        if "error" in row
        else (
            row["name"],
            row["where"],
            f"{row['tokens_per_s']:g} ({row['low']:g} to {row['high']:g})"
            if row["tokens_per_s"]
            else "-",
        )
        for row in found
    ]
    show(table(("model", "where", "tokens per second"), rows))
