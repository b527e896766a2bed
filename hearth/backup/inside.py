"""Runs inside an instance, as the owner of a data folder, and copies or restores its content.

    inside.py FOLDER copy sqlite|files  writes the folder as a tar, databases first
    inside.py FOLDER status             prints as JSON: is it empty, unfinished; its free bytes
    inside.py FOLDER stage              writes a tar, which ends with COMPLETE, beside the data
    inside.py FOLDER switch             exchanges the data for what was staged
    inside.py FOLDER back               undoes that, wherever it was cut
    inside.py FOLDER finish             removes the old data

A copy has each database as SQLite itself copies it while it is in use; then everything else, so
that files named in a database are there; `report.json` comes last, and without it the tar is
incomplete. The machine passes this text to `python3 -c`: it uses the standard library of Python
3.11, and nothing of Hearth. An error ends it with one line on standard error.
"""

import contextlib
import fcntl
import io
import json
import os
import shutil
import sqlite3
import stat
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# What a restore keeps beside the data: `new`, then `old`, and `moved` when all of it is in `old`.
WORK = ".hearth-restore"
# The last file of what a restore sends: without it the tar is incomplete.
COMPLETE = "complete"
# What is being removed: half of it must never be restored. Neither belongs to a backup.
GONE = f"{WORK}.gone"
SCRATCH, SCRATCH_PREFIX = "/var/tmp", "hearth-backup-"  # noqa: S108 - made by mkdtemp, mode 0700
HEADER = b"SQLite format 3\0"
BESIDE = ("-wal", "-shm", "-journal")
# Up to here a file is read whole first, so that one that is being rewritten stays one piece.
SMALL = 8 * 2**20
BUSY_S = 120
# A busy database or a full disk is not damage: another run may succeed.
TEMPORARY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
TEMPORARY |= {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY}


class AgentError(Exception):
    """One line: the reason why a step is not possible."""


def walk(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below `root` with its name from there; no link is followed."""
    open_folders = [""]
    while open_folders:
        below = open_folders.pop()
        try:
            entries = sorted(os.scandir(root / below), key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if name in (WORK, GONE):
                continue
            yield name, entry
            if entry.is_dir(follow_symlinks=False):
                open_folders.append(name)


def is_database(path: Path) -> bool:
    """Whether a file has SQLite's header."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as stream:
        return stream.read(len(HEADER)) == HEADER
    return False


def snapshot(source: Path, copy: Path) -> str:
    """Copy a database that is in use, whole and of one moment; return its integrity in one line."""
    copy.unlink(missing_ok=True)
    # `rw`: one that was deleted meanwhile is not created again.
    address = f"{source.as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as database:
        # It may be an uploaded file: nothing in its schema may run functions.
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("VACUUM INTO ?", (str(copy),))
    with contextlib.closing(sqlite3.connect(copy)) as database:
        rows = database.execute("PRAGMA integrity_check(3)").fetchall()
    return "; ".join(str(row[0]) for row in rows).replace("\n", " ")


class FolderTar:
    """The tar of one folder while it is written."""

    def __init__(self, root: Path, scratch: Path, tar: tarfile.TarFile) -> None:
        self.root, self.scratch, self.tar = root, scratch, tar
        self.integrity: dict[str, str] = {}
        self.damaged: dict[str, str] = {}
        self.left_out: list[str] = []
        self.began: float = time.time()

    def database(self, name: str) -> None:
        """Add one database; one that SQLite cannot read is left to be added as a file."""
        copy = self.scratch / "copy"
        try:
            verdict = snapshot(self.root / name, copy)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if not (self.root / name).exists():
                return
            if code in TEMPORARY:
                raise AgentError(f"{name}: SQLite reports: {error}") from None
            self.damaged[name] = str(error)
            return
        self.integrity[name] = verdict
        with copy.open("rb") as stream:
            seen = os.stat(self.root / name, follow_symlinks=False)
            self.add(name, seen, copy.stat().st_size, stream)
        copy.unlink()

    def file(self, name: str) -> None:
        """Add one file as it is; one that was deleted meanwhile is skipped."""
        try:
            handle = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            raise AgentError(f"{name}: {error.strerror}") from None
        with os.fdopen(handle, "rb") as stream:
            seen = os.fstat(stream.fileno())
            if not stat.S_ISREG(seen.st_mode):
                return
            if seen.st_size <= SMALL:
                content = stream.read(2 * SMALL)
                self.add(name, seen, len(content), io.BytesIO(content))
                return
            try:
                self.add(name, seen, seen.st_size, stream)
            except BrokenPipeError:
                raise
            except OSError:
                raise AgentError(f"{name}: it shrank while it was read; run this again") from None

    def add(self, name: str, seen: os.stat_result, size: int, content: IO[bytes] | None) -> None:
        """Add one member; `None` as content makes it a folder."""
        info = tarfile.TarInfo(f"data/{name}")
        info.type = tarfile.REGTYPE if content else tarfile.DIRTYPE
        info.size, info.mtime, info.mode = size, int(seen.st_mtime), seen.st_mode & 0o777
        self.tar.addfile(info, content)

    def rest(self, databases: bool) -> None:
        """Add all that is there now and was not added yet."""
        for name, entry in walk(self.root):
            if entry.is_dir(follow_symlinks=False):
                self.add(name, entry.stat(follow_symlinks=False), 0, None)
            elif not entry.is_file(follow_symlinks=False):
                self.left_out.append(name)
            elif self.is_added(name):
                continue
            elif databases and name not in self.damaged and is_database(self.root / name):
                self.database(name)
                if name in self.damaged:
                    self.file(name)
            else:
                self.file(name)

    def is_added(self, name: str) -> bool:
        """Whether it is a copied database, or a file that SQLite keeps beside one."""
        ends = [name.removesuffix(end) for end in BESIDE if name.endswith(end)]
        return any(owner in self.integrity for owner in [name, *ends])

    def end(self) -> None:
        """Write the report; a tar without it is incomplete."""
        names = ("began", "integrity", "damaged", "left_out")
        raw = json.dumps({name: getattr(self, name) for name in names}).encode()
        info = tarfile.TarInfo("report.json")
        info.size = len(raw)
        self.tar.addfile(info, io.BytesIO(raw))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder that no other run may remove; OSError when another run holds the lock."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that no other run removes, and remove those that killed runs left."""
    start = f"{SCRATCH_PREFIX}{os.getuid()}-"
    for left in Path(SCRATCH).glob(f"{start}*"):
        with contextlib.suppress(OSError), locked(left):
            shutil.rmtree(left, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        while True:
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=start, dir=SCRATCH)))
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                stack.enter_context(locked(made))
                # Before it was locked, another run may have removed it as a leftover.
                if made.exists():
                    break
        yield made


