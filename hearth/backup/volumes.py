"""The data folders of a house, each read and written inside its instance as its own owner."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.backup import BackupError
from hearth.backup.child import Child, Runner, in_instance
from hearth.backup.records import Volume
from hearth.catalogue.house import House
from hearth.machine import engine

_PYTHON = ("/usr/bin/python3", "-I", "-c")
_STAT_S = 20
_ANSWER_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Place:
    """One data folder that a backup takes; `from_folder` when it is a folder of the machine."""

    service: str
    instance: str
    unit: str
    path: str
    copy_as: str
    volume_name: str
    from_folder: str | None

    @property
    def volume(self) -> Volume:
        """How a backup names it."""
        return Volume.model_validate(
            {"service": self.service, "path": self.path, "copy_as": self.copy_as}
        )


def places(house: House) -> list[Place]:
    """Every data folder of services that are on and that is not `copy: none`."""
    return [
        Place(
            service=service.name,
            instance=service.instance,
            unit=service.unit,
            path=volume.path,
            copy_as=volume.copy,
            volume_name=volume.name,
            from_folder=volume.from_folder,
        )
        for service in house.services.values()
        if service.runtime == "incus"
        for volume in service.volumes
        if volume.copy != "none"
    ]


def owner(instance: str, path: str) -> tuple[int, int]:
    """Numbers of the user and the group that own a folder in an instance."""
    argv = ["/usr/bin/stat", "--format=%u %g", "--", path]
    done = engine.execute(instance, argv, timeout=_STAT_S)
    words = done.stdout.split()
    if done.returncode or len(words) != 2:
        raise BackupError(f"{instance}: {path} is not there: run `hearth up` first")
    return int(words[0]), int(words[1])


def kept(place: Place) -> bool:
    """Whether data lie where an instance that is not there would find them."""
    if place.from_folder is not None:
        folder = Path(place.from_folder)
        return folder.is_dir() and any(folder.iterdir())
    return engine.has_volume(place.volume_name)


@dataclass(frozen=True, slots=True)
class Hands:
    """How folders are reached: in tests they lie on this machine."""

    run: Runner = in_instance
    owner: Callable[[str, str], tuple[int, int]] = owner

    @contextlib.contextmanager
    def program(self, name: str, place: Place, *words: str) -> Iterator[Child]:
        """Run `inside/NAME.py` in the place's instance, as the owner of the folder."""
        text = (Path(__file__).parent / "inside" / f"{name}.py").read_text(encoding="utf-8")
        user, group = self.owner(place.instance, place.path)
        verb, *more = words
        arguments = [place.path, verb] if name == "take" else [verb, place.path, *more]
        with self.run(place.instance, [*_PYTHON, text, *arguments], user, group) as child:
            yield child

    def put(self, place: Place, *words: str) -> None:
        """Let `put.py` do one thing that needs no input."""
        with self.program("put", place, *words) as child:
            child.close()
            child.wait()

    def look(self, place: Place) -> dict[str, Any]:
        """Return what `put.py look` says of a folder."""
        with self.program("put", place, "look") as child:
            child.close()
            text = b""
            while (piece := child.read(_ANSWER_BYTES)) and len(text) < _ANSWER_BYTES:
                text += piece
            child.wait()
        said: dict[str, Any] = json.loads(text)
        return said


def below(name: str, base: str) -> str:
    """Return a member's name below `base`, which an instance said; BackupError for any other."""
    first, *rest = name.split("/")
    if first != base or not rest or {"", ".", ".."} & {*rest} or "\0" in name:
        raise BackupError(f"an instance names {name!r}, which is no place in its folder")
    return "/".join(rest)
