"""`hearth plan` and `hearth machine`."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import yaml
from rich.text import Text

from hearth.catalogue import House
from hearth.catalogue.naming import size_bytes
from hearth.cli.console import (
    AsJson,
    confirm,
    known,
    note,
    print_json,
    show,
    show_or_print,
    table,
    waiting,
)
from hearth.cli.measuring import Out, write_results
from hearth.cli.plan_tables import (
    CHART,
    TITLE,
    machine_text,
    panels,
    plan_view,
    sections,
    shown_rows,
)
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
from hearth.plan.models import CACHE_BYTES, CacheType, KnownModel, find_model
from hearth.plan.predict import predictions
from hearth.plan.proposal import Plan, make_plan
from hearth.project import Project, current
from hearth.sources.model_header import registry_header

app = typer.Typer()

_File = Annotated[Path, typer.Option(exists=True, dir_okay=False, show_default=False)]


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
    out: Out = None,
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
    named = {model.id.removesuffix(":latest") for model in house.models.values()}
    rows = shown_rows(plan, named | {one.name for one in extra}, all_models)
    show_or_print(as_json, document, plan_view(plan, rows))
    if out:
        found = sections(plan, rows), panels(plan, rows)
        write_results(out, "plan", document, (TITLE, CHART), machine_text(plan), *found)
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
