"""What the house has in Incus: instances, volumes with their data, images, and the pool."""

import contextlib
import re
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pylxd import Client
from pylxd.exceptions import ClientConnectionFailed, NotFound

from hearth.catalogue.house import Service
from hearth.machine import instances
from hearth.machine.engine import POOL, SOCKET
from hearth.machine.instances import IMAGE_KEY, OWNER_KEY
from hearth.remove import RemoveError, Trace

_OURS = re.compile(r"hearth-[a-z0-9-]+-[0-9a-f]{12}")


def reach() -> Client | None:
    """Return Incus, or None where it does not answer."""
    # systemd leaves the socket's file where it stops Incus, as a removal does that is cut short.
    with contextlib.suppress(ClientConnectionFailed):
        if Path(SOCKET).exists():
            return Client(endpoint=SOCKET)
    return None


def spare_silent(data: bool, goes: bool) -> None:
    """Return where an Incus that does not answer holds nothing, or only what is to go with it.

    Args:
        data: Whether the house's data shall go.
        goes: Whether Incus' own package goes, and all that it holds with it.

    Raises:
        RemoveError: it holds what would stay behind unseen, or be taken from somebody else.
    """
    state = Path(SOCKET).parent
    kinds = ("containers", "virtual-machines", "custom")
    pools = sorted(state.glob("storage-pools/*"))
    mine = [path for kind in kinds for path in sorted(state.glob(f"storage-pools/{POOL}/{kind}/*"))]
    others = [path for path in pools if path.name != POOL] + sorted(state.glob("networks/*"))
    if others or (mine and not (data and goes)):
        names = ", ".join(path.name for path in others + mine)
        way = ", or say --data, which takes it for ever" if goes and not others else ""
        raise RemoveError(
            f"Incus does not answer, and it holds {names}: `systemctl start incus`, then say this "
            f"again{way}"
        )


def of_services(
    client: Client, services: Iterable[Service], data: Collection[str] = ()
) -> list[Trace]:
    """List what these services still have; volumes only of those whose names are in `data`."""
    found, volumes = [], _volumes(client)
    for service in services:
        # Somebody else's instance of this name is nothing of ours to remove.
        with contextlib.suppress(instances.InstanceError):
            instance = instances.find(client, service.instance)
            found += [_instance(instance)] if instance is not None else []
        if service.name in data:
            own = [item.name for item in service.volumes if not item.from_folder]
            found += [_volume(volumes[name]) for name in own if name in volumes]
    return found


def all_of_it(client: Client, data: bool) -> list[Trace]:
    """List every instance and image of the house; with `data` its volumes and the pool, too."""
    found = [
        _instance(item) for item in client.instances.all() if item.config.get(OWNER_KEY) == "1"
    ]
    # No service is left that could want one.
    found += unused_images(client, set(), used=set())
    volumes = _volumes(client)
    if data:
        found += [_volume(volume) for volume in volumes.values()]
    if (data or not volumes) and client.storage_pools.exists(POOL):
        found.append(Trace(f"storage pool {POOL}", lambda: client.storage_pools.get(POOL).delete()))
    return found


def kept(client: Client) -> list[str]:
    """Name the volumes with the house's data."""
    return sorted(_volumes(client))


def strangers(client: Client) -> list[str]:
    """Name what somebody else has in this Incus, for whose sake it stays."""
    found = [f"instance {i.name}" for i in client.instances.all() if i.config.get(OWNER_KEY) != "1"]
    found += [f"image {i.fingerprint[:12]}" for i in client.images.all() if not _ours(i)]
    # pylxd asks for each network by itself, and Incus fails for some that are only the machine's.
    networks = client.api.networks.get(params={"recursion": 1}).json()["metadata"]
    found += [f"network {item['name']}" for item in networks if item["managed"]]
    return found + [f"pool {pool.name}" for pool in client.storage_pools.all() if pool.name != POOL]


def unused_images(
    client: Client, wanted: Collection[str], used: Collection[str] | None = None
) -> list[Trace]:
    """List images of ours that no service wants and no instance was made from.

    `used` are the images of instances; without it, Incus is asked.
    """
    if used is None:
        made = client.instances.all()
        used = {item.config[IMAGE_KEY] for item in made if IMAGE_KEY in item.config}
    found = []
    for image in client.images.all():
        names = {alias["name"] for alias in image.aliases}
        if _ours(image) and not names & {*wanted, *used}:
            # An import that was killed before its last step leaves one without a name.
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


def _volumes(client: Client) -> dict[str, Any]:
    try:
        pool = client.storage_pools.get(POOL)
    except NotFound:
        return {}
    return {item.name: item for item in pool.volumes.all() if item.type == "custom"}
