"""Copies upstream's files out of a container, and the patched files back into it.

It uses the command lines of Podman, Docker and Incus with the caller's rights.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hearth_kokoro_patch.planning import FILES, Plan
from hearth_kokoro_patch.record import FOLDER
from hearth_kokoro_patch.source import PatchError

Engine = Literal["podman", "docker", "incus"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
# The folder in upstream's own images.
ROOT = "/app"
_CALL_S = 120
# The engines' messages for a missing path; every other message is a failure.
_ABSENT = ("no such file", "could not find", "not found", "does not exist")


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
        return f"{self.engine} restart {self.name}"

    def copy_out(self, folder: Path) -> None:
        """Copy the files that the patch changes, and its record, if they exist.

        Raises:
            PatchError: the engine failed, other than for a missing file.
        """
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            self._fetch(name, folder / name)
        self._fetch(FOLDER, folder)

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
            self._drop_record()

    def _fetch(self, name: str, target: Path) -> None:
        there = f"{self.root}/{name}"
        if self.engine == "incus":
            done = _call("incus", "file", "pull", "-r", f"{self.name}{there}", str(target))
        else:
            done = _call(self.engine, "cp", f"{self.name}:{there}", str(target))
        if done.returncode and not any(word in done.stderr.lower() for word in _ABSENT):
            raise _failed(self.engine, done)

    def _bring(self, name: str, content: bytes) -> None:
        there = f"{self.root}/{name}"
        with tempfile.TemporaryDirectory(prefix="hearth-") as scratch:
            sent, seen = Path(scratch, "sent"), Path(scratch, "seen")
            # Written over the fetched file, so that its mode is kept.
            self._fetch(name, sent)
            # The container controls this file: a link could point to any file on this machine.
            if sent.is_symlink() or not sent.is_file():
                raise PatchError(f"{self.name}:{there}: is no longer a file: nothing was written")
            sent.write_bytes(content)
            if self.engine == "incus":
                owner = _must("incus", "exec", self.name, "--", "stat", "-c", "%u %g %a", there)
                how = zip(("--uid", "--gid", "--mode"), owner.split(), strict=True)
                flags = [word for pair in how for word in pair]
                _must("incus", "file", "push", *flags, str(sent), f"{self.name}{there}")
            else:
                # With -a Podman gives it to the container's own user, whose upstream's files are;
                # Docker gives it the caller's number.
                _must(self.engine, "cp", "-a", str(sent), f"{self.name}:{there}")
            self._fetch(name, seen)
            if not _holds(seen, content):
                raise PatchError(f"{self.name}:{there}: was not copied correctly: try again")

    def _bring_record(self, kept: Path) -> None:
        if self.engine == "incus":
            _must("incus", "file", "push", "-r", str(kept), f"{self.name}{self.root}/")
        else:
            _must(self.engine, "cp", "-a", str(kept), f"{self.name}:{self.root}/")
        with tempfile.TemporaryDirectory(prefix="hearth-") as scratch:
            self._fetch(FOLDER, Path(scratch))
            seen = Path(scratch, FOLDER)
            if not all(_holds(seen / path.name, path.read_bytes()) for path in kept.iterdir()):
                raise PatchError(f"{self.name}:{self.root}/{FOLDER}: was not copied: try again")

    def _drop_record(self) -> None:
        # Where nothing runs it stays; without patched files it means nothing.
        words = ["--"] if self.engine == "incus" else []
        user = [] if self.engine == "incus" else ["--user", "0"]
        target = f"{self.root}/{FOLDER}"
        _call(self.engine, "exec", *user, self.name, *words, "rm", "-rf", target)


def find(name: str, engine: Engine | None = None, root: str = ROOT) -> Container:
    """Return the container of this name, whichever engine has it.

    Raises:
        PatchError: none of the engines here has it, or two have.
    """
    requested = [engine] if engine else [known for known in ENGINES if shutil.which(known)]
    if not requested:
        raise PatchError("this machine has no podman, docker or incus: use --path DIR instead")
    root = root.rstrip("/")
    having: list[Container] = []
    reasons = []
    for known in requested:
        done = _call(*_look(known, name))
        if done.returncode == 0:
            having.append(Container(known, name, root, _mounted(root, done.stdout)))
        else:
            reasons.append(str(_failed(known, done)))
    if not having:
        raise PatchError(f"no container {name!r}: {'; '.join(reasons)}")
    if len(having) > 1:
        names = " and ".join(there.engine for there in having)
        raise PatchError(f"{names} both have a {name!r}: choose with --engine NAME")
    return having[0]


def _mounted(root: str, inspected: str) -> str | None:
    """Return which of the patched files are mounted from outside the container."""
    try:
        mounts = json.loads(inspected)
    except ValueError:
        # Incus prints another format, and mounts no checkout by itself.
        return None
    for mount in mounts or ():
        where = str(mount.get("Destination")).rstrip("/")
        holds = any(f"{root}/{name}/".startswith(f"{where}/") for name in FILES)
        if mount.get("Type") == "bind" and where.startswith(f"{root}/") and holds:
            return f"{where} is mounted from {mount.get('Source')}"
    return None


def _look(engine: Engine, name: str) -> list[str]:
    if engine == "incus":
        return ["incus", "info", name]
    return [engine, "container", "inspect", "--format", "{{json .Mounts}}", name]


def _holds(path: Path, content: bytes) -> bool:
    return not path.is_symlink() and path.is_file() and path.read_bytes() == content


def _must(*words: str) -> str:
    """Call an engine and return its output; raise PatchError with its message when it fails."""
    done = _call(*words)
    if done.returncode:
        raise _failed(words[0], done)
    return done.stdout


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - each word is one argument, no shell reads them
            words,
            # `incus exec` would read the terminal's input away from us.
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_CALL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PatchError(f"{' '.join(words[:3])}: {error}") from None


def _failed(engine: str, done: subprocess.CompletedProcess[str]) -> PatchError:
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return PatchError(f"{engine}: {lines[-1].removeprefix('Error: ')}")
