"""Install a program whole or not at all: built in a fresh folder, switched by one link, last.

`PROGRAMS/NAME/` holds one folder per digest, the link `current`, the link `previous` (the way
back), and a lock. Whoever holds the lock may remove every `.build-*` there: its builder is dead,
because builders hold the lock and so do the tools they start.
"""

import contextlib
import ctypes
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hearth.files import LockHeldError, locked, sync_folder
from hearth.sources import manifest
from hearth.sources.errors import SourceError

# A killed run's `uv` may live on for a while; it ends by itself.
WAIT_FOR_LOCK_S = 900.0
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")

# Fills a fresh folder; gets the lock's descriptor, to hand on to every process it starts.
Fill = Callable[[Path, int], None]


@dataclass(frozen=True, slots=True)
class Installed:
    """What `install` found or did: "nothing", "install", "repair" or "switch"."""

    name: str
    digest: str
    path: Path
    did: str

    @property
    def changed(self) -> bool:
        """Whether `current` now leads to something new."""
        return self.did != "nothing"


def is_installed(programs_folder: Path, name: str, digest: str) -> bool:
    """Whether `current` is this digest and its folder is what was installed."""
    home = _home(programs_folder, name, digest)
    return _target(home / "current") == digest and manifest.is_intact(home / digest)


def settled(
    programs_folder: Path, name: str, digest: str, *, is_there: bool, write: bool
) -> Installed | None:
    """Return what there is to say where nothing need or may be fetched; None where it must be.

    `digest` is empty where it is known only after the fetch.
    """
    if write and not is_there:
        return None
    place = programs_folder / name / (digest or "new")
    return Installed(name, digest, place, "nothing" if is_there else "install")


def install(
    programs_folder: Path, name: str, digest: str, fill: Fill, *, write: bool = True
) -> Installed:
    """Make `current` lead to an intact folder of `digest`, filled by `fill` if there is none.

    With `write` false nothing is touched, and the answer says what would be done.

    Raises:
        SourceError: `fill` failed (what was current stays), or another run never ended.
    """
    home = _home(programs_folder, name, digest)
    place = home / digest
    if not write or is_installed(programs_folder, name, digest):
        return Installed(name, digest, place, _lacking(home, digest))
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    with _lock(home, name) as lock:
        # Another run may have done it while this one waited.
        did = _lacking(home, digest)
        _remove_leftovers(home)
        if did in ("install", "repair"):
            _build(home, digest, fill, lock)
        if did != "nothing":
            _switch(home, digest)
        _prune(home)
    return Installed(name, digest, place, did)


def _home(programs_folder: Path, name: str, digest: str) -> Path:
    if not _DIGEST.fullmatch(digest) or not _NAME.fullmatch(name):
        raise SourceError(f"{name}: {digest!r} is no sha256 of a program called so")
    return programs_folder / name


def _lacking(home: Path, digest: str) -> str:
    if manifest.is_intact(home / digest):
        return "nothing" if _target(home / "current") == digest else "switch"
    return "repair" if (home / digest).exists() else "install"


def _build(home: Path, digest: str, fill: Fill, lock: int) -> None:
    """Fill a fresh folder and give it its name only when all of it is on the disk."""
    fresh = Path(tempfile.mkdtemp(prefix=".build-", dir=home))
    try:
        fill(fresh, lock)
        _let_all_read(fresh)
        manifest.write(fresh)
        _sync_filesystem(fresh)
        if (home / digest).exists():
            (home / digest).rename(tempfile.mkdtemp(prefix=".build-", dir=home))
        fresh.rename(home / digest)
        sync_folder(home)
    except OSError as error:
        raise SourceError(f"{home.name}: cannot install into {home}: {error.strerror}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _switch(home: Path, digest: str) -> None:
    old = _target(home / "current")
    if old not in (None, digest):
        _point(home / "previous", str(old))
    _point(home / "current", digest)


def _point(link: Path, target: str) -> None:
    fresh = link.with_name(f".build-{link.name}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
    sync_folder(link.parent)


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None


def _remove_leftovers(home: Path) -> None:
    for path in home.glob(".build-*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _prune(home: Path) -> None:
    """Remove what neither `current` nor `previous` leads to."""
    kept = {_target(home / "current"), _target(home / "previous")}
    for path in home.iterdir():
        if _DIGEST.fullmatch(path.name) and path.name not in kept:
            # First the name, so that a kill leaves a leftover and not half a program.
            doomed = path.rename(home / f".build-old-{path.name[:12]}")
            shutil.rmtree(doomed, ignore_errors=True)
    _remove_leftovers(home)


def _let_all_read(folder: Path) -> None:
    """Instances read it as users that own nothing here; nobody else than root may write."""
    folder.chmod(0o755)
    for here, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(here, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                os.chmod(path, 0o755)  # noqa: S103 - nothing in here is secret
            elif stat.S_ISREG(mode):
                os.chmod(path, 0o755 if mode & 0o111 else 0o644)


def _sync_filesystem(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        # One call instead of an fsync for each of thousands of files; Python has none for it.
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(handle)


@contextlib.contextmanager
def _lock(home: Path, name: str) -> Iterator[int]:
    """Hold this program's lock; what gets the descriptor handed on holds it too."""
    try:
        with locked(home / ".lock", WAIT_FOR_LOCK_S) as handle:
            yield handle
    except LockHeldError as error:
        raise SourceError(f"{name}: {error}") from None
