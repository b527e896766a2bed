"""Put a backup back: everything is read and believed first, and only then is anything touched."""

import contextlib
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from hearth import pki
from hearth.backup import BackupError
from hearth.backup.age import decrypting
from hearth.backup.archive import Readable, check, members
from hearth.backup.child import Child
from hearth.backup.judge import renamed
from hearth.backup.records import DATA, Contents, prefix
from hearth.backup.volumes import Hands, Place
from hearth.files import write_atomic

Say = Callable[[str], None]
# Names, folders and the like on top of the content.
_SPARE_BYTES = 32 * 2**20


def read(path: Path, identity: str) -> Contents:
    """Decrypt a whole backup, compare it with its manifest, and return what it holds.

    Raises:
        BackupError: another key, a newer format, damage: in one line, and nothing was touched.
    """
    with decrypting(path, identity) as stream:
        contents = check(stream, str(path))
        stream.finish()
    return contents


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
    unfinished: Path  # names the backup that is being restored


def restore(
    path: Path, identity: str, contents: Contents, target: Target, replace: bool, say: Say
) -> list[Place]:
    """Put a backup that `read` has found whole into a house; return the folders it filled.

    It can be run again after a kill at any moment. A house that does not become healthy gets back
    what it had before.

    Raises:
        BackupError: the house is not empty, does not fit, has no room, or did not become healthy.
    """
    chosen = _chosen(contents, target, str(path))
    name = identity_of(contents)
    if not replace and not _goes_on(target, name):
        _refuse_full(contents, chosen, target)
    target.unfinished.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target.unfinished, name.encode(), 0o600)
    before = target.secrets()
    if not all(target.built(place) for place in chosen):
        say("build the house")
        target.set_secrets(contents.secrets)
        target.converge(())
    for place in chosen:
        if target.hands.look(place)["unfinished"]:
            target.stop(place)
            target.hands.put(place, "back")
    _refuse_narrow(contents, chosen, target)
    with decrypting(path, identity) as stream:
        for number, child in _feeds(stream, contents, chosen, target, name, str(path)):
            say(f"{chosen[number].service}: {chosen[number].path}")
            child.close()
            child.wait()
    _exchange(contents, chosen, target, name, before, say)
    target.unfinished.unlink(missing_ok=True)
    return chosen


def identity_of(contents: Contents) -> str:
    """Tell one backup from all others."""
    text = json.dumps(contents.manifest.model_dump(), sort_keys=True)
    return hashlib.sha256(f"{contents.header.made_at}{text}".encode()).hexdigest()


def _chosen(contents: Contents, target: Target, where: str) -> list[Place]:
    """Find the folder of this house for each one in the backup."""
    known = {(place.service, place.path): place for place in target.places}
    chosen = []
    for volume in contents.header.volumes:
        place = known.get((volume.service, volume.path))
        if place is None:
            raise BackupError(
                f"{where}: holds {volume.path} of {volume.service}, which this house has not or "
                f"has turned off: write `enabled: true` for it into inventory/local/services.yml"
            )
        chosen.append(place)
    root = contents.secrets.get("house_root_cert")
    if root is not None and (domain := pki.domain_of(root)) != target.domain:
        raise BackupError(
            f"{where}: from a house under {domain}, and this one is under {target.domain}: write "
            f"`domain: {domain}` into inventory/local/machines.yml"
        )
    return chosen


def _goes_on(target: Target, name: str) -> bool:
    """Whether this very restore was begun here before."""
    with contextlib.suppress(OSError):
        return target.unfinished.read_text() == name
    return False


def _refuse_full(contents: Contents, chosen: Sequence[Place], target: Target) -> None:
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


def _refuse_narrow(contents: Contents, chosen: Sequence[Place], target: Target) -> None:
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
                f"{free >> 20} MB are free: make room; nothing was changed"
            )


def _feeds(
    stream: Readable,
    contents: Contents,
    chosen: Sequence[Place],
    target: Target,
    name: str,
    where: str,
) -> Iterator[tuple[int, Child]]:
    """Yield the program of each folder when it was given all that belongs there."""
    entries = (one for one in members(stream, where) if one[0].name.startswith(f"{DATA}/"))
    entry = next(entries, None)
    for number, place in enumerate(chosen):
        begin = f"{prefix(contents.header.volumes, number)}/"
        with target.hands.program("put", place, "stage", name) as child:
            with tarfile.open(fileobj=cast("IO[bytes]", child), mode="w|") as tar:
                _give_text(tar, json.dumps(contents.expected(number)).encode())
                while entry is not None and entry[0].name.startswith(begin):
                    info, content = entry
                    given = renamed(info, f"data/{info.name.removeprefix(begin)}")
                    tar.addfile(given, cast("IO[bytes]", content) if content else None)
                    entry = next(entries, None)
            yield number, child
    if entry is not None:
        raise BackupError(f"{where}: {entry[0].name} is out of its order")


def _give_text(tar: tarfile.TarFile, raw: bytes) -> None:
    info = tarfile.TarInfo("expect.json")
    info.size = len(raw)
    tar.addfile(info, io.BytesIO(raw))


def _exchange(
    contents: Contents,
    chosen: Sequence[Place],
    target: Target,
    name: str,
    before: Mapping[str, str],
    say: Say,
) -> None:
    """Exchange data and secrets while the services stand still; all back when they do not rise."""
    say("exchange the data")
    try:
        for place in reversed(chosen):
            target.stop(place)
        for place in chosen:
            target.hands.put(place, "switch", name)
        known = target.secrets()
        target.set_secrets(contents.secrets)
        # Other services have something to learn only where secrets change.
        same = all(known.get(key) == value for key, value in contents.secrets.items())
        target.converge(chosen if same else ())
    except Exception as error:
        say("put back what was there")
        undone = _undo(chosen, target, before)
        raise BackupError(f"the restored house did not become healthy: {error}\n{undone}") from None
    for place in chosen:
        target.hands.put(place, "finish")


def _undo(chosen: Sequence[Place], target: Target, before: Mapping[str, str]) -> str:
    try:
        for place in reversed(chosen):
            target.stop(place)
            target.hands.put(place, "back")
        target.set_secrets(before)
        target.converge(())
    except Exception as error:
        return f"and what was there did not come back, either ({error}): run `hearth up`"
    return "what was there before is back"


def as_json(contents: Contents) -> dict[str, Any]:
    """What a backup says of itself, without secrets."""
    entries = contents.manifest.entries.values()
    return {
        **contents.header.model_dump(),
        "entries": len(contents.manifest.entries),
        "bytes": sum(entry.size for entry in entries),
        "integrity": {
            name: entry.integrity
            for name, entry in contents.manifest.entries.items()
            if entry.integrity is not None
        },
        "damaged": contents.manifest.damaged,
        "left_out": contents.manifest.left_out,
    }
