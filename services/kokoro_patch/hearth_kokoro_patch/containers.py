"""Copies upstream's files out of a container, and the patched files back into it.

What reaches the container is handed in: `hearth` has one interface to Podman, Docker and Incus.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hearth_kokoro_patch.planning import FILES, Plan
from hearth_kokoro_patch.record import FOLDER
from hearth_kokoro_patch.source import PatchError

# The folder in upstream's own images.
ROOT = "/app"
_CALL_S = 120


class Engine(Protocol):
    """The part of an engine that is needed here; its errors are lines for people."""

    name: str

    @property
    def errors(self) -> type[Exception]:
        """The type of all its errors."""

    @property
    def missing(self) -> type[Exception]:
        """The type of the error for a path that is not there, one of `errors`."""

    def mounts(self, name: str) -> Mapping[str, str]:
        """Return the folders of the machine in a container, by their paths in it."""

    def pull(self, name: str, path: str) -> bytes:
        """Return a file or folder of a container as a tar file."""

    def push(self, name: str, folder: str, archive: bytes) -> None:
        """Unpack a tar file below a folder of a container, with owners and modes."""

    def execute(self, name: str, argv: Sequence[str], *, timeout: float) -> Any:
        """Run a command in a container that runs."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container, and the folder in it that holds upstream's `api`.

    Attributes:
        mounted: A description of a mount from a checkout. The originals would be stored in the
            container's own layer, and be lost before the checkout.
    """

    engine: Engine
    name: str
    root: str = ROOT
    mounted: str | None = None

    @property
    def restart(self) -> str:
        """The command after which the program runs the new files."""
        return f"{self.engine.name} restart {self.name}"

    def copy_out(self, folder: Path) -> None:
        """Copy the files that the patch changes, and its record, if they exist.

        Raises:
            PatchError: the engine failed, other than for a missing file.
        """
        for name in (*FILES, FOLDER):
            if (archive := self._fetch(name)) is not None:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                _unpack(archive, (folder / name).parent)

    def copy_in(self, plan: Plan) -> None:
        """Copy the record and each changed file into the container, and verify them.

        The record comes first, because a restore needs it; if it fails, nothing else is copied.

        Raises:
            PatchError: a copy failed; the files that were already copied were restored.
        """
        changed = [change for change in plan.changes if change.differs]
        kept = plan.folder / FOLDER
        if kept.is_dir():
            self._bring_record(kept)
        try:
            for change in changed:
                self._bring(change.name, change.after)
        except PatchError:
            for change in changed:
                # The same failure may occur here; the record is in the container in any case.
                with contextlib.suppress(PatchError):
                    self._bring(change.name, change.before)
            raise
        if not kept.is_dir():
            # Where nothing runs it stays; without patched files it means nothing.
            argv = ["rm", "-rf", f"{self.root}/{FOLDER}"]
            with contextlib.suppress(self.engine.errors):
                self.engine.execute(self.name, argv, timeout=_CALL_S)

    def _fetch(self, name: str) -> bytes | None:
        """Return a file or folder as a tar file, None without one."""
        try:
            return self.engine.pull(self.name, f"{self.root}/{name}")
        except self.engine.missing:
            return None
        except self.engine.errors as error:
            raise PatchError(f"{self.engine.name}: {error}") from None

    def _push(self, folder: str, archive: bytes) -> None:
        try:
            self.engine.push(self.name, folder, archive)
        except self.engine.errors as error:
            raise PatchError(f"{self.engine.name}: {error}") from None

    def _bring(self, name: str, content: bytes) -> None:
        there, folder = f"{self.root}/{name}", f"{self.root}/{name}".rpartition("/")[0]
        entry = _only_entry(self._fetch(name))
        # The container controls this file: a link could point to any file.
        if entry is None or not entry.isreg():
            raise PatchError(f"{self.name}:{there}: is no longer a file: nothing was written")
        # With the fetched file's owner and mode.
        self._push(folder, _packed({entry.name: content}, entry))
        if _content(self._fetch(name)) != content:
            raise PatchError(f"{self.name}:{there}: was not copied correctly: try again")

    def _bring_record(self, kept: Path) -> None:
        files = {f"{FOLDER}/{path.name}": path.read_bytes() for path in sorted(kept.iterdir())}
        # It belongs to the owner of the folder, as upstream's files do.
        owner = _only_entry(self._fetch(next(iter(FILES))))
        self._push(self.root, _packed(files, owner, folder=FOLDER))
        seen = _contents(self._fetch(FOLDER))
        if any(seen.get(name) != content for name, content in files.items()):
            raise PatchError(f"{self.name}:{self.root}/{FOLDER}: was not copied: try again")


def find(name: str, engines: Iterable[Engine], root: str = ROOT) -> Container:
    """Return the container of this name, whichever of the engines has it.

    Raises:
        PatchError: none of them has it, or two have.
    """
    having: list[Container] = []
    reasons = []
    root = root.rstrip("/")
    for engine in engines:
        try:
            mounts = engine.mounts(name)
        except engine.errors as error:
            reasons.append(f"{engine.name}: {error}")
        else:
            having.append(Container(engine, name, root, _mounted(root, mounts)))
    if not (having or reasons):
        raise PatchError("no podman, docker or incus answers on this machine: use --path DIR")
    if not having:
        raise PatchError(f"no container {name!r}: {'; '.join(reasons)}")
    if len(having) > 1:
        names = " and ".join(there.engine.name for there in having)
        raise PatchError(f"{names} both have a {name!r}: choose with --engine NAME")
    return having[0]


def _mounted(root: str, mounts: Mapping[str, str]) -> str | None:
    """Return which of the patched files are mounted from outside the container."""
    for there, source in mounts.items():
        where = there.rstrip("/")
        holds = any(f"{root}/{name}/".startswith(f"{where}/") for name in FILES)
        if where.startswith(f"{root}/") and holds:
            return f"{where} is mounted from {source}"
    return None


def _packed(
    files: Mapping[str, bytes], like: tarfile.TarInfo | None, folder: str | None = None
) -> bytes:
    """Return a tar file of these files, with the owner of another entry."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in ([(folder, b"")] if folder else []) + [*files.items()]:
            entry = tarfile.TarInfo(name)
            entry.mode = like.mode if like and not folder else 0o644
            entry.uid, entry.gid = (like.uid, like.gid) if like else (0, 0)
            if name == folder:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _unpack(archive: bytes, folder: Path) -> None:
    """Unpack what a container sent; nothing of it may reach outside the folder."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for entry in packed:
            target = folder / entry.name
            if not target.parent.resolve().is_relative_to(folder.resolve()):
                raise PatchError(f"{entry.name}: is outside its folder: nothing was changed")
            if entry.isdir():
                target.mkdir(exist_ok=True)
            elif entry.issym():
                # A link goes as a link: whoever reads it next refuses it.
                target.symlink_to(entry.linkname)
            elif content := packed.extractfile(entry):
                target.write_bytes(content.read())


def _contents(archive: bytes | None) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive or _packed({}, None))) as packed:
        for entry in packed:
            if entry.isreg() and (content := packed.extractfile(entry)):
                found[entry.name] = content.read()
    return found


def _content(archive: bytes | None) -> bytes | None:
    return next(iter(_contents(archive).values()), None)


def _only_entry(archive: bytes | None) -> tarfile.TarInfo | None:
    if archive is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        return packed.next()
