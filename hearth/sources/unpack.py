"""Unpack an archive below one folder, and write nothing anywhere else.

Python's own extraction filters came with 3.11.4; Debian 12 has 3.11.2 (docs/decisions/035).
"""

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from hearth.sources import SourceError

TARS = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
ZSTD = (".tar.zst", ".tzst")
# A wheel is a zip whose parts lie where Python looks for them.
ZIPS = (".zip", ".whl")


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}: put the file there or name another") from None


def unpack_archive(archive: Path, folder: Path, name: str) -> None:
    """Unpack a known kind of archive into the empty `folder`.

    Of a file's mode only the executable bit is kept; owners and times are not.

    Raises:
        SourceError: of the program `name`: an unknown kind of archive, a damaged one, or one with
            an entry that leads out of `folder` or is a device.
    """
    kind = archive.name.lower()
    try:
        if kind.endswith(ZIPS):
            _unzip(archive, folder)
        elif kind.endswith((*TARS, *ZSTD)):
            opened = _zstd(archive) if kind.endswith(ZSTD) else archive.open("rb")
            with opened as stream, tarfile.open(fileobj=stream, mode="r|*") as tar:
                for entry in tar:
                    _write(tar, entry, folder)
        else:
            known = ", ".join([*TARS, *ZSTD, *ZIPS])
            raise SourceError(f"{archive}: not a known kind of archive: it must be one of {known}")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        words = " ".join(str(error).split())
        raise SourceError(
            f"{name}: {archive} is refused or damaged ({words}): nothing was installed; "
            "fetch it again or name another version"
        ) from None


@contextlib.contextmanager
def _zstd(archive: Path) -> Iterator[IO[bytes]]:
    """Yield the unpacked stream of Debian's zstd, which runs in parallel on another core."""
    program = shutil.which("zstd")
    if program is None:
        raise SourceError(f"{archive}: zstd is not installed: run `apt install zstd`")
    command = [program, "--decompress", "--stdout", "--quiet", "--long=31", "--", str(archive)]
    with subprocess.Popen(  # noqa: S603 - fixed words and our own path, no shell
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None  # noqa: S101 - both are pipes
        assert process.stderr is not None  # noqa: S101
        try:
            yield process.stdout
            # Tar may end before its stream; zstd verifies its checksum only at the end.
            while process.stdout.read(1 << 20):
                pass
            if process.wait(timeout=30) < 0:
                raise tarfile.ReadError("zstd was killed")
        finally:
            process.stdout.close()
            lines = process.stderr.read().decode(errors="replace").strip().splitlines()
            # When zstd failed, its error explains more than tar's.
            if process.wait(timeout=30) > 0:
                raise tarfile.ReadError(lines[-1].strip() if lines else "zstd failed")


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            path = PurePosixPath(entry.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
                raise zipfile.BadZipFile(f"{entry.filename!r} leads out of the folder")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise zipfile.BadZipFile(f"{entry.filename!r} is a link or a device")
            # It reads to the end, and so verifies each entry's checksum.
            written = Path(opened.extract(entry, folder))
            if written.is_file():
                written.chmod(0o755 if mode & 0o111 else 0o644)


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    place = _place(folder, entry.name, entry.name)
    if place.is_dir() and not place.is_symlink():
        if not entry.isdir():
            raise tarfile.ExtractError(f"{entry.name!r} is in the place of a folder")
        return
    source = _place(folder, entry.linkname, entry.name) if entry.islnk() else None
    if source is not None and (source.is_symlink() or not source.is_file()):
        raise tarfile.ExtractError(f"{entry.name!r} is a hard link to no file of the archive")
    if source == place:
        return
    if entry.issym():
        _demand_inside(folder, place, entry)
    elif not (source or entry.isdir() or entry.isreg()):
        raise tarfile.ExtractError(f"{entry.name!r} is a device or a pipe")
    # Of two entries with one name the later one counts, as with every tar.
    place.unlink(missing_ok=True)
    if source is not None:
        os.link(source, place, follow_symlinks=False)
    elif entry.issym():
        place.symlink_to(entry.linkname)
    elif entry.isdir():
        place.mkdir()
    else:
        with place.open("xb") as target, tar.extractfile(entry) as content:  # type: ignore[union-attr]
            shutil.copyfileobj(content, target)
            # Never setuid, setgid or sticky, and writable for the owner alone.
            os.fchmod(target.fileno(), 0o755 if entry.mode & 0o111 else 0o644)


def _place(folder: Path, path: str, name: str) -> Path:
    """Return the place of an archive's path; folders above it are made, and none is a link."""
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise tarfile.ExtractError(f"{name!r} leads out of the folder")
    place = folder
    for part in parts[:-1]:
        place /= part
        # Writing through a link could reach any folder.
        if place.is_symlink():
            raise tarfile.ExtractError(f"{name!r} leads through a link")
        if not place.exists():
            place.mkdir()
        elif not place.is_dir():
            raise tarfile.ExtractError(f"{name!r} lies below a file")
    return place / parts[-1] if parts else folder


def _demand_inside(folder: Path, place: Path, entry: tarfile.TarInfo) -> None:
    """Refuse a link that could lead out, whatever follows it in the archive.

    `..` may only come first: after the name of another link it starts at that link's target, not
    at its place. The link's own folder is real, so counting is enough.
    """
    parts = PurePosixPath(entry.linkname).parts
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(place.relative_to(folder).parts) - 1
    known = bool(entry.linkname) and "\0" not in entry.linkname
    if not known or entry.linkname.startswith("/") or up > depth or ".." in parts[up:]:
        raise tarfile.ExtractError(f"{entry.name!r} is a link that leads out of the folder")
