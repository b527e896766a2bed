"""Runs inside an instance, as the owner of a data folder, and puts a backup's content into it.

    put.py look FOLDER            what lies there, as JSON
    put.py stage FOLDER ID        reads a tar, expect.json first, and keeps it beside the data
    put.py switch FOLDER ID       exchanges the data for what was staged
    put.py back FOLDER            undoes that, wherever it was cut
    put.py finish FOLDER          forgets what was there before

The machine hands this text to `python3 -c`: it knows the standard library of Python 3.11, and
nothing of Hearth. A wish that cannot be fulfilled ends with one line on standard error.
"""

import hashlib
import json
import os
import shutil
import stat
import sys
import tarfile
from pathlib import Path
from typing import IO, Any

# What a restore keeps beside the data: `new`, then `old`, and the names of steps that are done.
WORK = ".hearth-restore"
# What is being forgotten: half of it must never be taken for the way back.
GONE = f"{WORK}.gone"
# What Linux allows, less room for the folder's own path.
PART_BYTES, NAME_BYTES = 255, 3840


class Trouble(Exception):
    """One line: what is in the way."""


def names(root: Path) -> list[str]:
    """What lies in the folder, without what a restore keeps there."""
    return sorted(name for name in os.listdir(root) if name not in (WORK, GONE))


def look(root: Path) -> dict[str, Any]:
    """Say whether anything lies in the folder, whether a restore was cut, and what is free."""
    space = os.statvfs(root)
    return {
        "empty": not names(root),
        "unfinished": (root / WORK).exists(),
        "free_bytes": space.f_bavail * space.f_frsize,
    }


class Names:
    """Judges what a folder's entries are called, in the order in which they come.

    Who makes a backup and who checks one asks this very class, so nothing is taken that cannot be
    put back.
    """

    def __init__(self) -> None:
        """Begin with an empty folder."""
        self._taken: set[str] = set()
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def take(self, name: str, folder: bool) -> None:
        """Take one more name; Trouble when it has no place beside those before."""
        parts = name.split("/")
        try:
            sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
        except UnicodeError:
            raise Trouble(f"{name!r}: no disk knows such a name") from None
        # A restore works in the folder's top only; further down the name is anybody's.
        if {"", ".", ".."} & {*parts} or "\0" in name or parts[0] in (WORK, GONE):
            raise Trouble(f"{name!r} is no place in a folder")
        if max(sizes) > PART_BYTES or sum(sizes) + len(sizes) > NAME_BYTES:
            raise Trouble(f"{name[:60]!r}… is longer than a name may be")
        if name in self._taken:
            raise Trouble(f"{name} is there twice")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if name in (self._files if folder else self._folders) or above & self._files:
            raise Trouble(f"{name} is a file here and a folder there")
        self._taken.add(name)
        self._folders |= above
        (self._folders if folder else self._files).add(name)


def unpack(tar: tarfile.TarFile, new: Path, expected: dict[str, dict[str, Any]]) -> None:
    """Write every member below `new`, exactly the expected ones."""
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    missing = dict(expected)
    known = Names()
    while info := tar.next():
        base, _, name = info.name.partition("/")
        if base != "data":
            raise Trouble(f"the backup names {info.name!r}, which is no place in this folder")
        known.take(name, info.isdir())
        place = new / name
        wanted = missing.pop(name, None)
        if wanted is None or not (info.isdir() or (info.isreg() and not info.issparse())):
            raise Trouble(f"{name}: not what the manifest says")
        if info.isdir():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            folders.append((place, info))
            continue
        # A database comes before the folder that it lies in.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if write(place, tar.extractfile(info), info) != wanted["sha256"]:
            raise Trouble(f"{name}: its content is not what the manifest says")
    if missing:
        raise Trouble(f"{min(missing)}: in the manifest, but not in the backup")
    # Last: a folder may be one that its owner cannot write to.
    for place, info in reversed(folders):
        os.chmod(place, info.mode & 0o777)
        os.utime(place, (info.mtime, info.mtime))


