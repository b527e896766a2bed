"""Install releases, plain files, patched programs, pipelines, and locked Python packages.

An intact installation is not fetched again. A running program is never changed in place: another
source, another patch or a new version of the patch has another digest, and so a fresh folder. The
previous folder stays, byte for byte.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Source
from hearth.catalogue.naming import suggest
from hearth.progress import report
from hearth.sources import SourceError, Store, file_name
from hearth.sources.lock import fetch_once, known
from hearth.sources.programs import Installed, install
from hearth.sources.unpack import sha256_of, unpack_archive

# Of a folder: Git's own files, and what Python makes beside its source.
_LEFT_OUT = re.compile(r"\.git|__pycache__|.*\.pyc|.*\.egg-info")
# Increase this when a change is carried out otherwise than before.
_CHANGE_VERSION = 1
# Fits Debian 12 (glibc 2.36) and 13.
GLIBC = "manylinux_2_36"
BUILD_LIMIT_S = 1800
# Increase this when a Python program is built otherwise than before.
_BUILD_VERSION = 4
_PYTHON_VERSION = re.compile(r"3\.\d{1,2}")


@dataclass(frozen=True, slots=True)
class Change:
    """A change to an unpacked program before it runs.

    `apply` gets its folder and raises SourceError if it does not recognise the program.
    `digest` covers everything that determines what `apply` does. `links` are paths in the folder,
    each with a target below PROGRAMS: another program's files, which are then stored only once.
    """

    apply: Callable[[Path], None] = lambda folder: None
    digest: str = ""
    links: Mapping[str, str] = field(default_factory=dict)

    def digest_with(self, origin: str | None) -> str | None:
        """Return the sha256 of all that the folder depends on; `origin` is the archive's."""
        if origin is None:
            return None
        lines = [f"{_CHANGE_VERSION} {origin} {self.digest}"]
        lines += [f"{path} -> {target}" for path, target in sorted(self.links.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def install_release(
    store: Store, source: Source, name: str, change: Change | None = None, *, write: bool = True
) -> Installed:
    """Fetch, verify, record, unpack and perhaps change one archive.

    With `write` false nothing is fetched. Of a changed archive with a single folder, as GitHub's
    are, that folder's contents are used.

    Raises:
        SourceError: it cannot be fetched, an entry leads out of the folder, or the change does not
            recognise it; the installed version stays.
    """
    source = _with_digest(store, source, write)

    def fill(folder: Path, _lock: int) -> None:
        archive = fetch_once(store, source).path
        report(source.name, "unpacking")
        unpack_archive(archive, folder, name)
        if change is not None:
            _lift(folder)
            change.apply(folder)
            _link(folder, name, change.links)

    digest = change.digest_with(source.sha256) if change is not None else source.sha256
    return install(store.programs, name, digest, fill, write=write)


def install_plain(
    store: Store, files: Mapping[str, Source], name: str, *, write: bool = True
) -> Installed:
    """Fetch, verify, record and install files as they are, in one folder, under their names.

    With `write` false nothing is fetched. Our own downloads are moved in rather than copied, so
    that hundreds of megabytes are not stored twice; a mirror's file stays where it is.
    """
    wanted = {file: _with_digest(store, source, write) for file, source in files.items()}
    digests = {file: source.sha256 for file, source in wanted.items() if source.sha256}
    digest = _digest_of(digests) if len(digests) == len(wanted) else None

    def fill(folder: Path, _lock: int) -> None:
        for file, source in wanted.items():
            path, target = fetch_once(store, source).path, folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            ours = path == store.downloads / file_name(source)
            if not (ours and _linked(path, target)):
                shutil.copyfile(path, target)

    installed = install(store.programs, name, digest, fill, write=write)
    # Last, so that a killed run leaves nothing to fetch again.
    for source in wanted.values() if write else ():
        (store.downloads / file_name(source)).unlink(missing_ok=True)
    return installed


def _with_digest(store: Store, source: Source, write: bool) -> Source:
    """Return the source with its digest; an unknown one is fetched and recorded with `write`."""
    source = known(store.inventory, source)
    if source.sha256 is None and write:
        source = replace(source, sha256=fetch_once(store, source).sha256)
    return source


def install_folder(
    origin: Path, programs: Path, name: str, change: Change, *, write: bool = True
) -> Installed:
    """Copy and change a folder of this machine; the folder itself stays as it is."""
    digest = folder_digest(origin)

    def fill(folder: Path, _lock: int) -> None:
        copy_folder(origin, folder, name)
        # The copy counts: a person may work in the folder meanwhile.
        if folder_digest(folder) != digest:
            raise SourceError(f"{name}: {origin} is not {digest}: it changed; run this again")
        change.apply(folder)
        _link(folder, name, change.links)

    return install(programs, name, change.digest_with(digest), fill, write=write)


def install_pipelines(
    files: Mapping[str, Path],
    valves: Mapping[str, Mapping[str, Any]],
    without: Sequence[str],
    programs: Path,
    name: str,
    *,
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current a folder of these pipelines (name to file) with their valves.

    Upstream's server writes NAME/valves.json beside each file, and ends where it cannot; so these
    files are there from the start.

    Raises:
        SourceError: `valves` or `without` name an unknown pipeline.
    """
    for variable, named in (("pipelines_valves", valves), ("pipelines_without", without)):
        for one in named:
            if one not in files:
                raise SourceError(f"{variable} names no pipeline {one}: {suggest(one, files)}")
    contents: dict[str, bytes] = {}
    for one, path in files.items():
        if one not in without:
            contents[f"{one}.py"] = path.read_bytes()
            contents[f"{one}/valves.json"] = _valves(one, valves.get(one, {}))
    digests = {path: hashlib.sha256(text).hexdigest() for path, text in contents.items()}

    def fill(folder: Path, _lock: int) -> None:
        for path, text in contents.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(text)

    return install(programs, name, _digest_of(digests), fill, write=write)


def install_python(
    requirements: Path,
    packages: Sequence[Path],
    programs: Path,
    name: str,
    python_version: str,
    *,
    uv: str | Path = "uv",
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current importable: the locked `requirements` and our `packages`.

    It goes into PYTHONPATH of Python `python_version` ("3.13") of an instance. Only wheels with
    the hashes in `requirements` are used. `packages` are the importable folders themselves.

    Raises:
        SourceError: uv's error, in one line; the version before stays.
    """
    digest = python_digest(requirements, packages, python_version)

    def fill(folder: Path, lock: int) -> None:
        _install_wheels(folder, requirements, name, python_version, uv, lock)
        for package in packages:
            if (folder / package.name).exists():
                raise SourceError(f"{name}: a package of {requirements} is called {package.name}")
            copy_folder(package, folder / package.name, name)
        _compile(folder, python_version, lock)

    return install(programs, name, digest, fill, write=write)


def python_digest(requirements: Path, packages: Sequence[Path], python_version: str) -> str:
    """Return the sha256 of everything that the built folder depends on."""
    if not _PYTHON_VERSION.fullmatch(python_version):
        raise SourceError(f"python {python_version!r}: write a version such as 3.13")
    lines = [f"{_BUILD_VERSION} {_target_platform()} {python_version}", sha256_of(requirements)]
    for package in packages:
        if not package.is_dir():
            raise SourceError(f"{package}: this folder of our own program is missing: put it back")
        lines.append(f"{package.name} {folder_digest(package)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _target_platform() -> str:
    return f"{platform.machine()}-{GLIBC}"


def _install_wheels(
    folder: Path, requirements: Path, name: str, python_version: str, uv: str | Path, lock: int
) -> None:
    command = [
        *(str(uv), "pip", "install", "--quiet", "--no-progress", "--target", str(folder)),
        *("--python-version", python_version, "--python-platform", _target_platform()),
        # A hard link into uv's cache would change with whatever changes here.
        *("--link-mode", "copy", "--require-hashes", "--only-binary", ":all:"),
        # The lock is complete, and leaves out on purpose what a library only declares as needed.
        "--no-deps",
        # The machine's trust store (for an office's proxy, say) applies here, too.
        *("--no-python-downloads", "--system-certs"),
        *("-r", str(requirements)),
    ]
    wheels = sum(line[:1].isalnum() for line in requirements.read_text().splitlines())
    report(name, f"uv downloads and installs {wheels} packages")
    try:
        done = _run(command, lock)
    except FileNotFoundError:
        raise SourceError(f"{name}: {uv} is missing: run scripts/up, which installs uv") from None
    except subprocess.TimeoutExpired:
        raise SourceError(
            f"{name}: uv did not end within {BUILD_LIMIT_S} s: check that the package index "
            "answers, then run this again"
        ) from None
    if done.returncode != 0:
        # uv draws arrows and lines around its messages.
        words = " ".join(done.stderr.encode("ascii", "replace").decode().replace("?", " ").split())
        raise SourceError(
            f"{name}: uv cannot install {requirements}: {words[-600:] or 'no reason'}"
        )
    (folder / ".lock").unlink(missing_ok=True)


def _compile(folder: Path, python_version: str, lock: int) -> None:
    """Write byte code when this machine has the same Python; instances cannot write it."""
    python = Path(f"/usr/bin/python{python_version}")
    if not python.exists():
        return
    report(folder.parent.name, "compiling its Python files")
    # Packages contain templates and tests that do not compile; nothing imports those.
    command = [str(python), "-I", "-m", "compileall", "-q", "-j", "0"]
    # The folder is replaced as a whole, so neither times nor its present name belong in the code.
    command += ["--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(folder), "-p", f"/opt/hearth/{folder.parent.name}/current"]
    _run([*command, str(folder)], lock)


def _run(argv: list[str], lock: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - fixed words and our own paths, no shell
        argv,
        check=False,
        timeout=BUILD_LIMIT_S,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        pass_fds=(lock,),
    )


def folder_digest(folder: Path) -> str:
    """Return the sha256 of a folder's files: their paths, executable bits and contents."""
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder: name another, or an archive")
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(_LEFT_OUT.fullmatch(part) for part in inside.parts):
            continue
        total.update(f"{inside}\0".encode())
        if path.is_symlink():
            total.update(f"link {os.readlink(path)}\0".encode())
        elif path.is_file():
            kind = "program" if path.stat().st_mode & 0o111 else "file"
            total.update(f"{kind} {sha256_of(path)}\0".encode())
    return total.hexdigest()


def copy_folder(origin: Path, folder: Path, name: str) -> None:
    """Copy what `folder_digest` covers into `folder`, for the program `name`."""

    def left_out(_folder: str, names: list[str]) -> set[str]:
        return {one for one in names if _LEFT_OUT.fullmatch(one)}

    try:
        shutil.copytree(origin, folder, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    except shutil.Error as error:
        path, _, reason = error.args[0][0]
        raise SourceError(
            f"{name}: {path} cannot be copied ({reason}): make room, or remove from {origin} what "
            "is not a file"
        ) from None


def _digest_of(files: Mapping[str, str]) -> str:
    """Return the digest of a folder of files (name to sha256)."""
    lines = "".join(f"{name} {sha256}\n" for name, sha256 in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _linked(file: Path, target: Path) -> bool:
    """Give the file a second name on the same disk; false where that is not possible."""
    try:
        os.link(file, target)
    except OSError:
        return False
    # Another owner's file, or one with a third name, would change with it.
    if os.stat(target).st_nlink == 2 and not file.is_symlink():
        return True
    target.unlink()
    return False


def _lift(folder: Path) -> None:
    """Move up the contents of an archive's folder, where it is the only entry."""
    inside = list(folder.iterdir())
    if len(inside) != 1 or not inside[0].is_dir() or inside[0].is_symlink():
        return
    # Under another name first: an entry in it may have the folder's name.
    top = inside[0].rename(folder / ".build-top")
    for path in list(top.iterdir()):
        path.rename(folder / path.name)
    top.rmdir()


def _link(folder: Path, name: str, links: Mapping[str, str]) -> None:
    for path, target in links.items():
        place = folder / path
        # A person's folder may hold a link: the target of that is not ours to change.
        own = place.parent.resolve().is_relative_to(folder.resolve())
        if not own or not place.parent.is_dir() or (place.is_dir() and not place.is_symlink()):
            raise SourceError(f"{name}: it has no room for {path}: this release is not known here")
        place.unlink(missing_ok=True)
        # Relative: PROGRAMS has the same layout on the machine and in an instance.
        up = "../" * (len(Path(path).parts) + 1)
        place.symlink_to(f"{up}{target}")


def _valves(name: str, given: object) -> bytes:
    if not isinstance(given, Mapping):
        raise SourceError(f"pipelines_valves {name} must be a mapping of valves to values")
    try:
        return json.dumps(given, sort_keys=True).encode()
    except TypeError as error:
        raise SourceError(f"pipelines_valves {name}: {error}: write text or a number") from None
