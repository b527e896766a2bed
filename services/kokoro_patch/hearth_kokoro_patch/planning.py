"""What is to be done to an upstream folder: decided first, shown, and then done whole."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hearth_kokoro_patch import files, record
from hearth_kokoro_patch.player import fall_back, node_reads
from hearth_kokoro_patch.record import Entry, Record, digest
from hearth_kokoro_patch.source import (
    ALL,
    PatchError,
    Source,
    known,
    mark,
    marked,
    must_compile,
    ordered,
)
from hearth_kokoro_patch.source import read as read_source
from hearth_kokoro_patch.streaming import split_by_sentence, yield_between_segments
from hearth_kokoro_patch.syntax import parse
from hearth_kokoro_patch.threads import compute_in_engines_thread, compute_in_thread

State = Literal["applied", "partly", "none"]

ENGINE = "api/src/inference/kokoro_v1.py"
SERVICE = "api/src/services/tts_service.py"
PLAYER = "web/src/services/AudioService.js"
FILES = {
    ENGINE: frozenset({"sentences", "yielding", "threads"}),
    SERVICE: frozenset({"yielding", "threads"}),
    PLAYER: frozenset({"player"}),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One file: what stands there, what will, and what stood there before any patch."""

    name: str
    before: bytes
    after: bytes
    original: bytes

    @property
    def differs(self) -> bool:
        """Whether there is something to write."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Plan:
    """A patch that was thought through, and has changed nothing yet.

    Attributes:
        folder: The root of the upstream checkout.
        steps: What the folder will have, in the order in which people read it.
        changes: Every file that was looked at, also those that stay.
        unchecked: JavaScript that will change and that no `node` was here to read.
        forgets: Whether every file will be as it came, and a record lies there that then goes.
    """

    folder: Path
    steps: tuple[str, ...]
    changes: tuple[Change, ...]
    unchecked: tuple[str, ...]
    record: Record
    forgets: bool

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that `apply` will write."""
        return tuple(change.name for change in self.changes if change.differs)

    def diff(self) -> str:
        """Return what `apply` will do, as `patch -p1` and people read it; empty for nothing."""
        return "".join(_diff(change) for change in self.changes if change.differs)

    def apply(self) -> None:
        """Do it: all files or none. Killed anywhere, the next plan goes on from there.

        Raises:
            PatchError: a file changed meanwhile, or cannot be written.
        """
        for change in self.changes:
            if files.read(self.folder, change.name) != change.before:
                raise PatchError(f"{self.folder / change.name}: changed just now: run this again")
            files.sweep(self.folder, change.name)
        if not self.files and not self.forgets:
            return
        kept = Record(self.folder, self._entries())
        try:
            # The way back is there before anything changes.
            kept.write({change.name: change.original for change in self.changes})
        except OSError as error:
            raise PatchError(
                f"{error.filename or self.folder}: {error.strerror}: nothing was changed; run this "
                "as the folder's owner"
            ) from None
        files.replace_all(self.folder, {c.name: c.after for c in self.changes if c.differs})
        if self.forgets:
            kept.remove()

    def _entries(self) -> dict[str, Entry]:
        entries = {}
        for change in self.changes:
            original, now = digest(change.original), digest(change.after)
            old = self.record.entries.get(change.name)
            # A killed run leaves files of the last patch beside files of this one.
            made = old.made if old and old.original == original else frozenset()
            made |= {now} - {original}
            if made:
                entries[change.name] = Entry(original, now, made)
        return entries


def plan(folder: Path, steps: frozenset[str] = ALL) -> Plan:
    """Decide what it takes that a folder has exactly these steps; read only.

    Steps that are there and were not requested are taken back; what upstream has by itself stays.

    Args:
        folder: Root of a checkout or unpacked archive of Kokoro-FastAPI.
        steps: Names out of `ALL`; none of them takes everything back.

    Raises:
        PatchError: a file is missing or has a form that is not known; nothing was changed.
    """
    steps = known(steps)
    root = folder.resolve()
    if not root.is_dir():
        raise PatchError(f"{folder}: is not a folder: name the one that holds upstream's `api`")
    known_here = record.read(root)
    changes = []
    for name, possible in FILES.items():
        wanted = possible & steps
        if not wanted and name not in known_here.entries:
            continue
        before = files.read(root, name)
        if before is None:
            raise _missing(root, name, wanted)
        original = _original(known_here, name, before, wanted)
        after = edited(name, original, wanted)
        changes.append(Change(name, before, after, original))
    ours = [(c.name, c.after) for c in changes if c.differs and c.after != c.original]
    pristine = all(change.after == change.original for change in changes)
    forgets = pristine and (root / record.FOLDER).is_dir()
    return Plan(root, ordered(steps), tuple(changes), unchecked(ours), known_here, forgets)


