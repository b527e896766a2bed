"""Whether each model and alias of the house answers, or how far its download is."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from hearth.catalogue.house import Alias, House, Model, Service
from hearth.clients.endpoints import one_line

WAITING, PULLING, READY = "waiting", "pulling", "ready"
FAILED, TOO_BIG, MISSING = "failed", "too_big", "missing"
CLOUD, UNUSABLE = "cloud", "unusable"
PENDING, NOT_OFFERED = "pending", "not_offered"
INSTEAD, DOWN = "instead", "down"
_ANSWER = frozenset({READY, CLOUD})
_MAY_COME = frozenset({WAITING, PULLING, FAILED})
# The puller writes every minute, also when idle.
_STALE_AFTER = timedelta(minutes=3)
_OVERDUE = timedelta(days=1)
_MOST = 2**63
# A program that Hearth installed has a list of its files.
_LIST = "/var/lib/hearth/programs/{program}/current/.hearth-manifest.json"

ReadFile = Callable[[str | None, str], str | bytes]
"""Reads a file of an instance, or of the machine (None): (instance, path) -> its content."""
FetchJson = Callable[[str], Any]
"""Calls an external server: URL -> the JSON of its response."""
Entries = Mapping[str, Mapping[str, Any]]
NONE_BROKEN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ModelState:
    """The state of one model; its bytes are of its download, `eta_s` is set only during it.

    `context` is in tokens. `failing_since` is an ISO time, empty unless all tries since failed.
    """

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
    context: int | None = None
    capabilities: tuple[str, ...] = ()
    failing_since: str = ""


@dataclass(frozen=True, slots=True)
class AliasState:
    """One alias: ready, pending, not_offered, instead or down.

    `pending` means that its first model is still to come; `answered_by` is the first member that
    answers already. A pending alias with a `reason` has a download that fails and is tried again.
    `instead` means that the server of its first model does not work, and a later member answers;
    `down` that none does.
    """

    name: str
    state: str
    percent: int
    answered_by: str | None
    reason: str = ""
    waits_for: str | None = None
    failing_since: str = ""

    @property
    def text(self) -> str:
        """The state as a person reads it."""
        if self.state == READY:
            return "ready"
        if self.state == NOT_OFFERED:
            return f"not offered: {self.reason}"
        if self.state == INSTEAD:
            return f"instead of {self.reason}"
        if self.state == DOWN:
            return f"no answer: {self.reason}"
        why = f": {self.reason}" if self.reason else ""
        return f"pending, {self.percent} %{why}"

    def overdue(self, now: datetime) -> str:
        """Return what to tell a person if the download has failed for a day, else nothing."""
        try:
            since = datetime.fromisoformat(self.failing_since).astimezone(UTC)
        except ValueError:
            return ""
        if now - since < _OVERDUE:
            return ""
        when = f"the download of {self.waits_for} has failed since {since:%Y-%m-%d %H:%M} UTC"
        return f"{when}: {self.reason}" if self.reason else when


@dataclass(frozen=True, slots=True)
class Overview:
    """All models and aliases of a house; a note for each server whose status is missing or old."""

    models: Mapping[str, ModelState]
    aliases: Mapping[str, AliasState]
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the overview as plain JSON data."""
        aliases = {name: {**asdict(one), "text": one.text} for name, one in self.aliases.items()}
        return asdict(self) | {"aliases": aliases}


def model_states(house: House, read: ReadFile, fetch: FetchJson, now: datetime) -> Overview:
    """Join the house's models and aliases with the status of its servers.

    What `read` and `fetch` raise becomes a note; `now` is an aware time.
    """
    entries: dict[str, Mapping[str, Any]] = {}
    notes: list[str] = []
    for service in house.services.values():
        if models := [m for m in house.models.values() if m.service == service.name]:
            found, note = _entries(service, models, read, fetch, now)
            entries |= found
            notes += [note] if note else []
    states = {name: model_state(m, entries.get(name)) for name, m in house.models.items()}
    aliases = {name: alias_state(alias, states) for name, alias in house.aliases.items()}
    return Overview(states, aliases, tuple(notes))


def model_state(model: Model, entry: Mapping[str, Any] | None) -> ModelState:
    """Return the state of one model; `entry` is its server's status, if there is one."""
    known = ModelState(
        model.name,
        model.id,
        model.provider,
        model.kind,
        WAITING,
        context=model.context,
        capabilities=model.capabilities,
    )
    if not model.usable:
        # A server may have a model on disk that no alias or consumer can call.
        here = "on disk, and " if entry and entry.get("state") == READY else ""
        return replace(known, state=UNUSABLE, reason=f"{here}{model.reason or ''}")
    if not model.local:
        return replace(known, state=CLOUD, percent=100)
    if entry is None:
        return replace(known, total_bytes=model.download_bytes or 0)
    found = replace(known, **entry)
    if found.state != PULLING or found.bytes_per_s < 1:
        return found
    left = max(0, found.total_bytes - found.completed_bytes)
    return replace(found, eta_s=left / found.bytes_per_s)


def without(overview: Overview, house: House, down: Collection[str]) -> Overview:
    """Return the overview as it is while these services do not work, of which it knows only disks.

    Without the gateway no alias answers.
    """
    gateways = [one.name for one in house.offering("models")]
    closed = gateways[0] if gateways and {*gateways} <= {*down} else None
    owners = {name: closed or model.service for name, model in house.models.items()}
    broken = {
        name: f"{owner} does not work"
        for name, owner in owners.items()
        if owner and (owner in down or owner == closed)
    }
    if not broken:
        return overview
    aliases = {
        name: alias_state(house.aliases[name], overview.models, broken) for name in overview.aliases
    }
    return replace(overview, aliases=aliases)


