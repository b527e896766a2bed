"""Restore a backup: all of it is read and validated first, and only then is the house changed."""

import hashlib
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from hearth.backup import BackupError
from hearth.backup.age import decrypting
from hearth.backup.agent import DataFolder
from hearth.backup.archive import DATA, Contents, check, members, renamed, small_file
from hearth.backup.inside import COMPLETE
from hearth.files import write_atomic
from hearth.machine import pki
from hearth.machine.secrets import Vault

# Names, folders and the like on top of the content.
_SPARE_BYTES = 32 * 2**20

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Journal:
    """The record of a restore that is under way: which backup, and the vault from before.

    The vault is kept, encrypted as it was, before the first change and then left alone, however
    often a restore is cut and run again: an earlier try's secrets are never mistaken for the old.
    """

    folder: Path
    house: Vault

    @property
    def marker(self) -> Path:
        """The file that names the backup."""
        return self.folder / "restoring"

    @property
    def vault(self) -> Path:
        """The vault as it was; the house's own password file opens it."""
        return self.folder / "secrets-before-restore.yml"

    def names(self, backup: str) -> bool:
        """Whether the restore of this very backup was started here and has not ended."""
        return self.marker.exists() and self.marker.read_text() == backup

    def start(self, backup: str) -> bool:
        """Record a restore; return whether one was cut short here before."""
        repeated, present = self.marker.exists(), self.house.path
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not repeated or not self.vault.exists():
            write_atomic(self.vault, present.read_bytes() if present.exists() else b"", 0o600)
        write_atomic(self.marker, backup.encode(), 0o600)
        return repeated

    def old_secrets(self) -> dict[str, str]:
        """Return the secrets that the house had before."""
        if not self.vault.stat().st_size:
            return {}
        return type(self.house)(self.vault, self.house.password_file).values()

    def drop_vault(self) -> None:
        """Remove the old vault: the house is healthy with the new one."""
        self.vault.unlink(missing_ok=True)

    def needs_only_cleanup(self) -> bool:
        """Whether a restore succeeded and only the old data was left to remove."""
        return self.marker.exists() and not self.vault.exists()

    def end(self) -> None:
        """Remove both files; the marker last, for it shows that the vault is still of use."""
        self.drop_vault()
        self.marker.unlink(missing_ok=True)

    def refuse_unfinished(self) -> None:
        """Raise while a restore is unfinished: a backup of half a house is worthless."""
        if self.marker.exists():
            raise BackupError(
                "a restore was cut short here, so half of this house is missing: run `hearth "
                "restore FILE` again first; no backup was made"
            )


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The house that a backup is restored into, and what can be done to it."""

    domain: str
    folders: Sequence[DataFolder]
    vault: Vault
    journal: Journal
    converge: Callable[[Sequence[DataFolder]], None]  # without folders: the whole house
    # Keeps other runs out meanwhile; a converge takes this lock itself.
    lock: Callable[[], AbstractContextManager[object]]

    def matching(self, contents: Contents, where: str) -> list[DataFolder]:
        """Find the folder of this house for each volume in the backup."""
        known = {(folder.service, folder.path): folder for folder in self.folders}
        for volume in contents.header.volumes:
            if (volume.service, volume.path) not in known:
                raise BackupError(
                    f"{where}: holds {volume.path} of {volume.service}, which this house does not "
                    "have or has turned off: write `enabled: true` for it into "
                    "inventory/local/services.yml"
                )
        root = contents.secrets.get("house_root_cert")
        if root is not None and (domain := pki.domain_of(root)) != self.domain:
            raise BackupError(
                f"{where}: from a house under {domain}, and this one is under {self.domain}: write "
                f"`domain: {domain}` into inventory/local/machines.yml"
            )
        return [known[volume.service, volume.path] for volume in contents.header.volumes]

    def refuse_occupied(self, contents: Contents, folders: Sequence[DataFolder]) -> None:
        """Raise when the house has something to lose."""
        full = [
            f"{folder.path} of {folder.service}"
            for folder in folders
            if (not folder.status()["empty"] if folder.is_built() else folder.has_data())
        ]
        own = self.vault.values()
        if any(own.get(name, value) != value for name, value in contents.secrets.items()):
            full.append("its secrets")
        if full:
            raise BackupError(
                f"this house is not empty ({', '.join(full)}): add --replace to overwrite it "
                "with the backup; its present data are lost"
            )


def read_backup(path: Path, identity: str) -> Contents:
    """Decrypt a whole backup, compare it with its manifest, and return its records.

    Raises:
        BackupError: another key, a newer format or damage, in one line; nothing was changed.
    """
    with decrypting(path, identity) as stream:
        try:
            return check(stream)
        except BackupError as error:
            raise BackupError(f"{path}: {error}") from None


def restore_backup(
    path: Path, identity: str, contents: Contents, target: RestoreTarget, replace: bool, log: Log
) -> list[DataFolder]:
    """Restore a backup that `read_backup` has found whole; return the folders it filled.

    It can be run again after a kill at any moment. Whatever fails, the house gets back its data
    and secrets from before.

    Raises:
        BackupError: the house is not empty, does not fit, has no room, or did not become healthy.
    """
    folders = target.matching(contents, str(path))
    name = _digest(contents)
    if not replace and not target.journal.names(name):
        target.refuse_occupied(contents, folders)
    # A vault that cannot be opened could not be put back, either.
    target.vault.values()
    if target.journal.needs_only_cleanup():
        for folder in [one for one in folders if one.is_built()]:
            folder.change("finish")
    restore = _Restore(contents, folders, target, name, log, changed=target.journal.start(name))
    try:
        restore.build()
        restore.fill(path, identity)
    except _RetryError:
        raise
    except Exception as error:
        raise BackupError(f"{error}\n{restore.undo()}") from None
    target.journal.drop_vault()
    for folder in folders:
        folder.change("finish")
    target.journal.end()
    return folders


class _RetryError(BackupError):
    """There is nothing to go back to; the same command may be run again."""


@dataclass(slots=True)
class _Restore:
    """A restore under way; `changed` once the house is no longer what it was."""

    contents: Contents
    folders: Sequence[DataFolder]
    target: RestoreTarget
    name: str
    log: Log
    changed: bool

    def build(self) -> None:
        """Make an instance for each folder, with the backup's secrets."""
        if all(folder.is_built() for folder in self.folders):
            return
        self.log("build the house")
        self.changed = True
        self._set_secrets(self.contents.secrets)
        try:
            self.target.converge(())
        except Exception as error:
            if self.target.journal.old_secrets():
                raise
            raise _RetryError(f"{error}\nfix that, then run the same command again") from None

    def fill(self, path: Path, identity: str) -> None:
        """Exchange data and secrets while the services are stopped, and wait for health."""
        contents, folders, target = self.contents, self.folders, self.target
        with target.lock():
            for folder in folders:
                if folder.status()["unfinished"]:
                    self.changed = True
                    self._put_back(folder)
            _refuse_too_small(contents, folders)
            # Services stop before any file is written that they could change.
            self.changed = True
            for folder in reversed(folders):
                folder.stop()
            with decrypting(path, identity) as stream:
                self._stage(stream)
            self.log("exchange the data")
            for folder in folders:
                folder.change("switch")
            known = target.vault.values()
            self._set_secrets(contents.secrets)
        # Other services depend on this restore only where secrets change.
        same = all(known.get(key) == value for key, value in contents.secrets.items())
        try:
            target.converge(folders if same else ())
        except Exception as error:
            raise BackupError(f"the restored house did not become healthy: {error}") from None

    def undo(self) -> str:
        """Put data and secrets back as they were, and return a line about it."""
        target = self.target
        if not self.changed:
            target.journal.end()
            return "nothing was changed"
        self.log("put the old data back")
        try:
            with target.lock():
                for folder in [one for one in reversed(self.folders) if one.is_built()]:
                    self._put_back(folder)
                self._set_secrets(target.journal.old_secrets())
            target.converge(())
        except Exception as error:
            return (
                f"and the old data could not be put back, either ({error}): run `hearth up`; the "
                f"previous secrets are in {target.journal.vault}"
            )
        target.journal.end()
        return "the house is as it was before"

    def _put_back(self, folder: DataFolder) -> None:
        folder.stop()
        folder.change("back")

    def _set_secrets(self, values: Mapping[str, str]) -> None:
        if values:
            self.target.vault.update(values)

    def _stage(self, stream: IO[bytes]) -> None:
        """Write each folder's entries beside its data; they are those that were read before."""
        missing = dict(self.contents.manifest.entries)
        entries = (one for one in members(stream) if one[0].name.startswith(f"{DATA}/"))
        entry = next(entries, None)
        for folder, prefix in zip(self.folders, self.contents.header.prefixes, strict=True):
            self.log(f"{folder.service}: {folder.path}")
            with folder.program("stage") as child:
                with tarfile.open(fileobj=cast("IO[bytes]", child), mode="w|") as tar:
                    while entry is not None and entry[0].name.startswith(prefix):
                        info, content = entry
                        given = renamed(info, f"new/{info.name.removeprefix(prefix)}")
                        tar.addfile(given, cast("IO[bytes]", content))
                        if missing.pop(info.name, None) != content.entry():
                            raise BackupError(f"{info.name} has changed since it was checked")
                        entry = next(entries, None)
                    tar.addfile(*small_file(COMPLETE, ""))
                child.close()
                child.wait()
        if entry or any(name.startswith(f"{DATA}/") for name in missing):
            raise BackupError("the backup has changed since it was checked")


