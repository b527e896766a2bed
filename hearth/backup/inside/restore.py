"""Runs inside an instance, as the owner of a data folder, and restores its content.

    restore.py FOLDER status      prints as JSON whether it is empty, unfinished, and its free bytes
    restore.py FOLDER stage ID    reads a tar, expect.json first, and writes it beside the data
    restore.py FOLDER switch ID   exchanges the data for what was staged
    restore.py FOLDER back        undoes that, wherever it was cut
    restore.py FOLDER finish      removes the old data

The machine passes this text to `python3 -c`: it uses the standard library of Python 3.11, and
nothing of Hearth. An error ends it with one line on standard error.
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
# What is being removed: half of it must never be restored.
GONE = f"{WORK}.gone"
# What Linux allows, less room for the folder's own path.
PART_BYTES, NAME_BYTES = 255, 3840


class AgentError(Exception):
    """One line: the reason why a step is not possible."""


def names(root: Path) -> list[str]:
    """Return the names in the folder, without those that a restore keeps there."""
    return sorted(name for name in os.listdir(root) if name not in (WORK, GONE))


def status(root: Path) -> dict[str, Any]:
    """Return whether the folder is empty, whether a restore was cut, and the free bytes."""
    space = os.statvfs(root)
    return {
        "empty": not names(root),
        "unfinished": (root / WORK).exists(),
        "free_bytes": space.f_bavail * space.f_frsize,
    }


class NameValidator:
    """Validates the names of a folder's entries, in the order in which they come.

    Making and checking a backup use this very class too, so nothing is backed up that cannot be
    restored.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def accept(self, name: str, folder: bool) -> None:
        """Accept one more name; AgentError when it is not valid or clashes with an earlier one."""
        parts = name.split("/")
        try:
            sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
        except UnicodeError:
            raise AgentError(f"{name!r}: no disk can store such a name") from None
        # A restore uses these names in the folder's top only; further down they are allowed.
        if {"", ".", ".."} & {*parts} or "\0" in name or parts[0] in (WORK, GONE):
            raise AgentError(f"{name!r} is not a valid place in a folder")
        if max(sizes) > PART_BYTES or sum(sizes) + len(sizes) > NAME_BYTES:
            raise AgentError(f"{name[:60]!r}… is longer than a name may be")
        if name in self._taken:
            raise AgentError(f"{name} is there twice")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        if name in (self._files if folder else self._folders) or above & self._files:
            raise AgentError(f"{name} is a file here and a folder there")
        self._taken.add(name)
        self._folders |= above
        (self._folders if folder else self._files).add(name)


def unpack(tar: tarfile.TarFile, new: Path, expected: dict[str, dict[str, Any]]) -> None:
    """Write every member below `new`, exactly the expected ones."""
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    missing = dict(expected)
    names = NameValidator()
    while info := tar.next():
        base, _, name = info.name.partition("/")
        if base != "data":
            raise AgentError(f"the backup names {info.name!r}, which is not a place in this folder")
        names.accept(name, info.isdir())
        place = new / name
        wanted = missing.pop(name, None)
        if wanted is None or not (info.isdir() or (info.isreg() and not info.issparse())):
            raise AgentError(f"{name}: it does not match the manifest")
        if info.isdir():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            folders.append((place, info))
            continue
        # A database comes before the folder that it lies in.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if write(place, tar.extractfile(info), info) != wanted["sha256"]:
            raise AgentError(f"{name}: its content does not match the manifest")
    if missing:
        raise AgentError(f"{min(missing)}: in the manifest, but not in the backup")
    # Last: a folder may be one that its owner cannot write to.
    for place, info in reversed(folders):
        os.chmod(place, info.mode & 0o777)
        os.utime(place, (info.mtime, info.mtime))


def write(place: Path, content: IO[bytes] | None, info: tarfile.TarInfo) -> str:
    """Write one file and return its digest."""
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
        raise AgentError("an older restore was cut short here and must be undone first")
    finish(root)
    (work / "new").mkdir(mode=0o700, parents=True)
    with tarfile.open(fileobj=given, mode="r|") as tar:
        first = tar.next()
        content = tar.extractfile(first) if first and first.name == "expect.json" else None
        if content is None:
            raise AgentError("expect.json is missing")
        expected = json.load(content)
        needed, free = sum(one["size"] for one in expected.values()), status(root)["free_bytes"]
        if needed > free:
            raise AgentError(f"it needs {needed >> 20} MB of disk, and {free >> 20} MB are free")
        unpack(tar, work / "new", expected)
    os.sync()
    (work / "complete").write_text(identity)


def switch(root: Path, identity: str) -> None:
    """Exchange the data for what was staged, by renaming; may be run again after a cut."""
    work = root / WORK
    if (work / "complete").read_text() != identity:
        raise AgentError("another backup was staged here meanwhile; run this again")
    (work / "old").mkdir(mode=0o700, exist_ok=True)
    if not (work / "moved").exists():
        for name in names(root):
            move(root / name, work / "old" / name)
        (work / "moved").touch()
    for name in sorted(os.listdir(work / "new")):
        move(work / "new" / name, root / name)
    os.sync()


def back(root: Path) -> None:
    """Put the data back as it was before `switch`, wherever that was cut; remove the rest."""
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
    """Remove the old data and what was staged."""
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
    """Remove a file or a folder with all in it, also one that its owner cannot write to."""
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
    """Run the step that the second argument names."""
    root, verb = Path(words[0]), words[1]
    if verb == "status":
        json.dump(status(root), sys.stdout)
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
    except (AgentError, OSError, tarfile.TarError, ValueError) as problem:
        sys.exit(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