def alias_state(
    alias: Alias, models: Mapping[str, ModelState], broken: Mapping[str, str] = NONE_BROKEN
) -> AliasState:
    """Return whether an alias answers with its first model, will do so, or never.

    `broken` has why the server of a model does not work, by the model's name.
    """
    if not alias.offered:
        return AliasState(alias.name, NOT_OFFERED, 0, None, alias.reason or "no usable member")
    members = [models[name] for name in alias.members]
    answer = (m.name for m in members if m.state in _ANSWER and m.name not in broken)
    answered_by = next(answer, None)
    # A member that is too big or missing for good is not waited for.
    first = next((m for m in members if m.state in _ANSWER | _MAY_COME), None)
    if first is None:
        why = "; ".join(f"{m.name}: {m.reason or m.state}" for m in members)
        return AliasState(alias.name, NOT_OFFERED, 0, None, why)
    if first.state in _ANSWER:
        if first.name not in broken:
            return AliasState(alias.name, READY, 100, answered_by)
        why = f"{first.name}: {broken[first.name]}"
        return AliasState(alias.name, INSTEAD if answered_by else DOWN, 100, answered_by, why)
    reason = f"{first.name}: {first.reason}" if first.state == FAILED else ""
    return AliasState(
        alias.name, PENDING, first.percent, answered_by, reason, first.name, first.failing_since
    )


def _entries(
    service: Service, models: Iterable[Model], read: ReadFile, fetch: FetchJson, now: datetime
) -> tuple[Entries, str]:
    """Return an entry for each known model of one server, and a note on what is wrong."""
    if service.runtime == "external":
        return _external(service, models, fetch)
    installed = {model.name: _on_disk(model, read) for model in models if model.program}
    pulls = not all(model.program for model in models)
    pulled, note = _progress(service, read, now) if pulls else ({}, "")
    return {**pulled, **installed}, note


def key_of(model_id: str) -> str:
    """Return one spelling for all that Ollama accepts for a model."""
    key = model_id.strip().lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return key if ":" in key.rsplit("/", 1)[-1] else f"{key}:latest"


def _on_disk(model: Model, read: ReadFile) -> Mapping[str, Any]:
    """Return the entry of a model that Hearth installs: it is there completely or not at all."""
    try:
        listed = json.loads(read(None, _LIST.format(program=model.program)))
        size = sum(int(entry[2]) for entry in listed.values() if entry[0] == "file")
    except Exception:  # `hearth up` repairs whatever prevents reading it
        return {"state": WAITING, "reason": "the next `hearth up` fetches it"}
    return _complete(size)


def _complete(size: object) -> dict[str, Any]:
    return {"state": READY, "percent": 100, "completed_bytes": size, "total_bytes": size}


def _progress(service: Service, read: ReadFile, now: datetime) -> tuple[Entries, str]:
    """Return the puller's entries by model name, and what is wrong with them."""
    path = f"/var/lib/{service.role}/hearth/progress.json"
    try:
        document = json.loads(read(service.instance, path))
        entries = {str(name): _entry(entry) for name, entry in document["models"].items()}
        age = now - datetime.fromisoformat(document["updated_at"]).astimezone(UTC)
    except Exception as error:  # whatever the engine raises, the other models must be shown
        return {}, f"{service.name}: no status of its model puller ({one_line(error)})"
    if age > _STALE_AFTER:
        minutes = int(age.total_seconds() // 60)
        silent = f"its model puller has been silent for {minutes} minutes"
        return entries, f"{service.name}: {silent}: see `hearth logs {service.name}`"
    note = one_line(document.get("note") or "")
    return entries, f"{service.name}: {note}" if note else ""


def _external(service: Service, models: Iterable[Model], fetch: FetchJson) -> tuple[Entries, str]:
    """Return entries for an external server: which models are there, and which are missing."""
    # Ollama lists models with sizes and digests, others by name only.
    path, field, key = "/api/tags", "models", "name"
    if all(model.kind == "transcribe" for model in models):
        path, field, key = "/v1/models", "data", "id"
    try:
        there = {key_of(entry[key]): entry for entry in fetch(f"{service.url}{path}")[field]}
        return {m.name: _entry(_there(m, there.get(key_of(m.id)))) for m in models}, ""
    except Exception as error:  # see _progress
        unknown = {"state": MISSING, "reason": f"{service.url} does not answer"}
        note = f"{service.name}: {service.url} gives no list of models ({one_line(error)})"
        return dict.fromkeys((model.name for model in models), unknown), note


def _there(model: Model, entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if entry is None:
        what = "have it there" if model.kind == "transcribe" else f"run `ollama pull {model.id}`"
        reason = f"not on this server, where Hearth pulls nothing: {what}"
        return {"state": MISSING, "reason": reason, "total_bytes": model.download_bytes}
    size, digest, reason = entry.get("size"), entry.get("digest"), ""
    wanted = (model.digest or "").removeprefix("sha256:")
    if wanted not in ("", "unverified", digest):
        reason = f"its manifest is sha256:{str(digest)[:12]}, the lock has sha256:{wanted[:12]}"
    return {**_complete(size), "digest": digest, "reason": reason}


def _entry(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known fields of an entry; an attacker inside a model server can write it, too."""
    numbers = {"percent": int, "completed_bytes": int, "total_bytes": int, "bytes_per_s": float}
    return {
        **{key: kind(min(int(raw.get(key) or 0), _MOST)) for key, kind in numbers.items()},
        "state": one_line(raw.get("state") or WAITING),
        "reason": one_line(raw.get("reason") or ""),
        "digest": raw.get("digest") and one_line(raw["digest"]),
        "failing_since": one_line(raw.get("failing_since") or ""),
    }
