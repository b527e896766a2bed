"""Shows the models and aliases of a house to a person."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

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

_STYLES = {
    **{READY: "green", CLOUD: "green", PULLING: "cyan", PENDING: "cyan"},
    **{FAILED: "red", TOO_BIG: "yellow", MISSING: "yellow"},
}
_MINUTE_S, _HOUR_S = 60, 3600


def table(overview: Overview) -> RenderableType:
    """Return two tables, models and aliases, and the notes below them."""
    models = Table("model", "state", "size", "detail", box=None, pad_edge=False)
    for model in overview.models.values():
        state = Text(model_text(model), style=_STYLES.get(model.state, "dim"))
        models.add_row(model.name, state, size_text(model.total_bytes), Text(model.reason))
    aliases = Table("alias", "state", "answers now", box=None, pad_edge=False)
    for alias in overview.aliases.values():
        text = Text(alias.text, style=_STYLES.get(alias.state, "yellow"))
        aliases.add_row(alias.name, text, alias.answered_by or "nobody")
    notes = [Text(note, style="yellow") for note in overview.notes]
    return Group(models, "", aliases, *notes)


def model_text(model: ModelState) -> str:
    """Say a model's state in a few words, with percent, speed and the time left."""
    if model.state != PULLING:
        unfinished = 0 < model.percent < 100
        return f"{model.state.replace('_', ' ')}{f', {model.percent} %' if unfinished else ''}"
    speed = f", {model.bytes_per_s / 1e6:.1f} MB/s" if model.bytes_per_s else ""
    left = f", {time_text(model.eta_s)} left" if model.eta_s is not None else ""
    return f"pulling, {model.percent} %{speed}{left}"


def size_text(count: int) -> str:
    """Return bytes as model pages write them, nothing for none."""
    if count <= 0:
        return ""
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.1f} MB"


def time_text(seconds: float) -> str:
    """Return a duration in its two largest units at most."""
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
