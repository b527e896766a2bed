"""Unpack an archive whose digest is verified, and keep it from writing anywhere else."""

import contextlib
import hashlib
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from hearth.sources.errors import SourceError
from hearth.sources.programs import Installed, install
from hearth.sources.untar import untar

TARS = {".tar": "", ".tar.gz": "gz", ".tgz": "gz", ".tar.xz": "xz", ".tar.bz2": "bz2"}
ZSTD = (".tar.zst", ".tzst")
# A wheel is a zip with its parts where Python looks for them.
ZIPS = (".zip", ".whl")


def install_archive(
    archive: Path, programs_folder: Path, name: str, digest: str, *, write: bool = True
) -> Installed:
    """Make PROGRAMS/NAME/current the contents of `archive`, whose verified sha256 is `digest`.

    Raises:
        SourceError: a kind that is not known, or an entry that leads out of the folder, is a
            device or cannot be read; what was installed before stays.
    """

    def fill(folder: Path, _lock: int) -> None:
        # Whoever called has verified it; whoever forgot to would install anything at all.
        if sha256_of(archive) != digest:
            raise SourceError(
                f"{name}: {archive} is not {digest}: remove the file and fetch it anew"
            )
        unpack(archive, folder, name)

    return install(programs_folder, name, digest, fill, write=write)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}: put the file there or name another") from None


def unpack(archive: Path, folder: Path, name: str) -> None:
    """Unpack a known kind of archive into the empty `folder`; what may run still may, owners go.

    Raises:
        SourceError: of the program `name`: a kind that is not known, or one that is damaged.
    """
    try:
        _unpack(archive, folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        words = " ".join(str(error).split())
        raise SourceError(
            f"{name}: {archive} is refused or damaged ({words}): nothing was installed; "
            "fetch it anew or name another version"
        ) from None


def _unpack(archive: Path, folder: Path) -> None:
    kind = archive.name.lower()
    if kind.endswith(ZIPS):
        _unzip(archive, folder)
    elif kind.endswith(ZSTD):
        with _zstd(archive) as stream:
            untar(stream, "", folder)
    elif suffix := next((end for end in TARS if kind.endswith(end)), None):
        with archive.open("rb") as stream:
            untar(stream, TARS[suffix], folder)
    else:
        known = ", ".join([*TARS, *ZSTD, *ZIPS])
        raise SourceError(f"{archive}: not a known kind of archive: it must be one of {known}")


@contextlib.contextmanager
def _zstd(archive: Path) -> Iterator[IO[bytes]]:
    """The unpacked stream out of Debian's zstd, which works beside us on another core."""
    program = shutil.which("zstd")
    if program is None:
        raise SourceError(f"{archive}: zstd is not installed: run `apt install zstd`")
    command = [program, "--decompress", "--stdout", "--quiet", "--long=31", "--", str(archive)]
    with subprocess.Popen(  # noqa: S603 - fixed words and our own path, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - both are pipes
        assert process.stderr is not None  # noqa: S101
        try:
            yield process.stdout
            # Tar may end before its stream does; only at the very end does zstd check its sums.
            while process.stdout.read(1 << 20):
                pass
        except tarfile.TarError:
            process.stdout.close()
            complaint = _last_line(process.stderr.read())
            # When zstd broke off, its reason says more than tar's.
            if process.wait(timeout=30) > 0 and complaint:
                raise tarfile.ReadError(complaint) from None
            raise
        finally:
            process.stdout.close()
        complaint = _last_line(process.stderr.read())
        if process.wait(timeout=30) != 0:
            raise tarfile.ReadError(complaint or "zstd failed")


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            path = PurePosixPath(entry.filename)
            if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
                raise zipfile.BadZipFile(f"{entry.filename!r} leads out of the folder")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise zipfile.BadZipFile(f"{entry.filename!r} is a link or a device")
            # It reads to the end, and so checks each entry's sum.
            written = Path(opened.extract(entry, folder))
            if written.is_file():
                written.chmod(0o755 if mode & 0o111 else 0o644)
