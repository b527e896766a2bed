"""Folders of this machine in the place of instances: the same programs, started as we are."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hearth.backup import BackupError
from hearth.backup.agent import Agent, Child, DataFolder
from hearth.backup.create import Created, Subject, create_backup
from hearth.backup.journal import Journal
from hearth.backup.restore import Target, read_backup, restore_backup

# Made for these tests by age-keygen; it opens nothing else.
KEY = "AGE-SECRET-KEY-1EPLNQ4GZL5XY0AV3KQLQ2NLYMSRMZZN497TVXE9QSVL63HJMYPVQY73VLY"
RECIPIENT = "age1v07seqm28nj2xv8uer4e4mpuh3t8txnjqfqy88kw6h744ucjrypsrtjce4"


class LocalChild:
    """A program on this machine, with the manners of one in an instance."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    def read(self, size: int = -1) -> bytes:
        return self._out.read1(size)  # type: ignore[attr-defined, no-any-return]

    def write(self, data: bytes) -> int:
        with contextlib.suppress(BrokenPipeError):
            self._in.write(data)
        return len(data)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._in.close()

    def wait(self) -> None:
        assert self._process.stderr is not None
        words = self._process.stderr.read().decode().strip().splitlines()
        if code := self._process.wait(60):
            raise BackupError(f"local: {words[-1] if words else f'exit code {code}'}")


@contextlib.contextmanager
def run(instance: str, argv: Sequence[str], user: int, group: int) -> Iterator[Child]:
    """Run a program here; its interpreter is the tests' own."""
    process = subprocess.Popen(
        [sys.executable, *argv[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield LocalChild(process)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]


AGENT = Agent(run=run, owner=lambda instance, path: (os.getuid(), os.getgid()))


def place(folder: Path, copy_as: str = "sqlite", service: str = "open_webui") -> DataFolder:
    """A data folder that a backup takes."""
    return DataFolder(service, service, f"{service}.service", str(folder), copy_as, "volume", None)


def subject(*folders: DataFolder, secrets: Mapping[str, str] | None = None) -> Subject:
    """What is backed up."""
    own = {"some_key": "made at random"} if secrets is None else secrets
    return Subject("house", "lan", "1", RECIPIENT, own, folders)


def backup(folder: Path, *folders: DataFolder, secrets: Mapping[str, str] | None = None) -> Created:
    """Make a backup."""
    return create_backup(subject(*folders, secrets=secrets), folder, AGENT, lambda text: None)


@dataclass
class House:
    """A house to restore into, which notes what is done to it."""

    state: Path
    folders: Sequence[DataFolder]
    values: dict[str, str] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    healthy: Callable[[], None] = lambda: None
    built: bool = True
    locked: bool = False

    @property
    def journal(self) -> Journal:
        """What it remembers of a restore; its vault is plain."""
        return Journal(
            self.state,
            read_vault=lambda: json.dumps(self.values).encode() if self.values else b"",
            decrypt=lambda path: dict(json.loads(path.read_text())),
        )

    def target(self) -> Target:
        """What `restore` is given."""

        def converge(only: Sequence[DataFolder]) -> None:
            assert not self.locked, "a converge takes the lock itself"
            self.did.append(" ".join(["converge", *(folder.service for folder in only)]))
            self.built = True
            self.healthy()

        @contextlib.contextmanager
        def lock() -> Iterator[None]:
            assert not self.locked
            self.locked = True
            try:
                yield
            finally:
                self.locked = False

        def stop(one: DataFolder) -> None:
            assert self.locked, "somebody may start it again"
            self.did.append(f"stop {one.service}")

        return Target(
            domain="lan",
            folders=self.folders,
            agent=AGENT,
            secrets=lambda: dict(self.values),
            set_secrets=self.values.update,
            is_built=lambda folder: self.built,
            has_data=lambda folder: False,
            stop=stop,
            converge=converge,
            lock=lock,
            journal=self.journal,
        )


def put_back(file: Path, house: House, replace: bool = False) -> None:
    """Read and restore a backup."""
    restore_backup(file, KEY, read_backup(file, KEY), house.target(), replace, lambda text: None)
