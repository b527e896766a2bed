"""Which servers one run measures, and what belongs to the first of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hearth.bench.tts import bare
from hearth.bench.tts.bench import MakeBare
from hearth.catalogue.house import House, Service
from hearth.clients import ClientError
from hearth.clients.edge import house_edge
from hearth.clients.endpoints import Endpoint

ROLE = "kokoro"
UPSTREAM = "kokoro_fastapi"
"""The role of what it may be compared with: upstream's own server."""
_BARE_REPEAT = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """The first server, how to infer without it, and the way of everybody else to it."""

    server: Endpoint
    bare: MakeBare | None = None
    bare_how: str = ""
    through: Endpoint | None = None


def beside(service: Service, model: str, voice: str | None) -> Endpoint:
    """Return a service of this house that another one is compared with.

    Raises:
        ClientError: it does not speak.
    """
    if service.role not in (ROLE, UPSTREAM):
        raise ClientError(f"{service.name} does not speak: name a service of role {ROLE}, or a URL")
    return Endpoint(service.instance, service.url, model, voice=voice)


def in_house(house: House, service: Service, model: str, key: str) -> Setting:
    """Return a service of this house, asked from the machine, with a consumer's key for Caddy.

    Raises:
        ClientError: the house's front door cannot be used.
    """

    def make(status: Mapping[str, Any]) -> bare.Bare:
        if not service.address:
            raise ClientError(f"{service.name} runs elsewhere: give a command by --bare")
        return bare.in_house(service, status, _BARE_REPEAT)

    through = None
    if service.publish:
        try:
            door = house_edge(house)
            trust = door.trust()
        except ClientError as error:
            raise ClientError(str(error)) from error
        name, url = service.publish[0].fqdn, f"https://{door.address}"
        through = Endpoint("caddy", url, model, key, host=name, trust=trust)
    return Setting(Endpoint(service.instance, service.url, model), make, bare.BY_HOUSE, through)
