"""Folders of this machine in the place of instances: the same programs, started as we are."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hearth.backup.agent import Child, DataFolder, started_here
from hearth.backup.create import Created, Subject, create_backup
from hearth.backup.restore import Journal, RestoreTarget, read_backup, restore_backup
from hearth.machine.secrets import Vault

# Made for these tests by age-keygen; it opens nothing else.
KEY = "AGE-SECRET-KEY-1EPLNQ4GZL5XY0AV3KQLQ2NLYMSRMZZN497TVXE9QSVL63HJMYPVQY73VLY"
RECIPIENT = "age1v07seqm28nj2xv8uer4e4mpuh3t8txnjqfqy88kw6h744ucjrypsrtjce4"


@contextlib.contextmanager
def run(instance: str, argv: Sequence[str]) -> Iterator[Child]:
    """Run a program here; its interpreter is the tests' own."""
    with started_here("local", [sys.executable, *argv[1:]]) as child:
        yield child


@dataclass(frozen=True)
class LocalFolder(DataFolder):
    """A data folder of this machine, and the house that records what is done to it."""

    runner: Callable[[str, Sequence[str]], contextlib.AbstractContextManager[Child]] = run
    house: House | None = None

    def is_built(self) -> bool:
        return self.house is None or self.house.built

    def stop(self) -> None:
        assert self.house is not None
        assert self.house.locked, "another run may start it again"
        self.house.did.append(f"stop {self.service}")

    @contextlib.contextmanager
    def run(self, argv: Sequence[str]) -> Iterator[Child]:
        with self.runner(self.instance, argv) as child:
            yield child


def place(folder: Path, copy_as: str = "sqlite", service: str = "open_webui") -> LocalFolder:
    """A data folder that a backup takes."""
    return LocalFolder(service, service, f"{service}.service", str(folder), copy_as, "volume", None)


def subject(*folders: DataFolder, secrets: Mapping[str, str] | None = None) -> Subject:
    """What is backed up."""
    own = {"some_key": "made at random"} if secrets is None else secrets
    return Subject("house", "lan", "1", RECIPIENT, own, folders)


def backup(folder: Path, *folders: DataFolder, secrets: Mapping[str, str] | None = None) -> Created:
    """Make a backup."""
    return create_backup(subject(*folders, secrets=secrets), folder, lambda text: None)


class PlainVault(Vault):
    """A vault without encryption."""

    def values(self) -> dict[str, str]:
        return dict(json.loads(self.path.read_text())) if self.path.exists() else {}

    def update(self, new: Mapping[str, str]) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.values() | dict(new)))


class House:
    """A house to restore into, which records what is done to it."""

    def __init__(
        self,
        state: Path,
        folders: Sequence[LocalFolder],
        values: Mapping[str, str] | None = None,
        built: bool = True,
    ) -> None:
        self.state, self.built = state, built
        self.folders = [replace(folder, house=self) for folder in folders]
        self.vault = PlainVault(state / "inventory" / "secrets.yml", Path("none"))
        self.journal = Journal(state, self.vault)
        self.did: list[str] = []
        self.healthy: Callable[[], None] = lambda: None
        self.locked = False
        if values:
            self.vault.update(values)

    @property
    def values(self) -> dict[str, str]:
        """Its secrets."""
        return self.vault.values()

    def target(self) -> RestoreTarget:
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

        return RestoreTarget(
            domain="lan",
            folders=self.folders,
            vault=self.vault,
            journal=self.journal,
            converge=converge,
            lock=lock,
        )


def put_back(file: Path, house: House, replace: bool = False) -> None:
    """Read and restore a backup."""
    restore_backup(file, KEY, read_backup(file, KEY), house.target(), replace, lambda text: None)