def _refuse_too_small(contents: Contents, folders: Sequence[DataFolder]) -> None:
    """Raise when old and new data do not fit beside each other; nothing is written yet."""
    sizes = contents.sizes()
    for folder, size in zip(folders, sizes, strict=True):
        # Volumes share one disk; a folder of the machine may lie on another.
        needed = (size if folder.from_folder else sum(sizes)) + _SPARE_BYTES
        free = folder.status()["free_bytes"]
        if needed > free:
            raise BackupError(
                f"{folder.instance}: {folder.path} needs {needed >> 20} MB beside its present "
                f"data, and {free >> 20} MB are free: make room"
            )


def _digest(contents: Contents) -> str:
    """Distinguish one backup from all others."""
    text = json.dumps(contents.manifest.model_dump(), sort_keys=True)
    return hashlib.sha256(f"{contents.header.made_at}{text}".encode()).hexdigest()


def as_json(contents: Contents) -> dict[str, Any]:
    """Return the records of a backup without its secrets."""
    certificate = contents.secrets.get("house_root_cert")
    try:
        # A person compares it: nothing signs a backup.
        root = pki.fingerprint(certificate) if certificate else None
    except (ValueError, pki.PkiError):
        root = "not a certificate"
    return {**contents.header.model_dump(), "root": root, **contents.manifest.summary()}
