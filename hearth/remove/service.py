"""What a removed service leaves: in Incus, among the programs, among the downloads, in the vault.

Its name, its way, its rules and its row in others' files are not here: these are written from
the catalogue on every run, and are gone when the service is.
"""

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path

from pylxd import Client

from hearth.catalogue.house import House
from hearth.paths import DOWNLOADS
from hearth.remove import Trace, incus, owners

CERTIFICATES = Path("/var/lib/hearth/caddy")


def traces(
    client: Client | None, house: House, data: Collection[str], downloads: Path = DOWNLOADS
) -> list[Trace]:
    """List what the removed services of a house still have here.

    Args:
        client: Incus, or None where there is none yet.
        house: The house, with its removed services.
        data: Names of removed services whose data go, too.
        downloads: The folder of fetched files.
    """
    removed = house.removed
    found = incus.of_services(client, removed.values(), data) if client else []
    return found + owners.unwanted(removed) + fetched(house, downloads) + certificates(house)


def certificates(house: House, store: Path = CERTIFICATES) -> list[Trace]:
    """List the certificates of names that nobody has any more; Caddy would let them run out."""
    names = {site.fqdn for service in house.removed.values() for site in service.publish}
    names -= {site.fqdn for site in house.sites}
    return [
        Trace(f"certificate of {name}", partial(shutil.rmtree, path))
        for name in sorted(names)
        for path in sorted(store.glob(f"*/certificates/*/{name}"))
    ]


def fetched(house: House, downloads: Path) -> list[Trace]:
    """List the files that were fetched for removed services and for nobody else."""
    needed = {name for service in house.services.values() for name in service.sources}
    mine = {name for service in house.removed.values() for name in service.sources} - needed
    names = [f"{house.sources[name].name}-" for name in sorted(mine & {*house.sources})]
    # A lock file or half a download bears the same name with a dot before it or `.part` behind it.
    return [
        Trace(f"download {path.name}", partial(path.unlink, missing_ok=True))
        for path in sorted(downloads.glob("*"))
        if any(path.name.lstrip(".").startswith(name) for name in names)
    ]


def forgotten_secrets(house: House, data: Collection[str] = ()) -> list[str]:
    """Name the secrets that go with the removed services.

    What was made at random for a service without data goes at once, and so does its own key for
    others. A secret of a service whose data are kept may be what opens them, and one that a
    person gave is nowhere else: these stay until the data go.
    """
    kept = {*house.secrets}
    found: set[str] = set()
    for name, service in house.removed.items():
        found.add(f"consumer_{name}")
        for secret, kind in service.secrets.items():
            if name in data or (kind == "random" and not service.volumes):
                found.add(secret)
    return sorted(found - kept)
