"""Install somebody else's program with a change of ours: unpacked, changed, switched by one link.

What runs is never changed where it lies. Another source, another change or a change of the change
is another digest, and therefore a fresh folder; the one before stays, byte for byte, as the way
back.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearth.sources.archive import sha256_of, unpack
from hearth.sources.errors import SourceError
from hearth.sources.programs import Installed, install

# What git keeps for itself, and what Python leaves behind.
LEFT_OUT = frozenset({".git", "__pycache__"})
# Raised when the steps below change in a way that their inputs do not show.
_BUILD_VERSION = 1


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to an unpacked program before anybody runs it.

    `apply` gets its folder and raises SourceError where it does not know what it finds. `digest` is
    of all that decides what it does. `links` are paths in the folder, each with the path below
    PROGRAMS that it leads to: another program's files, which need not lie here twice.
    """

    apply: Callable[[Path], None] = lambda folder: None
    digest: str = ""
    links: Mapping[str, str] = field(default_factory=dict)


def changed_digest(origin: str, change: Change) -> str:
    """The sha256 of all that the built folder depends on; `origin` is that of the archive."""
    lines = [f"{_BUILD_VERSION} {origin} {change.digest}"]
    lines += [f"{path} -> {target}" for path, target in sorted(change.links.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def install_changed(
    origin: Path,
    sha256: str,
    programs_folder: Path,
    name: str,
    change: Change,
    *,
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current what `origin` holds, changed.

    `origin` is an archive with this sha256, or a folder with this `folder_digest`. Of an archive
    that holds one folder alone, as GitHub's do, that folder's contents are taken.

    Raises:
        SourceError: it is not its digest or cannot be changed; what was installed before stays.
    """

    def expect(found: str) -> None:
        if found != sha256:
            raise SourceError(f"{name}: {origin} is not {sha256}: it changed meanwhile; try again")

    def fill(folder: Path, _lock: int) -> None:
        if origin.is_dir():
            _copy(origin, folder, name)
            # What was copied counts: somebody may work in the folder meanwhile.
            expect(folder_digest(folder))
        else:
            # Whoever called has verified it; whoever forgot to would install anything at all.
            expect(sha256_of(origin))
            unpack(origin, folder, name)
            _lift(folder)
        change.apply(folder)
        _link(folder, name, change.links)

    digest = changed_digest(sha256, change)
    return install(programs_folder, name, digest, fill, write=write)


def folder_digest(folder: Path) -> str:
    """The sha256 of a folder's files: their paths, whether they may run, their contents."""
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder: name another, or an archive")
    total = hashlib.sha256()
    for path in sorted(_entries(folder)):
        total.update(f"{path.relative_to(folder)}\0".encode())
        if path.is_symlink():
            total.update(f"link {os.readlink(path)}\0".encode())
        elif path.is_file():
            kind = "program" if path.stat().st_mode & 0o111 else "file"
            total.update(f"{kind} {sha256_of(path)}\0".encode())
    return total.hexdigest()


def _entries(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if not LEFT_OUT & set(path.relative_to(folder).parts):
            yield path


def _copy(origin: Path, folder: Path, name: str) -> None:
    try:
        shutil.copytree(origin, folder, symlinks=True, dirs_exist_ok=True, ignore=_left_out)
    except shutil.Error as error:
        path, _, why = error.args[0][0]
        raise SourceError(
            f"{name}: {path} cannot be copied ({why}): make room, or take out of {origin} what is "
            "no file"
        ) from None


def _left_out(_folder: str, names: list[str]) -> set[str]:
    return set(names) & LEFT_OUT


def _lift(folder: Path) -> None:
    """Take the contents of the one folder that an archive holds, where it holds one alone."""
    inside = list(folder.iterdir())
    if len(inside) != 1 or not inside[0].is_dir() or inside[0].is_symlink():
        return
    # Under another name first: what lies in it may be called as it is.
    top = inside[0].rename(folder / ".build-top")
    for path in list(top.iterdir()):
        path.rename(folder / path.name)
    top.rmdir()


def _link(folder: Path, name: str, links: Mapping[str, str]) -> None:
    for path, target in links.items():
        place = folder / path
        # A folder of somebody's own may hold a link: what that leads to is not ours to change.
        own = place.parent.resolve().is_relative_to(folder.resolve())
        if not own or not place.parent.is_dir() or (place.is_dir() and not place.is_symlink()):
            raise SourceError(f"{name}: it has no room for {path}: this release is not known here")
        place.unlink(missing_ok=True)
        # Below PROGRAMS the way is the same on the machine and in an instance, so it is relative.
        up = "../" * (len(Path(path).parts) + 1)
        place.symlink_to(f"{up}{target}")
