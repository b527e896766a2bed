"""Remove one service: its entry in the inventory, and its leftovers on the machine.

Leftovers are in Incus, among the programs, among the downloads and in the vault. Its name, its
routes and its firewall rules are written from the catalogue on every run, and go with the service.
"""

import shutil
import tempfile
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path

from pylxd import Client

from hearth.catalogue import CatalogueError, load
from hearth.catalogue.house import House, Part, Service
from hearth.machine import moves
from hearth.machine.environment import UNITS
from hearth.paths import DOWNLOADS, PROGRAMS, SITE_CERTIFICATES
from hearth.remove import RemoveError, Trace, containers, incus
from hearth.remove.whole_house import drop_unit
from hearth.yaml_edit import EditError, set_in_file

FILE = Path("local/services.yml")
# One empty file for each program and service that uses it: a kill cannot leave half an entry.
CLAIMS = Path("/var/lib/hearth/wanted")


def traces(client: Client | None, house: House, data: Collection[str]) -> list[Trace]:
    """List the leftovers of a house's removed services; of those in `data`, their data as well."""
    removed = house.removed
    found = incus.of_services(client, removed.values(), data) if client else []
    found += containers.of_services({*removed}, data)
    found += [
        Trace(f"the move of {name}", partial(moves.forget, name))
        for name in sorted({*removed} & {*moves.noted()})
    ]
    return found + unused_parts(house) + unclaimed(removed) + fetched(house) + certificates(house)


def unused_parts(house: House, root: Path = Path("/")) -> list[Trace]:
    """List the units of parts that no service needs any more, and then their programs."""
    found = []
    for part in house.unused_parts.values():
        program = root / PROGRAMS.relative_to("/") / part.name
        if (root / UNITS / part.unit).exists():
            found.append(Trace(f"unit {part.unit}", partial(drop_unit, part.unit, root)))
        if program.exists():
            found.append(Trace(f"program {part.name}", partial(shutil.rmtree, program)))
    return found


def certificates(house: House, store: Path = SITE_CERTIFICATES) -> list[Trace]:
    """List the certificates of names that no longer exist; Caddy would only let them expire."""
    gone: list[Service | Part] = [*house.removed.values(), *house.unused_parts.values()]
    names = {site.fqdn for owner in gone for site in owner.sites}
    names -= {site.fqdn for site in house.sites}
    return [
        Trace(f"certificate of {name}", partial(shutil.rmtree, path))
        for name in sorted(names)
        for path in sorted(store.glob(f"*/certificates/*/{name}"))
    ]


def fetched(house: House, downloads: Path = DOWNLOADS) -> list[Trace]:
    """List the files that were downloaded for removed services only."""
    needed = {name for service in house.services.values() for name in service.sources}
    mine = {name for service in house.removed.values() for name in service.sources} - needed
    names = [f"{house.sources[name].name}-" for name in sorted(mine & {*house.sources})]
    # Lock files and partial downloads add a dot before the name or `.part` after it.
    return [
        Trace(f"download {path.name}", partial(path.unlink, missing_ok=True))
        for path in sorted(downloads.glob("*"))
        if any(path.name.lstrip(".").startswith(name) for name in names)
    ]


def forgotten_secrets(house: House, data: Collection[str] = ()) -> list[str]:
    """Return the names of the secrets that are removed with the services.

    A service's own key and random secrets of a service without data are removed at once. Kept data
    may need their secrets, and a given secret may exist only here: these stay as long as the data.
    """
    kept = {*house.secrets}
    found: set[str] = set()
    for name, service in house.removed.items():
        found.add(f"consumer_{name}")
        for secret, kind in service.secrets.items():
            if name in data or (kind == "random" and not service.volumes):
                found.add(secret)
    return sorted(found - kept)


def claim(program: str, service: str, *, write: bool, claims: Path = CLAIMS) -> bool:
    """Record that the service uses the program, before it is installed; return whether it is new.

    With `write` false nothing is recorded.
    """
    path = claims / program / service
    new = not path.exists()
    if new and write:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return new


def unclaimed(gone: Iterable[str], programs: Path = PROGRAMS, claims: Path = CLAIMS) -> list[Trace]:
    """List the programs that only removed services have used, and the claims to others."""
    found, removed = [], {*gone}
    for folder in sorted(claims.glob("*")):
        owners = {path.name for path in folder.glob("*")}
        mine = owners & removed
        if mine and mine == owners:
            drop = partial(_drop, programs / folder.name, folder)
            found.append(Trace(f"program {folder.name}", drop))
        elif mine:
            text = f"claim of {', '.join(sorted(mine))} to program {folder.name}"
            found.append(Trace(text, partial(_forget, folder, mine)))
    return found


def _drop(program: Path, claims: Path) -> None:
    # The claims go last, so that the next run finds what a kill left of the program.
    if program.exists():
        shutil.rmtree(program)
    shutil.rmtree(claims, ignore_errors=True)


def _forget(folder: Path, owners: Iterable[str]) -> None:
    for owner in owners:
        (folder / owner).unlink(missing_ok=True)


def note_absent(inventory: Path, service: str) -> None:
    """Write `present: false` into the service's record in inventory/local.

    Raises:
        RemoveError: the file cannot be edited safely, or the inventory would not be valid without
            the service; the inventory is unchanged.
    """
    keys = ("services", service, "present")
    # A copy is edited and validated first, so that an error changes nothing.
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        copy = Path(folder) / "inventory"
        shutil.copytree(inventory, copy, ignore=shutil.ignore_patterns("secrets.yml", ".*"))
        # They specify which `settings` a record may have.
        (Path(folder) / "roles").symlink_to(inventory.resolve().parent / "roles")
        try:
            set_in_file(copy / FILE, keys, False)
            load(copy)
        except (CatalogueError, EditError) as error:
            text = str(error).replace(f"{copy}/", "")
            raise RemoveError(f"{text}\nnothing was changed") from None
    set_in_file(inventory / FILE, keys, False)
