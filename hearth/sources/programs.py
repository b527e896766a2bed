"""Install a program whole or not at all: built in a fresh folder, switched by one link, last.

`PROGRAMS/NAME/` holds one folder per digest, the links `current` and `previous`, and a lock.
The holder of the lock may remove every `.build-*` there: its builder is dead, because builders
hold the lock and so do the tools they start.
"""

import errno
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.catalogue.naming import PROGRAM
from hearth.files import LockHeldError, locked, sync_folder
from hearth.paths import PROGRAMS
from hearth.sources import SourceError

# A killed run's `uv` may live on for a while; it ends by itself.
WAIT_FOR_LOCK_S = 900.0
MANIFEST = ".hearth-manifest.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")

# Fills a fresh folder; passes the lock's descriptor on to every process it starts.
Fill = Callable[[Path, int], None]


@dataclass(frozen=True, slots=True)
class Installed:
    """The result of `install`; `did` is "nothing", "install", "repair" or "switch"."""

    digest: str
    path: Path
    did: str

    @property
    def changed(self) -> bool:
        """Whether `current` now leads to another folder."""
        return self.did != "nothing"


def install(
    programs: Path, name: str, digest: str | None, fill: Fill, *, write: bool = True
) -> Installed:
    """Make `current` lead to an intact folder of `digest`, filled by `fill` if there is none.

    With `write` false nothing is changed, and the result tells what would be done. The digest of a
    source that was never fetched is None then.

    Raises:
        SourceError: `fill` failed (what was current stays), or another run never ended.
    """
    if digest is None and not write:
        return Installed("", programs / name / "new", "install")
    if digest is None or not _DIGEST.fullmatch(digest) or not PROGRAM.fullmatch(name):
        raise SourceError(f"{name}: {digest!r} is not a sha256, or the name is not valid")
    home = programs / name
    did = _next_step(home, digest)
    if not write or did == "nothing":
        return Installed(digest, home / digest, did)
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    try:
        with locked(home / ".lock", WAIT_FOR_LOCK_S) as lock:
            # Another run may have done it while this one waited.
            did = _next_step(home, digest)
            _remove_leftovers(home)
            if did in ("install", "repair"):
                _build(home, digest, fill, lock)
            if did != "nothing":
                _switch(home, digest)
            _prune(home)
    except LockHeldError as error:
        raise SourceError(f"{name}: {error}") from None
    return Installed(digest, home / digest, did)


def check_visible(name: str, owner: str, visible: Sequence[str]) -> None:
    """Raise SourceError unless the folder is one of those that the owner's instance sees."""
    if name not in visible:
        raise SourceError(
            f"{owner} would not see the program folder {name}: add {name} to `programs` of "
            f"{owner} in inventory/local/services.yml"
        )


def _next_step(home: Path, digest: str) -> str:
    if is_intact(home / digest):
        return "nothing" if _target(home / "current") == digest else "switch"
    return "repair" if (home / digest).exists() else "install"


def _build(home: Path, digest: str, fill: Fill, lock: int) -> None:
    """Fill a fresh folder and rename it only when all of it is on the disk."""
    fresh = Path(tempfile.mkdtemp(prefix=".build-", dir=home))
    try:
        # Programs for images are often those of this machine's house.
        if not _linked(PROGRAMS / home.name / digest, fresh):
            fill(fresh, lock)
        _let_all_read(fresh)
        write_manifest(fresh)
        _sync_filesystem(fresh)
        if (home / digest).exists():
            (home / digest).rename(tempfile.mkdtemp(prefix=".build-", dir=home))
        fresh.rename(home / digest)
        sync_folder(home)
    except OSError as error:
        raise SourceError(f"{home.name}: cannot install into {home}: {error.strerror}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _linked(there: Path, folder: Path) -> bool:
    """Fill a folder with the same files as another one; return False where that is not possible.

    Both keep them: nothing changes an installed file in place.
    """
    if there.parent == folder.parent or not is_intact(there):
        return False
    left_out = shutil.ignore_patterns(MANIFEST)
    try:
        shutil.copytree(
            there, folder, symlinks=True, dirs_exist_ok=True, copy_function=os.link, ignore=left_out
        )
    except (OSError, shutil.Error):
        # Another disk; what was linked goes.
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return False
    return True


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


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path below `folder` with its status, links not followed."""
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(here, name)
            yield path, os.lstat(path)


def _let_all_read(folder: Path) -> None:
    """Let instances read it as users that own nothing here; only root may write."""
    folder.chmod(0o755)
    for path, info in _walk(folder):
        if not stat.S_ISLNK(info.st_mode):
            executable = stat.S_ISDIR(info.st_mode) or info.st_mode & 0o111
            os.chmod(path, 0o755 if executable else 0o644)


def _sync_filesystem(folder: Path) -> None:
    # One call instead of an fsync for each of thousands of files; Python does not offer it.
    command = ["/usr/bin/sync", "--file-system", str(folder)]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - no shell
        raise OSError(errno.EIO, "its disk cannot be synchronised")


def _scan(folder: Path) -> dict[str, Any]:
    """Map each path below `folder` to kind, mode and, for files, size and time; for links, target.

    It reads no contents: 10,000 files take about 0.1 s. A change that keeps size and time to the
    nanosecond is not detected.
    """
    found: dict[str, Any] = {}
    for path, info in _walk(folder):
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISLNK(info.st_mode):
            entry: list[Any] = ["link", os.readlink(path)]
        elif stat.S_ISDIR(info.st_mode):
            entry = ["folder", mode]
        else:
            entry = ["file", mode, info.st_size, info.st_mtime_ns]
        found[path[len(str(folder)) + 1 :]] = entry
    found.pop(MANIFEST, None)
    return found


def write_manifest(folder: Path) -> None:
    """Record the present contents of `folder`."""
    (folder / MANIFEST).write_text(json.dumps(_scan(folder)), encoding="utf-8")


def is_intact(folder: Path) -> bool:
    """Whether `folder` holds exactly what was recorded.

    Byte code that a Python run as root added afterwards is not damage.
    """
    try:
        recorded = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        present = _scan(folder)
    except (OSError, ValueError):
        return False
    if not isinstance(recorded, dict):
        return False
    known = {path for path in present if path in recorded or "__pycache__" not in path.split("/")}
    return {path: present[path] for path in known} == recorded
