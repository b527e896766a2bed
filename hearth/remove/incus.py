"""Remove the house from Incus: instances, volumes with their data, images, and the pool."""

import contextlib
import re
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed

from hearth.catalogue.house import Service
from hearth.machine import engine, instances
from hearth.machine.engine import POOL, SOCKET
from hearth.machine.images import IMAGE_KEY
from hearth.machine.instances import OWNER_KEY
from hearth.remove import RemoveError, Trace

_OURS = re.compile(r"hearth-[a-z0-9-]+-[0-9a-f]{12}")


def connect() -> Client | None:
    """Return a client of Incus, or None where it does not answer."""
    # The socket's file stays when Incus is stopped, as by an interrupted removal.
    with contextlib.suppress(ClientConnectionFailed):
        if Path(SOCKET).exists():
            return Client(endpoint=SOCKET)
    return None


def check_stopped(data: bool, goes: bool) -> None:
    """Raise when a stopped Incus holds what would be left behind, or what is not Hearth's.

    `data`: the house's data are removed. `goes`: Incus' package is removed, with all that it holds.
    """
    state = Path(SOCKET).parent
    kinds = ("containers", "virtual-machines", "custom")
    pools = sorted(state.glob("storage-pools/*"))
    mine = [path for kind in kinds for path in sorted(state.glob(f"storage-pools/{POOL}/{kind}/*"))]
    others = [path for path in pools if path.name != POOL] + sorted(state.glob("networks/*"))
    if others or (mine and not (data and goes)):
        names = ", ".join(path.name for path in others + mine)
        hint = ", or add --data to delete it for ever" if goes and not others else ""
        raise RemoveError(
            f"Incus does not answer, and it holds {names}: `systemctl start incus`, then run this "
            f"again{hint}"
        )


def of_services(
    client: Client, services: Iterable[Service], data: Collection[str] = ()
) -> list[Trace]:
    """List the instances of these services, and volumes of those whose names are in `data`."""
    found, present = [], engine.data_volumes(client)
    for service in services:
        # An instance that Hearth did not make stays.
        with contextlib.suppress(instances.InstanceError):
            instance = instances.find(client, service.instance)
            found += [_instance(instance)] if instance is not None else []
        if service.name in data:
            own = [item.name for item in service.volumes if not item.from_folder]
            found += [_volume(present[name]) for name in own if name in present]
    return found


def everything(client: Client, data: bool) -> list[Trace]:
    """List every instance and image of the house, and with `data` its volumes and the pool."""
    found = [
        _instance(item) for item in client.instances.all() if item.config.get(OWNER_KEY) == "1"
    ]
    # No service is left that needs one.
    found += unused_images(client, set(), used=set())
    found += [_volume(volume) for volume in engine.sandbox_volumes(client).values()]
    present = engine.data_volumes(client)
    if data:
        found += [_volume(volume) for volume in present.values()]
    if (data or not present) and client.storage_pools.exists(POOL):
        found.append(Trace(f"storage pool {POOL}", lambda: client.storage_pools.get(POOL).delete()))
    return found


def foreign(client: Client) -> list[str]:
    """Return what Hearth did not make in this Incus, which keeps it installed."""
    found = [f"instance {i.name}" for i in client.instances.all() if i.config.get(OWNER_KEY) != "1"]
    found += [f"image {i.fingerprint[:12]}" for i in client.images.all() if not _ours(i)]
    # pylxd requests each network separately, which fails for some unmanaged ones.
    networks = client.api.networks.get(params={"recursion": 1}).json()["metadata"]
    found += [f"network {item['name']}" for item in networks if item["managed"]]
    return found + [f"pool {pool.name}" for pool in client.storage_pools.all() if pool.name != POOL]


def unused_images(
    client: Client, wanted: Collection[str], used: Collection[str] | None = None
) -> list[Trace]:
    """List images of ours that no service needs and no instance was made from.

    `used` are the images of instances, by default read from Incus.
    """
    if used is None:
        present = client.instances.all()
        used = {item.config[IMAGE_KEY] for item in present if IMAGE_KEY in item.config}
    found = []
    for image in client.images.all():
        names = {alias["name"] for alias in image.aliases}
        if _ours(image) and not names & {*wanted, *used}:
            # An import that was killed before its last step leaves an image without a name.
            shown = next(iter(sorted(names)), image.fingerprint[:12])
            found.append(Trace(f"image {shown}", partial(image.delete, wait=True)))
    return found


def _ours(image: Any) -> bool:
    names = [alias["name"] for alias in image.aliases]
    if names:
        return all(_OURS.fullmatch(name) for name in names)
    return str(image.properties.get("description", "")).startswith("Hearth ")


def _instance(found: Any) -> Trace:
    return Trace(f"instance {found.name}", partial(instances.remove, found))


def _volume(found: Any) -> Trace:
    return Trace(f"volume {found.name} with its data", partial(found.delete, wait=True))
