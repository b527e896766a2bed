"""Finish the moves of services between engines: remove the old one, or bring it back.

Argument: `house` (as derived from the catalogue). `house_instances` has copied the data and the
service's role has started the new one. Where that is healthy, the old one is removed with its copy
of the data; otherwise the new one is stopped and the old one is started.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth import progress
from hearth.catalogue.house import House, Service, from_vars
from hearth.clients import health
from hearth.machine import moves, podman
from hearth.machine.action import HouseAction
from hearth.machine.engine import SOCKET, EngineError
from hearth.machine.images import recipe_of
from hearth.remove import RemoveError, containers, incus

# The role has waited already.
_AGAIN_S = 10


class ActionModule(HouseAction):
    """Look at each service that was moved, and remove or restore what it was before."""

    arguments: ClassVar = {"house": {"type": "dict", "required": True}}
    errors = (
        *(moves.MoveError, podman.PodmanError, RemoveError, EngineError, OSError),
        *(LXDAPIException, ClientConnectionFailed),
    )

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Finish every noted move; return what was (or would be) done."""
        noted = moves.noted()
        if not noted or not Path(SOCKET).exists():
            return {"changed": False}
        client, did, failed = Client(endpoint=SOCKET), [], []
        house = from_vars(House, params["house"])
        # A container between two starts is not there, and its image would seem unused.
        wanted = {
            podman.image_name(recipe_of(one, house.machine.resolver_address))
            for one in house.services.values()
            if one.runtime == "podman"
        }
        for name, move in noted.items():
            service = house.services.get(name)
            if service is None or not move.copied:
                continue
            with progress.doing(f"move {name}", f"checking it in {service.runtime}"):
                reason = _reason(service)
            if reason:
                did.append(f"start {name} in {move.old} again")
                failed.append(f"{name} is not healthy in {service.runtime} ({reason})")
            else:
                did.append(f"remove {name} from {move.old}")
            if write:
                self._finish(client, service, move, wanted, good=not reason)
        if failed and write:
            back = "its data and its old instance are as before, and run again"
            raise moves.MoveError(f"{'; '.join(failed)}: {back}; correct it, then run this again")
        return {"changed": bool(did), "did": did}

    def _finish(
        self,
        client: Client,
        service: Service,
        move: moves.Move,
        wanted: Collection[str],
        *,
        good: bool,
    ) -> None:
        """Remove one of the two; images in Podman whose names are in `wanted` stay."""
        if not good:
            moves.start_old(client, service, move)
            moves.forget(service.name)
            return
        if move.old == "incus":
            found = incus.of_services(client, [service], {service.name})
        else:
            moves.put_back(service)
            found = containers.of_services({service.name}, {service.name})
        for trace in found:
            trace.remove()
        # The next run would find an image that nothing uses any more.
        for trace in [*incus.unused_images(client, set()), *containers.unused_images(wanted)]:
            trace.remove()
        moves.forget(service.name)


def _reason(service: Service) -> str:
    """Return why a service is not healthy; empty if it is."""
    end = time.monotonic() + _AGAIN_S
    while True:
        result = health.check(service)
        if result.healthy or time.monotonic() > end:
            return "" if result.healthy else result.reason
        time.sleep(0.5)
