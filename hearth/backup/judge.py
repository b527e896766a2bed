"""What an entry of a backup may be; its writer and its reader ask the same."""

import tarfile

from hearth.backup.inside.put import Names, Trouble
from hearth.backup.records import DATA, HEADER, MANIFEST, VAULT

# A time in the year 2242.
_LATEST = 2**33


def renamed(info: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """Return what stays of a member under another name: nothing of owners, links or devices."""
    # A fresh one: the old one's extended headers would bring its old name along.
    clean = tarfile.TarInfo(name)
    clean.type = tarfile.DIRTYPE if info.isdir() else tarfile.REGTYPE
    clean.size, clean.mode = 0 if info.isdir() else info.size, info.mode & 0o777
    # Not every number is a time that a disk can keep.
    clean.mtime = int(info.mtime) if 0 <= info.mtime < _LATEST else 0
    return clean


class Judge:
    """Says of each entry whether it may be in a backup, to its writer as to its reader."""

    def __init__(self) -> None:
        """Begin with an empty backup."""
        self._seen: set[str] = set()
        self._folders: dict[str, Names] = {}

    def take(self, info: tarfile.TarInfo) -> None:
        """Take one more entry; Trouble when it has no place in a backup."""
        parts = info.name.split("/")
        proper = (parts[0] == DATA and len(parts) > 3) or info.name in (HEADER, VAULT, MANIFEST)
        if not proper or {"", ".", ".."} & {*parts} or "\0" in info.name:
            raise Trouble(f"it names {info.name!r}, which is no place in a house")
        if not (info.isdir() or info.isreg()) or info.issparse():
            raise Trouble(f"{info.name} is a link or a device")
        if info.name in self._seen:
            raise Trouble(f"{info.name} is in it twice")
        self._seen.add(info.name)
        if parts[0] == DATA:
            names = self._folders.setdefault("/".join(parts[:3]), Names())
            names.take("/".join(parts[3:]), info.isdir())
