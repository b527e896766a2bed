"""Install releases, plain files, programs with a patch of ours, and the inventory's pipelines.

An intact installation is not fetched again. A running program is never changed in place: another
source, another patch or a new version of the patch has another digest, and so a fresh folder. The
previous folder stays, byte for byte.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth.catalogue.naming import suggest
from hearth.sources.lock import fetch_once, known
from hearth.sources.programs import MANIFEST, Installed, install, is_installed, settled
from hearth.sources.source import Source, SourceError
from hearth.sources.unpack import sha256_of, unpack

# Git's own files, and Python's byte code.
LEFT_OUT = frozenset({".git", "__pycache__"})
# Increase these when the steps below change in a way that their inputs do not show.
_CHANGE_VERSION, _PIPELINES_VERSION = 1, 1


@dataclass(frozen=True, slots=True)
class Plain:
    """One verified file, and its name in the folder, which may have a folder before it.

    A file that is `ours` is moved in rather than copied, so that hundreds of megabytes are not
    stored twice; any other stays where it is.
    """

    path: Path
    sha256: str
    name: str
    ours: bool = False


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

    def digest_with(self, origin: str) -> str:
        """Return the sha256 of all that the folder depends on; `origin` is the archive's."""
        lines = [f"{_CHANGE_VERSION} {origin} {self.digest}"]
        lines += [f"{path} -> {target}" for path, target in sorted(self.links.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def install_release(
    inventory: Path,
    source: Source,
    name: str,
    downloads: Path,
    programs_folder: Path,
    mirrors: Mapping[str, str],
    change: Change | None = None,
    *,
    write: bool = True,
) -> Installed:
    """Fetch, verify, record, unpack and perhaps change one archive.

    With `write` false nothing is fetched.

    Raises:
        SourceError: it cannot be fetched, or the change does not recognise it; the installed
            version stays.
    """
    source = known(inventory, source)
    digest = source.sha256 or ""
    if digest and change is not None:
        digest = change.digest_with(digest)
    is_there = bool(digest) and is_installed(programs_folder, name, digest)
    if found := settled(programs_folder, name, digest, is_there=is_there, write=write):
        return found
    fetched = fetch_once(inventory, source, downloads, mirrors)
    if change is not None:
        return install_changed(fetched.path, fetched.sha256, programs_folder, name, change)
    return install_archive(fetched.path, programs_folder, name, fetched.sha256)


def install_plain(
    inventory: Path,
    files: Mapping[str, Source],
    name: str,
    downloads: Path,
    programs_folder: Path,
    mirrors: Mapping[str, str],
    *,
    write: bool = True,
) -> Installed:
    """Fetch, verify, record and install files as they are, in one folder, under their names.

    With `write` false nothing is fetched.
    """
    wanted = {file: known(inventory, source) for file, source in files.items()}
    digests = {file: source.sha256 for file, source in wanted.items() if source.sha256}
    digest = _digest_of(digests) if len(digests) == len(wanted) else ""
    place = programs_folder / name / digest
    is_there = bool(digest) and is_installed(programs_folder, name, digest)
    is_there = is_there and all((place / file).is_file() for file in digests)
    if found := settled(programs_folder, name, digest, is_there=is_there, write=write):
        return found
    fetched = {
        file: fetch_once(inventory, source, downloads, mirrors) for file, source in wanted.items()
    }
    plain = [
        # A file outside our own folder belongs to a mirror, and stays.
        Plain(one.path, one.sha256, file, ours=one.path.parent == downloads)
        for file, one in fetched.items()
    ]
    return install_files(plain, programs_folder, name)


def install_archive(
    archive: Path, programs_folder: Path, name: str, digest: str, *, write: bool = True
) -> Installed:
    """Make PROGRAMS/NAME/current the contents of `archive`, whose verified sha256 is `digest`.

    Raises:
        SourceError: an unknown kind of archive, or an entry that leads out of the folder, is a
            device or cannot be read; the version before stays.
    """

    def fill(folder: Path, _lock: int) -> None:
        _expect(archive, digest, name)
        unpack(archive, folder, name)

    return install(programs_folder, name, digest, fill, write=write)


def install_files(files: Sequence[Plain], programs_folder: Path, name: str) -> Installed:
    """Make PROGRAMS/NAME/current a folder of these files.

    A killed run leaves nothing half installed, and nothing to fetch again.

    Raises:
        SourceError: a file is not its digest, or cannot be put there; the version before stays.
    """

    def fill(folder: Path, _lock: int) -> None:
        for file in files:
            _expect(file.path, file.sha256, name)
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            if not (file.ours and _linked(file.path, folder / file.name)):
                shutil.copyfile(file.path, folder / file.name)

    digest = _digest_of({file.name: file.sha256 for file in files})
    place = programs_folder / name / digest
    if place.is_dir() and not all((place / file.name).is_file() for file in files):
        # The same bytes under another name: without its record the folder is rebuilt.
        (place / MANIFEST).unlink(missing_ok=True)
    installed = install(programs_folder, name, digest, fill)
    for file in files:
        if file.ours:
            file.path.unlink(missing_ok=True)
    return installed


def install_changed(
    origin: Path,
    sha256: str,
    programs_folder: Path,
    name: str,
    change: Change,
    *,
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current the contents of `origin`, changed.

    `origin` is an archive with this sha256, or a folder with this `folder_digest`. Of an archive
    with a single folder, as GitHub's are, that folder's contents are used.

    Raises:
        SourceError: its digest differs or it cannot be changed; the version before stays.
    """

    def fill(folder: Path, _lock: int) -> None:
        if origin.is_dir():
            _copy(origin, folder, name)
            # The copy counts: a person may work in the folder meanwhile.
            if folder_digest(folder) != sha256:
                raise SourceError(f"{name}: {origin} is not {sha256}: it changed; run this again")
        else:
            _expect(origin, sha256, name)
            unpack(origin, folder, name)
            _lift(folder)
        change.apply(folder)
        _link(folder, name, change.links)

    return install(programs_folder, name, change.digest_with(sha256), fill, write=write)


def install_folder(
    folder: Path, programs_folder: Path, name: str, change: Change, *, write: bool = True
) -> Installed:
    """Copy and change a folder of this machine; the folder itself stays as it is."""
    digest = folder_digest(folder)
    return install_changed(folder, digest, programs_folder, name, change, write=write)


def install_pipelines(
    files: Mapping[str, Path],
    valves: Mapping[str, Mapping[str, Any]],
    without: Sequence[str],
    programs_folder: Path,
    name: str,
    *,
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current a folder of these pipelines (name to file) with their valves.

    Upstream's server writes NAME/valves.json beside each file, and ends where it cannot; so these
    files are there from the start.

    Raises:
        SourceError: `valves` or `without` name an unknown pipeline, or a file changes meanwhile.
    """
    for variable, named in (("pipelines_valves", valves), ("pipelines_without", without)):
        for one in named:
            if one not in files:
                raise SourceError(f"{variable} names no pipeline {one}: {suggest(one, files)}")
    chosen = {one: path for one, path in files.items() if one not in without}
    texts = {one: _valves(one, valves.get(one, {})) for one in chosen}
    digests = {one: sha256_of(path) for one, path in chosen.items()}
    lines = [f"{one} {digests[one]} {texts[one]}" for one in sorted(chosen)]
    digest = hashlib.sha256("\n".join([str(_PIPELINES_VERSION), *lines]).encode()).hexdigest()

    def fill(folder: Path, _lock: int) -> None:
        for one, path in chosen.items():
            target = folder / f"{one}.py"
            shutil.copyfile(path, target)
            # The copy counts: a person may edit the file meanwhile.
            if sha256_of(target) != digests[one]:
                raise SourceError(f"{path} changed meanwhile: run this again")
            (folder / one).mkdir()
            (folder / one / "valves.json").write_text(texts[one], encoding="utf-8")

    return install(programs_folder, name, digest, fill, write=write)


def folder_digest(folder: Path) -> str:
    """Return the sha256 of a folder's files: their paths, executable bits and contents."""
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


def _expect(file: Path, sha256: str, name: str) -> None:
    # Callers verify first; one that forgot to would install any content.
    if sha256_of(file) != sha256:
        raise SourceError(f"{name}: {file} is not {sha256}: remove the file and fetch it again")


def _digest_of(files: Mapping[str, str]) -> str:
    """Return the digest of a folder of files (name to sha256); of one file it is the file's own."""
    if len(files) == 1:
        return next(iter(files.values()))
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


def _entries(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if not LEFT_OUT & set(path.relative_to(folder).parts):
            yield path


def _copy(origin: Path, folder: Path, name: str) -> None:
    def left_out(_folder: str, names: list[str]) -> set[str]:
        return set(names) & LEFT_OUT

    try:
        shutil.copytree(origin, folder, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    except shutil.Error as error:
        path, _, reason = error.args[0][0]
        raise SourceError(
            f"{name}: {path} cannot be copied ({reason}): make room, or remove from {origin} what "
            "is not a file"
        ) from None


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


def _valves(name: str, given: object) -> str:
    if not isinstance(given, Mapping):
        raise SourceError(f"pipelines_valves {name} must be a mapping of valves to values")
    try:
        return json.dumps(given, sort_keys=True)
    except TypeError as error:
        raise SourceError(f"pipelines_valves {name}: {error}: write text or a number") from None
