"""The record of a restore that is under way: which backup, and the vault from before."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hearth.backup import BackupError
from hearth.files import write_atomic


@dataclass(frozen=True, slots=True)
class Journal:
    """A folder with two files: the backup's name, and the old vault, encrypted as it was.

    The vault is kept before the first change and then left alone, however often a restore is cut
    and run again: so an earlier try's secrets are never mistaken for the old ones.
    """

    folder: Path
    read_vault: Callable[[], bytes]  # the vault as it lies on the disk; nothing when there is none
    decrypt: Callable[[Path], dict[str, str]]  # the secrets in such a file

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
        with contextlib.suppress(OSError):
            return self.marker.read_text() == backup
        return False

    def start(self, backup: str) -> bool:
        """Record a restore; return whether one was cut short here before."""
        repeated = self.marker.exists()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not repeated or not self.vault.exists():
            write_atomic(self.vault, self.read_vault(), 0o600)
        write_atomic(self.marker, backup.encode(), 0o600)
        return repeated

    def old_secrets(self) -> dict[str, str]:
        """Return the secrets that the house had before."""
        return self.decrypt(self.vault) if self.vault.stat().st_size else {}

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
