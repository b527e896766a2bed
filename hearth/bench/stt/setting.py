"""Which servers one run measures, and what belongs to the first of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hearth.bench.stt import bare
from hearth.bench.stt.bench import MakeBare
from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint

ROLE = "whisper"


@dataclass(frozen=True, slots=True)
class Setting:
    """The first server, and how to call the same model without it."""

    server: Endpoint
    bare: MakeBare | None = None
    bare_how: str = ""


def in_house(service: Service, model: str) -> Setting:
    """Return a service of this house, asked from the machine."""

    def make(status: Mapping[str, Any]) -> bare.Bare:
        if not service.address:
            raise ClientError(f"{service.name} runs elsewhere: give a command by --bare")
        return bare.in_house(service, status)

    return Setting(Endpoint(service.instance, service.url, model), make, bare.BY_HOUSE)
