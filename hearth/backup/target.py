"""The house that a backup is put into, and the reasons why it may not be."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hearth.backup import BackupError
from hearth.backup.begun import Begun
from hearth.backup.records import Contents
from hearth.backup.volumes import Hands, Place
from hearth.machine import pki

# Names, folders and the like on top of the content.
_SPARE_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Target:
    """The house that a backup is put into, and what can be done to it."""

    domain: str
    places: Sequence[Place]
    hands: Hands
    secrets: Callable[[], dict[str, str]]
    set_secrets: Callable[[Mapping[str, str]], None]
    built: Callable[[Place], bool]
    holds: Callable[[Place], bool]  # of one that is not built: whether its data lie there
    stop: Callable[[Place], None]
    converge: Callable[[Sequence[Place]], None]  # of nothing in particular: the whole house
    # Nobody else converges it meanwhile; a converge takes this lock itself.
    alone: Callable[[], AbstractContextManager[object]]
    begun: Begun


def chosen(contents: Contents, target: Target, where: str) -> list[Place]:
    """Find the folder of this house for each one in the backup."""
    known = {(place.service, place.path): place for place in target.places}
    found = []
    for volume in contents.header.volumes:
        place = known.get((volume.service, volume.path))
        if place is None:
            raise BackupError(
                f"{where}: holds {volume.path} of {volume.service}, which this house has not or "
                f"has turned off: write `enabled: true` for it into inventory/local/services.yml"
            )
        found.append(place)
    root = contents.secrets.get("house_root_cert")
    if root is not None and (domain := pki.domain_of(root)) != target.domain:
        raise BackupError(
            f"{where}: from a house under {domain}, and this one is under {target.domain}: write "
            f"`domain: {domain}` into inventory/local/machines.yml"
        )
    return found


def refuse_full(contents: Contents, chosen: Sequence[Place], target: Target) -> None:
    """Leave a house alone that has something to lose."""
    full = [
        f"{place.path} of {place.service}"
        for place in chosen
        if (not target.hands.look(place)["empty"] if target.built(place) else target.holds(place))
    ]
    own = target.secrets()
    if any(own.get(name, value) != value for name, value in contents.secrets.items()):
        full.append("its secrets")
    if full:
        raise BackupError(
            f"this house is not empty ({', '.join(full)}): say --replace and the backup takes "
            "their place; what is there now is lost then"
        )


def refuse_narrow(contents: Contents, chosen: Sequence[Place], target: Target) -> None:
    """See that old and new have room beside each other before anything is written."""
    sizes = [
        sum(entry["size"] for entry in contents.expected(number).values())
        for number in range(len(chosen))
    ]
    for place, size in zip(chosen, sizes, strict=True):
        # Volumes share one disk; a folder of the machine may lie on another.
        needed = (size if place.from_folder else sum(sizes)) + _SPARE_BYTES
        free = target.hands.look(place)["free_bytes"]
        if needed > free:
            raise BackupError(
                f"{place.instance}: {place.path} needs {needed >> 20} MB beside what is there, and "
                f"{free >> 20} MB are free: make room"
            )
