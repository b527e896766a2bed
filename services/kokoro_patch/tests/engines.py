"""Engines whose containers are folders, and a release inside one."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hearth_kokoro_patch import Plan, plan
from hearth_kokoro_patch.containers import Container


class EngineError(Exception):
    """What an engine reports, in its own words."""


class Missing(EngineError):
    """There is no such path."""


@dataclass
class FolderEngine:
    """An engine whose containers are folders of `home`.

    `refuses` is a call that fails, and `loses` a pattern of files whose copy does nothing; real
    engines run the same calls in tests/engines.
    """

    name: str
    home: Path
    refuses: str = ""
    loses: str = ""
    bound: dict[str, str] = field(default_factory=dict)
    errors: type[Exception] = EngineError
    missing: type[Exception] = Missing

    def _inside(self, name: str, path: str) -> Path:
        root = self.home / name
        if not root.is_dir():
            raise EngineError(f"no such container {name}")
        return root / path.lstrip("/")

    def mounts(self, name: str) -> Mapping[str, str]:
        self._inside(name, "/")
        return self.bound

    def pull(self, name: str, path: str) -> bytes:
        if self.refuses == "pull":
            raise EngineError("read-only file system")
        there = self._inside(name, path)
        if not os.path.lexists(there):
            raise Missing(f"{path}: no such file or directory")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(there, there.name)
        return packed.getvalue()

    def push(self, name: str, folder: str, archive: bytes) -> None:
        target = self._inside(name, folder)
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            for entry in packed:
                if self.loses and re.search(self.loses, entry.name):
                    continue
                place = target / entry.name
                if entry.isdir():
                    place.mkdir(exist_ok=True)
                elif content := packed.extractfile(entry):
                    # As the real ones: a link is replaced, not followed.
                    place.unlink(missing_ok=True)
                    place.write_bytes(content.read())
                    place.chmod(entry.mode)

    def execute(self, name: str, argv: Sequence[str], *, timeout: float) -> object:
        inside = self._inside(name, argv[-1])
        words = [*argv[:-1], str(inside)]
        if self.loses and re.search(self.loses, " ".join(argv)):
            return None
        return subprocess.run(words, check=False, timeout=timeout)


@dataclass
class Engines:
    """The engines of one machine."""

    place: Path
    made: dict[str, FolderEngine] = field(default_factory=dict)

    def add(self, engine: str) -> FolderEngine:
        home = self.place / engine
        home.mkdir()
        self.made[engine] = FolderEngine(engine, home)
        return self.made[engine]

    def __iter__(self) -> Iterator[FolderEngine]:
        return iter(self.made.values())


def fill(engine: FolderEngine, release: Path, name: str = "speech", root: str = "app") -> Path:
    """Put a release into a container, and return its folder there."""
    inside = engine.home / name / root
    inside.parent.mkdir(parents=True)
    shutil.copytree(release, inside)
    return inside


def wanted(there: Container, copy: Path, *steps: str) -> Plan:
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    there.copy_out(copy)
    found = plan(copy, frozenset(steps))
    found.apply()
    return found
