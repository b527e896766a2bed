"""Write a tar's entries below one folder, and nothing anywhere else.

Python's own extraction filters came with 3.11.4 and Debian 12 has 3.11.2; later ones changed what
they accept and warn when none is named. So this one check serves on every version alike, and an
entry is written by what stands here.
"""

import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO


def untar(stream: IO[bytes], packing: str, folder: Path) -> None:
    """Unpack a tar packed as `packing` ("" or "gz", "xz", "bz2") into the empty `folder`.

    Whether a file may run is all that is kept of its mode; owners and times are not.

    Raises:
        tarfile.TarError: an entry that leads out of `folder`, a device, or damage.
    """
    with tarfile.open(fileobj=stream, mode=f"r|{packing}") as tar:  # type: ignore[call-overload]
        for entry in tar:
            _write(tar, entry, folder)


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    place = _place(folder, entry.name, entry.name)
    if _is_folder(place):
        if not entry.isdir():
            raise tarfile.ExtractError(f"{entry.name!r} stands where a folder is")
    elif entry.isdir():
        _fresh(place)
        place.mkdir()
    elif entry.isreg():
        _fresh(place)
        with place.open("xb") as target, tar.extractfile(entry) as content:  # type: ignore[union-attr]
            shutil.copyfileobj(content, target)
            # Never setuid, setgid or sticky, and nobody else may write.
            os.fchmod(target.fileno(), 0o755 if entry.mode & 0o111 else 0o644)
    elif entry.issym():
        _demand_inside(folder, place, entry)
        _fresh(place)
        place.symlink_to(entry.linkname)
    elif entry.islnk():
        source = _place(folder, entry.linkname, entry.name)
        if not _is_file(source):
            raise tarfile.ExtractError(f"{entry.name!r} is a hard link to no file of the archive")
        if source != place:
            _fresh(place)
            os.link(source, place, follow_symlinks=False)
    else:
        raise tarfile.ExtractError(f"{entry.name!r} is a device or a pipe")


def _place(folder: Path, path: str, name: str) -> Path:
    """Where a path of the archive lies; the folders above it are made, and none is a link."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise tarfile.ExtractError(f"{name!r} leads out of the folder")
    place = folder
    for part in parts[:-1]:
        place /= part
        # What is written through a link may land anywhere.
        if place.is_symlink():
            raise tarfile.ExtractError(f"{name!r} leads through a link")
        if not place.exists():
            place.mkdir()
        elif not place.is_dir():
            raise tarfile.ExtractError(f"{name!r} stands below a file")
    return place / parts[-1] if parts else folder


def _demand_inside(folder: Path, place: Path, entry: tarfile.TarInfo) -> None:
    """Refuse a link that could lead out, whatever stands in the archive after it.

    `..` may only stand first: behind the name of another link it would lead from where that link
    leads, not from where it lies. The link's own folder is real, so that counting is enough.
    """
    parts = PurePosixPath(entry.linkname).parts
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(place.relative_to(folder).parts) - 1
    known = bool(entry.linkname) and "\0" not in entry.linkname
    if not known or entry.linkname.startswith("/") or up > depth or ".." in parts[up:]:
        raise tarfile.ExtractError(f"{entry.name!r} is a link that leads out of the folder")


def _fresh(place: Path) -> None:
    """Make room: of two entries with one name the later counts, as with every tar."""
    place.unlink(missing_ok=True)


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _is_file(place: Path) -> bool:
    return place.is_file() and not place.is_symlink()
