"""What a machine remembers of a restore until it has ended: which one, and the vault before it."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hearth.backup import BackupError
from hearth.files import write_atomic


@dataclass(frozen=True, slots=True)
class Begun:
    """A folder with two files: the backup's name, and the old vault, encrypted as it was.

    The vault is kept before the first change and then left alone, however often a restore is cut
    and said again: so what is put back is never what an earlier try wrote.
    """

    folder: Path
    sealed: Callable[[], bytes]  # the vault as it lies on the disk; nothing when there is none
    opened: Callable[[Path], dict[str, str]]  # the secrets in such a file

    @property
    def marker(self) -> Path:
        """The file that names the backup."""
        return self.folder / "restoring"

    @property
    def vault(self) -> Path:
        """The vault as it was; the house's own password file opens it."""
        return self.folder / "secrets-before-restore.yml"

    def is_of(self, name: str) -> bool:
        """Whether the restore of this very backup was begun here and has not ended."""
        with contextlib.suppress(OSError):
            return self.marker.read_text() == name
        return False

    def begin(self, name: str) -> bool:
        """Remember a restore; return whether one was cut short here before."""
        again = self.marker.exists()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not again or not self.vault.exists():
            write_atomic(self.vault, self.sealed(), 0o600)
        write_atomic(self.marker, name.encode(), 0o600)
        return again

    def before(self) -> dict[str, str]:
        """Return the secrets that the house had before."""
        return self.opened(self.vault) if self.vault.stat().st_size else {}

    def settle(self) -> None:
        """Forget the old vault: the house is healthy with the new one."""
        self.vault.unlink(missing_ok=True)

    def settled(self) -> bool:
        """Whether only what lies beside the data was left to forget."""
        return self.marker.exists() and not self.vault.exists()

    def end(self) -> None:
        """Forget it all; the marker last, for it says that the vault is still of use."""
        self.settle()
        self.marker.unlink(missing_ok=True)

    def refuse(self) -> None:
        """Raise while a restore is unfinished: half of a house is no house."""
        if self.marker.exists():
            raise BackupError(
                "a restore was cut short here, so this is half a house: say `hearth restore FILE` "
                "again first; nothing was made"
            )