def write_tar(root: Path, kind: str, out: IO[bytes]) -> None:
    """Write the folder as a tar: its databases first, then everything else."""
    if (root / WORK).exists():
        raise AgentError(
            f"a restore was cut short in {root}: run `hearth restore FILE` again first"
        )
    with scratch() as made, tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        folder = FolderTar(root, made, tar)
        if kind == "sqlite":
            found = [
                name
                for name, entry in walk(root)
                if entry.is_file(follow_symlinks=False) and is_database(root / name)
            ]
            # The topmost one names the files of the others, so it comes first.
            for name in sorted(found, key=lambda name: (name.count("/"), name)):
                folder.database(name)
        folder.rest(databases=kind == "sqlite")
        folder.end()
    out.flush()


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


def stage(root: Path, given: IO[bytes]) -> None:
    """Write a tar's content into a folder of its own beside the data."""
    work = root / WORK
    if (work / "old").exists():
        raise AgentError("an older restore was cut short here and must be undone first")
    finish(root)
    (work / "new").mkdir(mode=0o700, parents=True)
    with tarfile.open(fileobj=given, mode="r|", errorlevel=2) as tar:
        # The machine makes every member itself, from a name that it has validated. A filter of
        # Python's own would change modes, and Debian 12 has none.
        tar.extraction_filter = lambda member, path: member
        tar.extractall(work)  # noqa: S202
    if not (work / COMPLETE).exists():
        raise AgentError("the backup ended before its last file")
    os.sync()


def switch(root: Path) -> None:
    """Exchange the data for what was staged, by renaming."""
    work = root / WORK
    (work / "old").mkdir(mode=0o700)
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


def become_owner(root: Path) -> None:
    """Give up root's rights for those of the folder's owner."""
    try:
        owner = os.stat(root)
    except FileNotFoundError:
        raise AgentError(f"{root} is missing: run `hearth up` first") from None
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)


def main(root: Path, verb: str, *words: str) -> None:
    """Run the step that the second argument names."""
    become_owner(root)
    if verb == "copy":
        write_tar(root, words[0], sys.stdout.buffer)
    elif verb == "stage":
        stage(root, sys.stdin.buffer)
    elif verb == "status":
        json.dump(status(root), sys.stdout)
    else:
        {"switch": switch, "back": back, "finish": finish}[verb](root)


if __name__ == "__main__":
    os.umask(0o077)
    try:
        main(Path(sys.argv[1]), *sys.argv[2:])
    except (AgentError, OSError, sqlite3.Error, tarfile.TarError, ValueError) as problem:
        sys.exit(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
