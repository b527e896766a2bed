"""Move a service from Incus to Podman or back, with its data, when the word in its record changes.

The old one is stopped, its data are copied, and the new one is started; once that is healthy the
old one is removed. Until then it stays, and comes back if the new one does not become healthy. A
file notes how far a move is, so that the next run of a killed one continues: what was copied
completely is never copied again, because the new one may have written since.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Service, Volume
from hearth.files import write_atomic
from hearth.machine import engine, podman
from hearth.machine.engine import POOL
from hearth.render import quadlets
from hearth.render.quadlets import IDS, QUADLETS, first_id, unit_name

NOTES = Path("/var/lib/hearth/moves")
# The storage pool is a folder (instances.ensure_pool), and this is how Incus names volumes in it.
_INCUS_VOLUMES = Path("/var/lib/incus/storage-pools") / POOL / "custom"
_OF_PROJECT = "default_"
_STOP_S, _COPY_S = 120, 6 * 3600
# systemctl's exit code for a unit that it does not know.
_NOT_LOADED = 5


class MoveError(RuntimeError):
    """One line for a person: which service, what failed, and what to do."""


@dataclass(frozen=True, slots=True)
class Move:
    """One service on its way: `old` is where it was, and `copied` whether its data are here."""

    service: str
    old: str
    copied: bool


def noted() -> dict[str, Move]:
    """Return the moves that are not finished, by their services."""
    found = {}
    for path in sorted(NOTES.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            move = Move(**json.loads(path.read_text(encoding="utf-8")))
            found[move.service] = move
    return found


def note(move: Move) -> None:
    """Write how far a move is."""
    NOTES.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"service": move.service, "old": move.old, "copied": move.copied})
    write_atomic(NOTES / f"{move.service}.json", text.encode() + b"\n")


def forget(service: str) -> None:
    """Note that a service is where its record says."""
    shutil.rmtree(NOTES / f"{service}.quadlets", ignore_errors=True)
    (NOTES / f"{service}.json").unlink(missing_ok=True)


def needed(services: Iterable[Service], instances: Iterable[str]) -> list[Move]:
    """Return the unfinished moves, and those of services that another engine still has.

    `instances` are those of Incus that Hearth made. A new move is not noted yet.
    """
    known, there = noted(), {*instances}
    moves = []
    for service in services:
        if move := known.get(service.name):
            moves.append(_reversed(move, service, there))
        elif service.runtime == "podman" and service.instance in there:
            moves.append(Move(service.name, "incus", copied=False))
        elif service.runtime == "incus" and engine.contained(service.instance):
            moves.append(Move(service.name, "podman", copied=False))
    return moves


def _reversed(move: Move, service: Service, instances: Collection[str]) -> Move:
    """Return the move as it goes on; if its record has the old word again, it goes back.

    What the new one may have written since it got the data goes back with it.
    """
    if move.old != service.runtime or not move.copied:
        return move
    new = "podman" if move.old == "incus" else "incus"
    there = engine.contained(service.instance) if new == "podman" else service.instance in instances
    return Move(service.name, new, copied=False) if there else move


def refuse_occupied(client: Any, service: Service, move: Move) -> None:
    """Raise if the place that the data are moved to holds data already.

    Raises:
        MoveError: which, and what to do; nothing was changed.
    """
    for volume in service.volumes:
        if volume.from_folder:
            continue
        place = _incus_volume(volume) if move.old == "podman" else _podman_volume(service, volume)
        if place.is_dir() and any(place.iterdir()):
            how = (
                f"incus storage volume delete {POOL} {volume.name}"
                if move.old == "podman"
                else f"podman volume rm {quadlets.volume_name(service, volume.path)}"
            )
            raise MoveError(
                f"{place} already holds data of {service.name}, which a move would replace: keep "
                f"them elsewhere and remove the volume (`{how}`), then run this again"
            )


def stop_old(client: Any, service: Service, move: Move) -> None:
    """Stop the old one, so that nothing is written any more, and keep it from starting at boot."""
    if move.old == "podman":
        _stop_container(service)
        folder = _kept(service)
        folder.mkdir(parents=True, exist_ok=True)
        # Without them the machine has no such units.
        for path in _quadlets_of(service):
            shutil.move(path, folder / path.name)
        _systemctl("daemon-reload")
        return
    found = client.instances.get(service.instance)
    found.config["boot.autostart"] = "false"
    found.save(wait=True)
    if found.status != "Stopped":
        found.stop(timeout=_STOP_S, wait=True)


def start_old(client: Any, service: Service, move: Move) -> None:
    """Bring the old one back; of the new one nothing is left, which would be older by then."""
    if move.old == "podman":
        if client.instances.exists(service.instance):
            found = client.instances.get(service.instance)
            if found.status != "Stopped":
                found.stop(force=True, wait=True)
            found.delete(wait=True)
        volumes = engine.data_volumes(client)
        for volume in service.volumes:
            if not volume.from_folder and volume.name in volumes:
                volumes[volume.name].delete()
        put_back(service)
        # Its health may take longer than a caller waits.
        _systemctl("start", "--no-block", f"{unit_name(service.instance)}.service")
        return
    _stop_container(service)
    for path in _quadlets_of(service):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    _systemctl("daemon-reload")
    for name in quadlets.own_volumes(service):
        if podman.has_volume(name):
            podman.call("volume", "rm", "--force", name)
    found = client.instances.get(service.instance)
    found.config["boot.autostart"] = "true"
    found.save(wait=True)
    if found.status != "Running":
        found.start(wait=True)


def put_back(service: Service) -> None:
    """Put the quadlets of an old container back where they make units."""
    for path in sorted(_kept(service).glob("*")):
        shutil.move(path, Path(QUADLETS) / path.name)
    shutil.rmtree(_kept(service), ignore_errors=True)
    _systemctl("daemon-reload")


def _kept(service: Service) -> Path:
    return NOTES / f"{service.name}.quadlets"


def _stop_container(service: Service) -> None:
    """Stop a container and its network, whose name and address its successor gets."""
    for unit in (unit_name(service.instance), f"{unit_name(service.instance)}-network"):
        argv = ["/usr/bin/systemctl", "stop", f"{unit}.service"]
        done = engine.execute(None, argv, timeout=_STOP_S)
        # One that was never started is not known.
        if done.returncode not in (0, _NOT_LOADED):
            raise MoveError(str(engine.failure(None, f"{unit} does not stop", done)))


def copy_data(client: Any, service: Service, move: Move) -> None:
    """Copy every volume of the service; each copy starts from nothing.

    Raises:
        MoveError: a copy failed, such as on a full disk; the old one is untouched.
    """
    for volume in service.volumes:
        # A folder of the machine is the same one for both.
        if volume.from_folder:
            continue
        in_incus = _incus_volume(volume)
        in_podman = _podman_volume(service, volume)
        if move.old == "incus":
            _copy(in_incus, in_podman, _shift(client, volume), first_id(service))
        else:
            _copy(in_podman, in_incus, _first_id_before(service), _shift(client, volume))


def _incus_volume(volume: Volume) -> Path:
    return _INCUS_VOLUMES / f"{_OF_PROJECT}{volume.name}"


def _podman_volume(service: Service, volume: Volume) -> Path:
    name = quadlets.volume_name(service, volume.path)
    return Path(podman.call("volume", "inspect", "--format={{.Mountpoint}}", name).strip())


def _first_id_before(service: Service) -> int:
    """Return the first id of the container that was stopped: its address may have been another."""
    for path in _kept(service).glob("*.container"):
        if found := re.search(r"^UIDMap=0:(\d+):", path.read_text(encoding="utf-8"), re.MULTILINE):
            return int(found[1])
    return first_id(service)


def _shift(client: Any, volume: Volume) -> int:
    """Return the id on the disk of a volume's root: Incus shifts some volumes, and maps others."""
    config = client.storage_pools.get(POOL).volumes.get("custom", volume.name).config
    maps = json.loads(config.get("volatile.idmap.last") or "[]")
    return int(next((one["Hostid"] for one in maps if one["Isuid"]), 0))


