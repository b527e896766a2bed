"""`hearth status` and `hearth models`: the state of the house now."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.text import Text

from hearth import status as live
from hearth.cli.console import AsJson, show_or_print, table
from hearth.clients import ClientError
from hearth.clients.canary import Work
from hearth.clients.loaded import LoadedModel, PlannedMemory, loaded_models, planned_memory, unload
from hearth.clients.models import (
    CLOUD,
    FAILED,
    MISSING,
    PENDING,
    PULLING,
    READY,
    TOO_BIG,
    UNUSABLE,
    ModelState,
    Overview,
    without,
)
from hearth.paths import ROOT_CERTIFICATE
from hearth.project import current

_STYLES = {
    **{READY: "green", CLOUD: "green", PULLING: "cyan", PENDING: "cyan"},
    **{FAILED: "red", TOO_BIG: "yellow", MISSING: "yellow"},
}
_UNITS = (("d", 86400), ("h", 3600), ("min", 60))


def show_status(as_json: AsJson = False) -> None:
    """Show the state of each service, the addresses, and the root certificate.

    A request is sent along each need, from inside the instance of the service that needs the other.

    Example: hearth status --json
    """
    report = live.look(current().house())
    rows = (
        (
            "●" if row.up else "○",
            row.name,
            Text(f"{row.text}{_worked(report.worked.get(row.name))}"),
            time_text(time.time() - row.since) if row.since else "",
            f"{row.memory_bytes / 2**20:.0f} MiB" if row.memory_bytes else "",
        )
        for row in report.rows
    )
    lines = [
        *(f"open   {address}" for address in report.addresses),
        *(f"trust  {address}" for address in report.trust),
        f"root   {ROOT_CERTIFICATE} {report.fingerprint or '(not yet)'}",
        f"runs   {report.accelerator}",
        *(f"note   {line}" for line in report.pending),
    ]
    content = Group(table(("", "name", "state", "since", "memory"), rows), *map(Text, lines))
    document = {"good": report.good, "root_certificate": str(ROOT_CERTIFICATE), **asdict(report)}
    show_or_print(as_json, document, content)
    raise typer.Exit(0 if report.good else 1)


def _worked(last: Work | None) -> str:
    """Return when a service last did real work, to follow its state."""
    return f"; {last.verb} {time_text(time.time() - last.at)} ago" if last else ""


models = typer.Typer(name="models")


@models.callback(invoke_without_command=True)
def show_models(context: typer.Context, as_json: AsJson = False) -> None:
    """Show whether each model and alias is ready, and which models are in memory and where.

    Example: hearth models
    """
    if context.invoked_subcommand:
        return
    house = current().house()
    overview = live.models(house)
    in_memory, down = list[LoadedModel](), set[str]()
    for service in house.offering("loaded_models"):
        try:
            in_memory += loaded_models(service)
        except ClientError as error:
            # Why it does not answer is for `hearth status`.
            down.add(service.name)
            overview = replace(overview, notes=(*overview.notes, f"{service.name}: {error}"))
    overview = without(overview, house, down)
    plan = planned_memory()
    in_memory = plan.beside(in_memory)
    document = {
        **overview.as_json(),
        "loaded": [asdict(model) for model in in_memory],
        "room_bytes": plan.room_bytes or None,
    }
    memory = memory_table(in_memory, plan)
    show_or_print(as_json, document, Group(overview_table(overview), *memory))


@models.command("unload")
def unload_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model to unload.")],
    as_json: AsJson = False,
) -> None:
    """Take a model out of memory; the next request that needs it loads it again.

    Example: hearth models unload qwen3.5:4b
    """
    house = current().house()
    if alias := house.aliases.get(model):
        names = " or ".join(alias.members)
        raise typer.BadParameter(f"{model} is an alias: name the model, {names}")
    text = unload(house, model)
    show_or_print(as_json, {"model": model, "text": text}, Text(text))


def memory_table(
    models: Sequence[LoadedModel], plan: PlannedMemory | None = None
) -> list[RenderableType]:
    """Return a table of the models in memory beside the plan, below an empty line; or nothing."""
    if not models:
        return []
    planned = any(model.planned_bytes for model in models)
    rows = (
        (
            model.name,
            decimal(model.size_bytes),
            *([decimal(model.planned_bytes) if model.planned_bytes else "-"] if planned else []),
            place_text(model),
        )
        for model in models
    )
    heads = ("in memory", "size", *(["planned"] if planned else []), "where")
    found: list[RenderableType] = ["", table(heads, rows)]
    if plan and plan.room_bytes:
        used = decimal(sum(model.size_bytes for model in models))
        text = f"together {used} of {decimal(plan.room_bytes)} planned for models on {plan.device}"
        found.append(Text(text, style="dim"))
    return found


def place_text(model: LoadedModel) -> str:
    """Return where a model is in memory, with the part of it where it is in two places."""
    if not model.vram_bytes:
        return "processor"
    if model.vram_bytes >= model.size_bytes:
        return "graphics card"
    share = model.vram_bytes / model.size_bytes
    return f"{share:.0%} on the graphics card, the rest on the processor"


def overview_table(overview: Overview) -> RenderableType:
    """Return tables of the models in use and of the aliases, and below them why others are not."""
    unused: dict[str, list[str]] = {}
    for model in overview.models.values():
        if model.state == UNUSABLE:
            unused.setdefault(model.reason, []).append(model.name)
    models = (
        (
            model.name,
            Text(model_text(model), style=_STYLES.get(model.state, "dim")),
            decimal(model.total_bytes) if model.total_bytes > 0 else "",
            f"{model.context:,}" if model.context else "",
            ", ".join(model.capabilities),
            Text(model.reason),
        )
        for model in overview.models.values()
        if model.state != UNUSABLE
    )
    aliases = (
        (one.name, Text(one.text, _STYLES.get(one.state, "yellow")), one.answered_by or "no model")
        for one in overview.aliases.values()
    )
    notes = [Text(note, style="yellow") for note in overview.notes]
    return Group(
        table(("model", "state", "size", "tokens", "capabilities", "detail"), models),
        "",
        table(("alias", "state", "answers now"), aliases),
        "",
        *(
            Text(f"not in use ({reason}): {', '.join(names)}", style="dim")
            for reason, names in unused.items()
        ),
        *notes,
    )


def model_text(model: ModelState) -> str:
    """Return a model's state in a few words, with percent, speed and the time left."""
    if model.state != PULLING:
        unfinished = 0 < model.percent < 100
        return f"{model.state.replace('_', ' ')}{f', {model.percent} %' if unfinished else ''}"
    speed = f", {model.bytes_per_s / 1e6:.1f} MB/s" if model.bytes_per_s else ""
    left = f", {time_text(model.eta_s)} left" if model.eta_s is not None else ""
    return f"pulling, {model.percent} %{speed}{left}"


def time_text(seconds: float) -> str:
    """Return a duration in its two largest units at most."""
    whole = round(seconds)
    for (unit, length), (smaller, part) in itertools.pairwise(_UNITS):
        if whole >= length:
            return f"{whole // length} {unit} {whole % length // part} {smaller}"
    return f"{whole // 60} min" if whole >= 60 else f"{max(0, whole)} s"
