"""Runs inside an instance, as the owner of a data folder, and gives the folder as a tar.

    take.py FOLDER sqlite|files

Databases come first, each as SQLite itself copies it while it is in use; then everything else, so
that what a database names is there; `report.json` comes last, and without it the tar is not whole.
The machine hands this text to `python3 -c`: it knows the standard library of Python 3.11, and
nothing of Hearth. A wish that cannot be fulfilled ends with one line on standard error.
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
from typing import IO

# What a restore keeps beside the data belongs to no backup.
WORK = (".hearth-restore", ".hearth-restore.gone")
SCRATCH, SCRATCH_PREFIX = "/var/tmp", "hearth-backup-"  # noqa: S108 - made by mkdtemp, mode 0700
HEADER = b"SQLite format 3\0"
BESIDE = ("-wal", "-shm", "-journal")
# Up to here a file is read whole first, so that one that is being rewritten stays one piece.
SMALL = 8 * 2**20
BUSY_S = 120
# A database that is busy or a disk that is full is no damage: another run may succeed.
PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
PASSING |= {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY}


class Trouble(Exception):
    """One line: what is in the way."""


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
            if name in WORK:
                continue
            yield name, entry
            if entry.is_dir(follow_symlinks=False):
                open_folders.append(name)


def is_database(path: Path) -> bool:
    """Whether a file says that it is SQLite's."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as stream:
        return stream.read(len(HEADER)) == HEADER
    return False


def snapshot(source: Path, copy: Path) -> str:
    """Copy a database that is in use, whole and of one moment; give its integrity in one line."""
    copy.unlink(missing_ok=True)
    # `rw`: one that was deleted meanwhile is not made again.
    address = f"{source.as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as database:
        # It may be a stranger's upload: nothing in its schema may run functions.
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("VACUUM INTO ?", (str(copy),))
    with contextlib.closing(sqlite3.connect(copy)) as database:
        rows = database.execute("PRAGMA integrity_check(3)").fetchall()
    return "; ".join(str(row[0]) for row in rows).replace("\n", " ")


class Taking:
    """One folder on its way into a tar."""

    def __init__(self, root: Path, scratch: Path, out: IO[bytes]) -> None:
        """Begin the tar."""
        self.root, self.scratch = root, scratch
        self.tar = tarfile.open(  # noqa: SIM115 - closed when all is in it
            fileobj=out, mode="w|", format=tarfile.PAX_FORMAT
        )
        self.integrity: dict[str, str] = {}
        self.damaged: dict[str, str] = {}
        self.left_out: list[str] = []
        self.began: float = time.time()

    def database(self, name: str) -> None:
        """Take one database; one that SQLite cannot read is left to be taken as a file."""
        copy = self.scratch / "copy"
        try:
            verdict = snapshot(self.root / name, copy)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if not (self.root / name).exists():
                return
            if code in PASSING:
                raise Trouble(f"{name}: SQLite says: {error}") from None
            self.damaged[name] = str(error)
            return
        self.integrity[name] = verdict
        with copy.open("rb") as stream:
            seen = os.stat(self.root / name, follow_symlinks=False)
            self.add(f"sqlite/{name}", seen, copy.stat().st_size, stream)
        copy.unlink()

    def file(self, name: str) -> None:
        """Take one file as it is; one that was deleted meanwhile is none."""
        try:
            handle = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Trouble(f"{name}: {error.strerror}") from None
        with os.fdopen(handle, "rb") as stream:
            seen = os.fstat(stream.fileno())
            if not stat.S_ISREG(seen.st_mode):
                return
            if seen.st_size <= SMALL:
                content = stream.read(2 * SMALL)
                self.add(f"files/{name}", seen, len(content), io.BytesIO(content))
                return
            try:
                self.add(f"files/{name}", seen, seen.st_size, stream)
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                raise Trouble(f"{name}: it shrank while it was read; run this again") from None

    def add(self, name: str, seen: os.stat_result, size: int, content: IO[bytes] | None) -> None:
        """Add one member; `None` as content makes it a folder."""
        info = tarfile.TarInfo(name)
        info.type = tarfile.REGTYPE if content else tarfile.DIRTYPE
        info.size, info.mtime, info.mode = size, int(seen.st_mtime), seen.st_mode & 0o777
        self.tar.addfile(info, content)

    def rest(self, databases: bool) -> None:
        """Take all that is there now and was not taken yet."""
        for name, entry in walk(self.root):
            if entry.is_dir(follow_symlinks=False):
                self.add(f"files/{name}", entry.stat(follow_symlinks=False), 0, None)
            elif not entry.is_file(follow_symlinks=False):
                self.left_out.append(name)
            elif self.taken(name):
                continue
            elif databases and name not in self.damaged and is_database(self.root / name):
                self.database(name)
                if name in self.damaged:
                    self.file(name)
            else:
                self.file(name)

    def taken(self, name: str) -> bool:
        """Whether it is a copied database, or what SQLite keeps beside one."""
        ends = [name.removesuffix(end) for end in BESIDE if name.endswith(end)]
        return any(owner in self.integrity for owner in [name, *ends])

    def end(self) -> None:
        """Say what was taken; a tar without this is not whole."""
        text = json.dumps(
            {
                "began": self.began,
                "integrity": self.integrity,
                "damaged": self.damaged,
                "left_out": self.left_out,
            }
        ).encode()
        self.tar.addfile(_member("report.json", len(text)), io.BytesIO(text))
        self.tar.close()


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder that nobody else may remove; OSError when somebody holds it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that nobody else removes, after those that killed runs left are gone."""
    begin = f"{SCRATCH_PREFIX}{os.getuid()}-"
    for left in Path(SCRATCH).glob(f"{begin}*"):
        with contextlib.suppress(OSError), held(left):
            shutil.rmtree(left, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        while True:
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=begin, dir=SCRATCH)))
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                stack.enter_context(held(made))
                # Before it was held, another run may have taken it for one that was left.
                if made.exists():
                    break
        yield made


def take(root: Path, kind: str, out: IO[bytes]) -> None:
    """Write the folder as a tar: its databases first, then everything else."""
    if (root / WORK[0]).exists():
        raise Trouble(f"a restore was cut short in {root}: say `hearth restore FILE` again first")
    with scratch() as made:
        taking = Taking(root, made, out)
        if kind == "sqlite":
            found = [
                name
                for name, entry in walk(root)
                if entry.is_file(follow_symlinks=False) and is_database(root / name)
            ]
            # The one that lies highest points to the others, so it comes first.
            for name in sorted(found, key=lambda name: (name.count("/"), name)):
                taking.database(name)
        taking.rest(databases=kind == "sqlite")
        taking.end()
    out.flush()


if __name__ == "__main__":
    os.umask(0o077)
    try:
        take(Path(sys.argv[1]), sys.argv[2], sys.stdout.buffer)
    except (Trouble, OSError, sqlite3.Error, tarfile.TarError, ValueError) as problem:
        sys.exit(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
