"""Reads and replaces upstream's files: each one atomically, and all of them or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hearth_kokoro_patch.source import PatchError


def whole_path(folder: Path, name: str) -> Path:
    """Return the path of a file, after a check that it is inside the folder and not a link.

    Raises:
        PatchError: it is a link, not a file, or outside the folder.
    """
    path = folder / name
    if path.is_symlink():
        raise PatchError(f"{path}: is a link to {os.readlink(path)}: patch the folder it is in")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise PatchError(f"{path}: lies in {path.resolve().parent}: patch the folder it is in")
    if path.exists() and not path.is_file():
        raise PatchError(f"{path}: is not a file")
    return path


def read(folder: Path, name: str) -> bytes | None:
    """Return a file's content, `None` where there is no such file.

    Raises:
        PatchError: it is a link, or may not be read.
    """
    path = whole_path(folder, name)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PatchError(f"{path}: {error.strerror}: run this as its owner") from None


def replace_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace existing files and keep their modes and owners: all of them, or none.

    Everything is written and synchronised beside them first, so that only renames remain. A kill
    between two renames leaves both files whole, and the next run continues.

    Raises:
        PatchError: one of them could not be written; all are as they were.
    """
    staged: dict[Path, Path] = {}
    before: dict[Path, Path] = {}
    try:
        for name, content in contents.items():
            path = whole_path(folder, name)
            staged[path] = _beside(path, "new", content)
            before[path] = _beside(path, "old", path.read_bytes())
        done: list[Path] = []
        try:
            for path, fresh in staged.items():
                fresh.replace(path)
                done.append(path)
        except OSError:
            for path in done:
                before[path].replace(path)
            raise
        for path in staged:
            _sync(path.parent)
    except OSError as error:
        where = error.filename or folder
        raise PatchError(
            f"{where}: {error.strerror}: nothing was changed; run this as the files' owner, on a "
            "disk that can be written"
        ) from None
    finally:
        for beside in [*staged.values(), *before.values()]:
            beside.unlink(missing_ok=True)


def sweep(folder: Path, name: str) -> None:
    """Remove the files that a killed run left beside a file."""
    path = folder / name
    for kind in ("new", "old"):
        with contextlib.suppress(OSError):
            _named(path, kind).unlink()


def write_beside(path: Path, content: bytes) -> None:
    """Write a file of our own atomically."""
    fresh = path.with_name(f".{path.name}.new")
    with _gone_on_error(fresh):
        _write(fresh, content)
        fresh.replace(path)
    _sync(path.parent)


def _beside(path: Path, kind: str, content: bytes) -> Path:
    """Write a file beside another, with its mode and owner, and return its path."""
    beside = _named(path, kind)
    like = path.stat()
    with _gone_on_error(beside):
        _write(beside, content)
        # Before the mode, because a change of the owner clears some of its bits.
        if (like.st_uid, like.st_gid) != (os.getuid(), os.getgid()):
            os.chown(beside, like.st_uid, like.st_gid)
        beside.chmod(like.st_mode & 0o7777)
    return beside


@contextlib.contextmanager
def _gone_on_error(path: Path) -> Iterator[None]:
    """Remove a partly written file after an error, such as a full disk."""
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def _named(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.hearth-{kind}")


def _write(path: Path, content: bytes) -> None:
    # A file of a killed run may have another owner or be read-only; a new one is ours.
    path.unlink(missing_ok=True)
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
