"""The models that servers have in memory, and how to take one out; Ollama's interface."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from hearth.catalogue import suggest
from hearth.catalogue.house import House, Service
from hearth.clients import ClientError
from hearth.clients.endpoints import client_errors, get_json, one_line
from hearth.clients.models import key_of
from hearth.machine import facts
from hearth.paths import PLAN, RECEIPT_FOLDER

_READ_S, _UNLOAD_S = 2.0, 20.0
_MOST = 50
_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """One model in memory: its size, how much of it is on a card, and when it will be unloaded.

    `expires` is an ISO time. `planned_bytes` is what `hearth plan` computed, 0 where it did not.
    """

    name: str
    size_bytes: int
    vram_bytes: int
    expires: str
    planned_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """What the stored plan says: bytes by model, and the room for all on a device."""

    device: str = ""
    room_bytes: int = 0
    models: Mapping[str, int] = field(default_factory=dict)

    def beside(self, loaded: Iterable[LoadedModel]) -> list[LoadedModel]:
        """Return models in memory with what was planned for each."""
        sizes = self.models
        return [replace(one, planned_bytes=sizes.get(key_of(one.name), 0)) for one in loaded]


def planned_memory(path: Path = RECEIPT_FOLDER / PLAN) -> PlannedMemory:
    """Return what `hearth plan` computed last; nothing without a readable plan."""
    try:
        plan = json.loads(path.read_bytes())
        place = plan["place"]
        sizes = {key_of(str(one["name"])): int(one["needed_bytes"]) for one in plan["models"]}
        return PlannedMemory(one_line(place["name"]), int(place["room_bytes"]), sizes)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return PlannedMemory()


def _get(url: str) -> Any:
    return get_json(url, _READ_S)


def loaded_models(
    service: Service, fetch: Callable[[str], Any] = _get, root: Path = _ROOT
) -> list[LoadedModel]:
    """Return the models that a service has in memory now; ClientError if it does not say."""
    url = f"{service.url}/api/ps"
    found = fetch(url)
    with client_errors(url, _READ_S):
        models = [_model(entry) for entry in (found.get("models") or [])[:_MOST]]
    return [replace(one, vram_bytes=0) for one in models] if is_cardless(service, root) else models


def is_cardless(service: Service, root: Path = _ROOT) -> bool:
    """Return whether a server runs on this machine and has no graphics card here.

    Ollama counts a processor's AMX buffers as a card's.
    """
    if not service.address or service.gpu == "software":
        return False
    return service.gpu == "none" or not facts.has_card(root)


def _model(entry: dict[str, Any]) -> LoadedModel:
    size, card = (max(0, int(entry.get(key) or 0)) for key in ("size", "size_vram"))
    name, expires = entry.get("name") or entry.get("model") or "", entry.get("expires_at") or ""
    return LoadedModel(one_line(name), size, min(card, size), one_line(expires))


def unload(house: House, model: str) -> str:
    """Take a model out of memory, and return which one and where.

    Raises:
        ClientError: no service has it in memory, or the service does not do it.
    """
    ids = {key_of(one.id) for one in house.models.values() if model in (one.name, one.id)}
    wanted = ids | {key_of(model)}
    for service in house.offering("loaded_models"):
        for one in loaded_models(service):
            if key_of(one.name) in wanted:
                _unload(service, one.name)
                freed = f"{one.size_bytes / 2**30:.1f} GiB"
                return f"{one.name} is out of the memory of {service.name}, which frees {freed}"
    if not ids:
        raise ClientError(f"no model {model!r}: {suggest(model, house.models)}")
    raise ClientError(f"{model} is not in memory")


def _unload(service: Service, name: str) -> None:
    url = f"{service.url}/api/generate"
    with client_errors(url, _UNLOAD_S):
        send = {"model": name, "keep_alive": 0}
        httpx.post(url, json=send, timeout=_UNLOAD_S, trust_env=False).raise_for_status()
