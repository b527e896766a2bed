"""The record of a patch: the originals, and the digests of all patched versions.

It is in `.hearth-patch` at the root of the patched folder and moves with the folder.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from hearth_kokoro_patch import files
from hearth_kokoro_patch.source import PatchError

FOLDER = ".hearth-patch"
VERSION = 1
_DOCUMENT = "record.json"


def digest(content: bytes) -> str:
    """Return the digest that identifies a content."""
    return sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One file by digests: its original, its intended content, and all contents we ever wrote."""

    original: str
    now: str
    made: frozenset[str]


@dataclass(frozen=True, slots=True)
class Record:
    """The originals of a folder, which are read only when needed."""

    folder: Path
    entries: dict[str, Entry] = field(default_factory=dict)

    def original(self, name: str) -> bytes:
        """Return a file as it was before the first patch.

        Raises:
            PatchError: the copy is gone or not the one that was kept.
        """
        entry = self.entries[name]
        kept = self.folder / FOLDER / entry.original
        try:
            content = kept.read_bytes()
        except OSError:
            content = b""
        if digest(content) != entry.original:
            raise PatchError(f"{kept}: the original of {name} is lost: get {name} from its release")
        return content

    def write(self, contents: dict[str, bytes]) -> None:
        """Store these entries and the contents of their originals; the document comes last.

        Raises:
            PatchError: something there is a link.
        """
        home = _home(self.folder)
        home.mkdir(exist_ok=True)
        # The folder is not for commits.
        files.write_beside(home / ".gitignore", b"*\n")
        for name, entry in self.entries.items():
            kept = home / entry.original
            # A killed run may have left a partial copy.
            if not kept.is_file() or digest(kept.read_bytes()) != entry.original:
                files.write_beside(kept, contents[name])
        document = {
            "version": VERSION,
            "files": {
                name: {"original": entry.original, "now": entry.now, "made": sorted(entry.made)}
                for name, entry in sorted(self.entries.items())
            },
        }
        files.write_beside(home / _DOCUMENT, json.dumps(document, indent=2).encode() + b"\n")

    def remove(self) -> None:
        """Remove the record; the document goes first, so that a partial record has no effect."""
        home = _home(self.folder)
        (home / _DOCUMENT).unlink(missing_ok=True)
        shutil.rmtree(home, ignore_errors=True)


def read(folder: Path) -> Record:
    """Return the record of a folder, empty if it was never patched.

    Raises:
        PatchError: the record cannot be read, or is a link.
    """
    path = folder / FOLDER / _DOCUMENT
    try:
        _home(folder)
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            raise PatchError(f"{path}: was written by a newer Hearth: use that one")
        entries = {
            name: Entry(entry["original"], entry["now"], frozenset(entry["made"]))
            for name, entry in document["files"].items()
        }
    except FileNotFoundError:
        return Record(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PatchError(
            f"{path}: cannot be read ({type(error).__name__}): get the folder of its release again"
        ) from None
    return Record(folder, entries)


def _home(folder: Path) -> Path:
    """Return the record's folder, after a check that nothing in it is a link.

    Another user may own a checkout or a container, and the patch often runs as root.
    """
    home = folder / FOLDER
    if home.is_symlink() or (home.exists() and not home.is_dir()):
        raise PatchError(f"{home}: is not a regular folder, so not Hearth's: remove it")
    for path in home.iterdir() if home.is_dir() else ():
        if path.is_symlink() or not path.is_file():
            raise PatchError(f"{path}: is not a regular file, so not Hearth's: remove it")
    return home