def take_back(folder: Path) -> tuple[str, ...]:
    """Restore every original, byte for byte, and remove the record of the patch.

    Returns:
        The names of the files that changed; none for a folder that was not patched.

    Raises:
        PatchError: an original is lost, or a file was edited since; nothing was changed.
    """
    back = plan(folder, frozenset())
    back.apply()
    return back.files


def state(folder: Path) -> State:
    """Return whether a folder is patched: wholly, partly (a killed run), or not at all.

    Raises:
        PatchError: its record cannot be read.
    """
    root = folder.resolve()
    known_here = record.read(root)
    contents = {name: files.read(root, name) for name in known_here.entries or FILES}
    if not known_here.entries:
        # The files were copied without their record, into an image perhaps; their marks remain.
        ours = [name for name, content in contents.items() if content and marked(content)]
        return "applied" if ours else "none"
    if not any(content and marked(content) for content in contents.values()):
        return "none"
    there = [contents[name] for name in known_here.entries]
    goals = [entry.now for entry in known_here.entries.values()]
    return "applied" if goals == [digest(content or b"") for content in there] else "partly"


def _original(known_here: Record, name: str, before: bytes, wanted: frozenset[str]) -> bytes:
    """Return what a file was before any patch of ours.

    Raises:
        PatchError: it has our mark, and its original is lost.
    """
    steps = marked(before)
    entry = known_here.entries.get(name)
    if steps is None:
        # Never patched, or replaced by an update: this is the original now.
        return before
    if entry is not None and digest(before) in entry.made:
        return known_here.original(name)
    path = known_here.folder / name
    if entry is not None:
        raise PatchError(
            f"{path}: was changed after it was patched: undo that change, or put the file of its "
            "release there"
        )
    if steps == wanted:
        return before
    raise PatchError(
        f"{path}: is patched ({', '.join(ordered(steps))}), and {record.FOLDER} with its original "
        "is not here: put the file of its release there"
    )


def _missing(root: Path, name: str, wanted: frozenset[str]) -> PatchError:
    path = root / name
    if not wanted:
        return PatchError(f"{path}: is missing: put the file of its release there")
    if not (root / "api" / "src").is_dir():
        return PatchError(f"{root}: holds no Kokoro-FastAPI: {name} is missing")
    if name.startswith("web/"):
        return PatchError(f"{path}: is not there: use `--without player` if you have no web player")
    return PatchError(f"{path}: is not there; releases before v0.2.0 have none and are not known")


def _diff(change: Change) -> str:
    """Return one file's part of the diff."""
    before, after = (
        re.findall(r"[^\n]*\n|[^\n]+", read_source(change.name, content).text)
        for content in (change.before, change.after)
    )
    lines = difflib.unified_diff(before, after, f"a/{change.name}", f"b/{change.name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def edited(name: str, original: bytes, steps: frozenset[str]) -> bytes:
    """Return a file with these steps; the same bytes where it has them already.

    Raises:
        PatchError: its form is not known.
    """
    if not steps or marked(original):
        return original
    source = read_source(name, original)
    text = fall_back(source) if name == PLAYER else _edit_python(source, steps)
    if text == source.text:
        return original
    content = source.encode(mark(source, text, steps))
    if name != PLAYER:
        must_compile(name, content)
    return content


def _edit_python(source: Source, steps: frozenset[str]) -> str:
    module = parse(source)
    if "sentences" in steps:
        module = split_by_sentence(source, module)
    if "yielding" in steps:
        module = yield_between_segments(source, module)
    if "threads" in steps:
        move = compute_in_thread if source.path == ENGINE else compute_in_engines_thread
        module = move(source, module)
    return module.code


def unchecked(contents: Iterable[tuple[str, bytes]]) -> tuple[str, ...]:
    """Check every JavaScript file with node, and return those that were not checked, without node.

    Raises:
        PatchError: node refuses one.
    """
    return tuple(
        name for name, content in contents if name.endswith(".js") and not node_reads(name, content)
    )