def write(place: Path, content: IO[bytes] | None, info: tarfile.TarInfo) -> str:
    """Write one file and give its digest."""
    whole = hashlib.sha256()
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        while content and (piece := content.read(2**20)):
            whole.update(piece)
            stream.write(piece)
        stream.flush()
        os.fchmod(stream.fileno(), info.mode & 0o777)
        os.utime(stream.fileno(), (info.mtime, info.mtime))
    return whole.hexdigest()


def stage(root: Path, identity: str, given: IO[bytes]) -> None:
    """Write a tar's content into a folder of its own beside the data."""
    work = root / WORK
    if (work / "old").exists():
        raise Trouble("an older restore was cut short here and must be undone first")
    finish(root)
    (work / "new").mkdir(mode=0o700, parents=True)
    with tarfile.open(fileobj=given, mode="r|") as tar:
        first = tar.next()
        content = tar.extractfile(first) if first and first.name == "expect.json" else None
        if content is None:
            raise Trouble("nothing says what to expect")
        expected = json.load(content)
        needed, free = sum(one["size"] for one in expected.values()), look(root)["free_bytes"]
        if needed > free:
            raise Trouble(f"it needs {needed >> 20} MB of disk, and {free >> 20} MB are free")
        unpack(tar, work / "new", expected)
    os.sync()
    (work / "complete").write_text(identity)


def switch(root: Path, identity: str) -> None:
    """Exchange the data for what was staged, by renaming; may be done again after a cut."""
    work = root / WORK
    if (work / "complete").read_text() != identity:
        raise Trouble("another backup was staged here meanwhile; run this again")
    (work / "old").mkdir(mode=0o700, exist_ok=True)
    if not (work / "moved").exists():
        for name in names(root):
            move(root / name, work / "old" / name)
        (work / "moved").touch()
    for name in sorted(os.listdir(work / "new")):
        move(work / "new" / name, root / name)
    os.sync()


def back(root: Path) -> None:
    """Put the data back as they were before `switch`, wherever that was cut; forget the rest."""
    work = root / WORK
    if (work / "moved").exists():
        for name in names(root):
            remove(root / name)
        # Now it is as if the exchange had been cut before its middle.
        (work / "moved").unlink()
    if (work / "old").exists():
        for name in sorted(os.listdir(work / "old")):
            move(work / "old" / name, root / name)
    finish(root)


def finish(root: Path) -> None:
    """Forget what was there before, and what was staged."""
    remove(root / GONE)
    if (root / WORK).exists():
        (root / WORK).rename(root / GONE)
        remove(root / GONE)


def move(source: Path, target: Path) -> None:
    """Rename within the volume; a folder's owner needs the right to write to it for that."""
    mode = source.lstat().st_mode
    locked = stat.S_ISDIR(mode) and not mode & stat.S_IWUSR
    if locked:
        source.chmod(0o700)
    source.rename(target)
    if locked:
        target.chmod(mode & 0o777)


def remove(path: Path) -> None:
    """Remove a file or a folder with all in it, also one that its owner had locked."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    for below, folders, _ in os.walk(path):
        for name in folders:
            inner = Path(below, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


def main(words: list[str]) -> None:
    """Do what the first word says."""
    verb, root = words[0], Path(words[1])
    if verb == "look":
        json.dump(look(root), sys.stdout)
    elif verb == "stage":
        stage(root, words[2], sys.stdin.buffer)
    elif verb == "switch":
        switch(root, words[2])
    elif verb == "back":
        back(root)
    elif verb == "finish":
        finish(root)


if __name__ == "__main__":
    os.umask(0o077)
    try:
        main(sys.argv[1:])
    except (Trouble, OSError, tarfile.TarError, ValueError) as problem:
        sys.exit(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