def _copy(source: Path, target: Path, first: int, new_first: int) -> None:
    """Copy a folder's content with its owners, whose ids start at another number there."""
    if not source.is_dir():
        raise MoveError(
            f"{source} is not there, so its data cannot be moved: run `hearth up` with "
            "the runtime from before"
        )
    for left in target.iterdir() if target.is_dir() else ():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    argv = ["/usr/bin/cp", "--archive", "--reflink=auto", f"{source}/.", f"{target}/"]
    try:
        subprocess.run(  # noqa: S603 - our own words and paths, no shell
            argv, check=True, capture_output=True, text=True, timeout=_COPY_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise MoveError(f"{source} was not copied to {target}: {lines[-1]}") from None
    for path in _tree(target):
        stat = path.lstat()
        ids = [
            one - first + new_first if first <= one < first + IDS else one
            for one in (stat.st_uid, stat.st_gid)
        ]
        os.lchown(path, *ids)


def _tree(folder: Path) -> Iterator[Path]:
    yield folder
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *names))


def _quadlets_of(service: Service) -> list[Path]:
    """Return the quadlets of a service, which make its units, with their drop-ins."""
    mark = f"Label={quadlets.LABEL}={service.name}"
    found = [
        path
        for path in sorted(Path(QUADLETS).glob("hearth-*"))
        if path.is_file() and mark in path.read_text(encoding="utf-8").splitlines()
    ]
    beside = (path.with_name(f"{path.name}.d") for path in found)
    return [*found, *(path for path in beside if path.is_dir())]


def _systemctl(*words: str) -> None:
    done = engine.execute(None, ["/usr/bin/systemctl", *words], timeout=_STOP_S)
    if done.returncode:
        raise MoveError(str(engine.failure(None, f"systemctl {' '.join(words)}", done)))
