"""`hearth status` and `hearth models`: the state of the house now."""

import itertools
import time
from dataclasses import asdict

import typer
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.text import Text

from hearth import status as live
from hearth.cli.console import AsJson, show_or_print, table
from hearth.clients.models import (
    CLOUD,
    FAILED,
    MISSING,
    PENDING,
    PULLING,
    READY,
    TOO_BIG,
    ModelState,
    Overview,
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

    Example: hearth status --json
    """
    report = live.look(current().house())
    rows = (
        (
            "●" if row.up else "○",
            row.name,
            Text(row.text),
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


def show_models(as_json: AsJson = False) -> None:
    """Show whether each model and alias is ready, or how far its download is.

    Example: hearth models
    """
    overview = live.models(current().house())
    show_or_print(as_json, overview.as_json(), overview_table(overview))


def overview_table(overview: Overview) -> RenderableType:
    """Return two tables, models and aliases, and the notes below them."""
    models = (
        (
            model.name,
            Text(_model_text(model), style=_STYLES.get(model.state, "dim")),
            decimal(model.total_bytes) if model.total_bytes > 0 else "",
            Text(model.reason),
        )
        for model in overview.models.values()
    )
    aliases = (
        (one.name, Text(one.text, _STYLES.get(one.state, "yellow")), one.answered_by or "no model")
        for one in overview.aliases.values()
    )
    notes = [Text(note, style="yellow") for note in overview.notes]
    return Group(
        table(("model", "state", "size", "detail"), models),
        "",
        table(("alias", "state", "answers now"), aliases),
        *notes,
    )


def _model_text(model: ModelState) -> str:
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
