"""Says for each model and alias of the house whether it answers now, or how far its download is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from hearth.catalogue.house import Alias, House, Model, Service
from hearth.clients.model_servers import (
    FAILED,
    MISSING,
    PULLING,
    READY,
    TOO_BIG,
    WAITING,
    AskJson,
    ReadFile,
    key_of,
    said_of,
)

__all__ = ["FAILED", "MISSING", "PULLING", "READY", "TOO_BIG", "WAITING", "key_of"]

CLOUD, UNUSABLE = "cloud", "unusable"
PENDING, NOT_OFFERED = "pending", "not_offered"
_ANSWER = frozenset({READY, CLOUD})
_MAY_COME = frozenset({WAITING, PULLING, FAILED})


@dataclass(frozen=True, slots=True)
class ModelState:
    """One model as it is now; bytes are of its download, `eta_s` is known only while it comes."""

    name: str
    id: str
    provider: str
    kind: str
    state: str
    percent: int = 0
    completed_bytes: int = 0
    total_bytes: int = 0
    bytes_per_s: float = 0.0
    eta_s: float | None = None
    reason: str = ""
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class AliasState:
    """One alias: ready, pending or not_offered.

    `pending` means that its first model is still to come; `answered_by` is the first member that
    answers already. A pending alias with a `reason` has a download that fails and is tried again.
    """

    name: str
    state: str
    percent: int
    answered_by: str | None
    reason: str = ""
    waits_for: str | None = None

    @property
    def text(self) -> str:
        """Say the state as a person reads it."""
        if self.state == READY:
            return "ready"
        if self.state == NOT_OFFERED:
            return f"not offered: {self.reason}"
        why = f": {self.reason}" if self.reason else ""
        return f"pending, {self.percent} %{why}"


@dataclass(frozen=True, slots=True)
class Overview:
    """All models and aliases of a house; a note for each server whose word is missing or old."""

    models: Mapping[str, ModelState]
    aliases: Mapping[str, AliasState]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give the overview as plain JSON data."""
        return {
            "models": {name: asdict(model) for name, model in self.models.items()},
            "aliases": {
                name: {**asdict(alias), "text": alias.text} for name, alias in self.aliases.items()
            },
            "notes": list(self.notes),
        }


def model_states(house: House, read: ReadFile, ask: AskJson, now: datetime) -> Overview:
    """Join the house's models and aliases with what its servers say of themselves.

    Args:
        house: the derived catalogue.
        read: reads the puller's progress inside an instance, where what it raises becomes a note,
            and what the machine itself holds.
        ask: asks an external server for its list of models; the same holds.
        now: an aware time, to tell an old word from a fresh one.
    """
    entries: dict[str, Mapping[str, Any]] = {}
    notes: list[str] = []
    for service in _model_servers(house):
        models = [m for m in house.models.values() if m.service == service.name]
        said, note = said_of(service, models, read, ask, now)
        entries |= said
        notes += [note] if note else []
    states = {name: model_state(m, entries.get(name)) for name, m in house.models.items()}
    aliases = {name: alias_state(alias, states) for name, alias in house.aliases.items()}
    return Overview(states, aliases, tuple(notes))


def model_state(model: Model, entry: Mapping[str, Any] | None) -> ModelState:
    """Return the state of one model; `entry` is the puller's word on it, if there is one."""
    known = ModelState(model.name, model.id, model.provider, model.kind, WAITING)
    if not model.usable:
        # A server may work with a model in silence that nobody can call.
        here = "on disk, and " if entry and entry.get("state") == READY else ""
        return replace(known, state=UNUSABLE, reason=f"{here}{model.reason or ''}")
    if not model.local:
        return replace(known, state=CLOUD, percent=100)
    if entry is None:
        return replace(known, total_bytes=model.download_bytes or 0)
    done, total = int(entry.get("completed_bytes") or 0), int(entry.get("total_bytes") or 0)
    speed = float(entry.get("bytes_per_s") or 0.0)
    state = str(entry.get("state") or WAITING)
    return replace(
        known,
        state=state,
        percent=int(entry.get("percent") or 0),
        completed_bytes=done,
        total_bytes=total,
        bytes_per_s=speed,
        eta_s=max(0, total - done) / speed if state == PULLING and speed >= 1 else None,
        reason=str(entry.get("reason") or ""),
        digest=entry.get("digest"),
    )


def alias_state(alias: Alias, models: Mapping[str, ModelState]) -> AliasState:
    """Return whether an alias answers with its first model, will, or never."""
    if not alias.offered:
        return AliasState(alias.name, NOT_OFFERED, 0, None, alias.reason or "no usable member")
    members = [models[name] for name in alias.members]
    answered_by = next((m.name for m in members if m.state in _ANSWER), None)
    # A member that is too big or missing for good is not waited for.
    first = next((m for m in members if m.state in _ANSWER | _MAY_COME), None)
    if first is None:
        why = "; ".join(f"{m.name}: {m.reason or m.state}" for m in members)
        return AliasState(alias.name, NOT_OFFERED, 0, None, why)
    if first.state in _ANSWER:
        return AliasState(alias.name, READY, 100, answered_by)
    reason = f"{first.name}: {first.reason}" if first.state == FAILED else ""
    return AliasState(alias.name, PENDING, first.percent, answered_by, reason, first.name)


def _model_servers(house: House) -> list[Service]:
    names = {model.service for model in house.models.values() if model.service}
    return [service for name, service in house.services.items() if name in names]
