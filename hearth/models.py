"""Says for each model and alias of the house whether it answers now, or how far its download is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hearth.catalogue.house import Alias, House, Model, Service

WAITING, PULLING, READY = "waiting", "pulling", "ready"
FAILED, TOO_BIG, MISSING = "failed", "too_big", "missing"
CLOUD, UNUSABLE = "cloud", "unusable"
PENDING, NOT_OFFERED = "pending", "not_offered"
_ANSWER = frozenset({READY, CLOUD})
_MAY_COME = frozenset({WAITING, PULLING, FAILED})
# The puller writes every minute even when it has nothing to do.
_STALE_AFTER = timedelta(minutes=3)
_LINE = 300
_MOST = 2**63

ReadFile = Callable[[str, str], str | bytes]
"""Reads a file of an instance: (instance, path) -> its content."""
AskJson = Callable[[str], Any]
"""Asks a server that is not ours: URL -> the JSON it answers."""


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
        read: reads the puller's progress inside an instance; whatever it raises becomes a note.
        ask: asks an external server for its list of models; the same holds.
        now: an aware time, to tell an old word from a fresh one.
    """
    entries: dict[str, Mapping[str, Any]] = {}
    notes: list[str] = []
    for service in _model_servers(house):
        models = [m for m in house.models.values() if m.service == service.name]
        if service.runtime == "external":
            said, note = _external(service, models, ask)
        else:
            said, note = _progress(service, read, now)
        entries |= said
        notes += [note] if note else []
    states = {name: model_state(m, entries.get(name)) for name, m in house.models.items()}
    aliases = {name: alias_state(alias, states) for name, alias in house.aliases.items()}
    return Overview(states, aliases, tuple(notes))


def model_state(model: Model, entry: Mapping[str, Any] | None) -> ModelState:
    """Return the state of one model; `entry` is the puller's word on it, if there is one."""
    known = ModelState(model.name, model.id, model.provider, model.kind, WAITING)
    if not model.usable:
        return replace(known, state=UNUSABLE, reason=model.reason or "")
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


def key_of(model_id: str) -> str:
    """Return one spelling for all the ways in which Ollama lets a model be written."""
    key = model_id.strip().lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return key if ":" in key.rsplit("/", 1)[-1] else f"{key}:latest"


def _model_servers(house: House) -> list[Service]:
    names = {model.service for model in house.models.values() if model.service}
    return [service for name, service in house.services.items() if name in names]


def _progress(
    service: Service, read: ReadFile, now: datetime
) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """Return the puller's entries by model name, and what is wrong with them."""
    path = f"/var/lib/{service.role}/hearth/progress.json"
    try:
        document = json.loads(read(service.instance, path))
        entries = {str(name): _entry(entry) for name, entry in document["models"].items()}
        age = now - datetime.fromisoformat(document["updated_at"]).astimezone(UTC)
    except Exception as error:  # whatever the engine raises, the other models are still to be shown
        return {}, f"{service.name}: no word of its model puller ({_one_line(error)})"
    if age > _STALE_AFTER:
        minutes = int(age.total_seconds() // 60)
        silent = f"its model puller has been silent for {minutes} minutes"
        return entries, f"{service.name}: {silent}: see `hearth logs {service.name}`"
    note = _one_line(document.get("note") or "")
    return entries, f"{service.name}: {note}" if note else ""


def _external(
    service: Service, models: Iterable[Model], ask: AskJson
) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """Return entries for a server that is not ours: what is there, and what is missing."""
    try:
        listed = ask(f"{service.url}/api/tags")["models"]
        there = {key_of(entry["name"]): entry for entry in listed}
        return {m.name: _entry(_there(m, there.get(key_of(m.id)))) for m in models}, ""
    except Exception as error:  # see _progress
        unknown = {"state": MISSING, "reason": f"{service.url} does not answer"}
        return (
            {model.name: unknown for model in models},
            f"{service.name}: {service.url} gives no list of models ({_one_line(error)})",
        )


def _there(model: Model, entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if entry is None:
        reason = f"not on this server, where Hearth pulls nothing: run `ollama pull {model.id}`"
        return {"state": MISSING, "reason": reason, "total_bytes": model.download_bytes}
    size, digest = entry.get("size"), entry.get("digest")
    sizes = {"percent": 100, "completed_bytes": size, "total_bytes": size, "digest": digest}
    wanted = (model.digest or "").removeprefix("sha256:")
    if wanted not in ("", "first-sight", digest):
        reason = f"its manifest is sha256:{str(digest)[:12]}, the lock says sha256:{wanted[:12]}"
        return {"state": READY, "reason": reason, **sizes}
    return {"state": READY, **sizes}


def _entry(said: Mapping[str, Any]) -> dict[str, Any]:
    """Take what is known of an entry; whoever broke into a server of models writes it, too."""
    numbers = ("percent", "completed_bytes", "total_bytes", "bytes_per_s")
    return {
        **{key: min(int(said.get(key) or 0), _MOST) for key in numbers},
        **{key: _one_line(said.get(key) or "") for key in ("state", "reason")},
        "digest": said.get("digest") and _one_line(said["digest"]),
    }


def _one_line(said: object) -> str:
    """Return a text that leaves the terminal alone: one line, and nothing that steers it."""
    shown = "".join(sign if sign.isprintable() else " " for sign in str(said))
    text = " ".join(shown.split())[:_LINE]
    return text or (type(said).__name__ if isinstance(said, Exception) else "")
