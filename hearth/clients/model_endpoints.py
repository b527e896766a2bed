"""The two ways to a model of this house that benchmarks compare."""

import httpx

from hearth.catalogue.house import House, Model, Service
from hearth.clients.device import FOUND, Device, devices
from hearth.clients.endpoints import JsonCall, Measure, Way, by_url, json_by_url
from hearth.machine import engine

_JOURNAL_S = 20


class WaysError(Exception):
    """One line for a person: why this model cannot be asked both ways."""


def gateway_of(house: House) -> Service:
    """Return the service that routes models."""
    for service in house.services.values():
        if "models" in service.offers:
            return service
    raise WaysError("this house routes no models: nothing to compare with")


def local_model(house: House, name: str) -> Model:
    """Return a model of this house that answers in words, or the first local one of an alias."""
    members = house.aliases[name].members if name in house.aliases else (name,)
    for member in members:
        model = house.models.get(member)
        if model is not None and model.local and model.usable and model.kind != "transcribe":
            return model
    why = "is no model that this house runs itself and that answers in words"
    raise WaysError(f"{name} {why}: see `hearth models`")


def both(
    client: httpx.AsyncClient, house: House, model: Model, key: str
) -> tuple[Measure, Measure]:
    """Return what measures a model straight at its server, and through the gateway.

    Both are asked from the machine over plain HTTP, so that the gateway is the only difference.
    """
    server = house.services[model.service or ""]
    direct = Way("direct", server.url, "ollama", model.id)
    gateway = Way("gateway", gateway_of(house).url, "openai", model.name, key)
    return by_url(client, direct), by_url(client, gateway)


def server_api(client: httpx.AsyncClient, house: House, model: Model) -> JsonCall:
    """Return what calls the API of the server that runs a model."""
    return json_by_url(client, house.services[model.service or ""].url)


def devices_of(house: House, model: Model) -> list[Device]:
    """Return what the server of a model said it computes on when it started; none for another's.

    Raises:
        EngineError: its instance cannot be looked into.
    """
    service = house.services[model.service or ""]
    if not service.address:
        return []
    ask = ["/usr/bin/systemctl", "show", service.unit, "--property=InvocationID", "--value"]
    run = engine.execute(service.instance, ask, timeout=_JOURNAL_S).stdout.strip()
    # Each start has its own number: an older one may have found other devices.
    read = ["/usr/bin/journalctl", "--no-pager", "--output=cat", f"_SYSTEMD_INVOCATION_ID={run}"]
    said = engine.execute(service.instance, [*read, f"--grep={FOUND}"], timeout=_JOURNAL_S)
    return devices(said.stdout.splitlines())
