"""What was changed in a sandbox, against the original, as the machine sees both file systems.

Both trees belong to programs that may be hostile. No link is followed: every step opens one name in
an open folder. The number of files, the bytes and the time are bounded, and what is left out for
one of these reasons is said.

Only entries that changed after the sandbox was ready are compared (the kernel sets that time, and
nobody in a sandbox can), so what its own start did, or the original since, is not shown.
"""

import contextlib
import difflib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hearth.machine.engine import bounded
from hearth.render.units import CREDENTIALS_FOLDER
from hearth.sandbox import SandboxError
from hearth.sandbox.lifecycle import find_sandbox, root_of

Kind = Literal["added", "changed", "removed"]

MOST_CHANGES, MOST_ENTRIES, WITHIN_S = 500, 300_000, 20.0
_DEPTH = 100
_TEXT_BYTES, _TEXT_LINES, _ALL_TEXT_BYTES = 64 * 1024, 2000, 48 * 1024
_COMPARED_BYTES = 64 << 20
# What systems write by themselves. `with_data` volumes and programs are other file systems.
LEFT_OUT = frozenset(
    (
        *("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp", "/var/log", "/var/cache"),  # noqa: S108
        *("/var/lib/systemd", "/root/.cache", CREDENTIALS_FOLDER),
    )
)
_NEVER = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Change:
    """One file or folder that differs; `text` is a unified diff of small text files, or empty."""

    kind: Kind
    path: str
    detail: str
    text: str = ""


@dataclass(slots=True)
class Difference:
    """All changes, in the order of their paths; `left_out` says what was not compared, and why."""

    changes: list[Change] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Since:
    """When the original was copied and when the sandbox was ready, in nanoseconds."""

    made: int
    ready: int


class _EnoughError(Exception):
    """A limit is reached."""


def compare_sandbox(name: str) -> Difference:
    """Return what was changed in a sandbox since it was ready, against the original now.

    Raises:
        SandboxError: there is no such sandbox, or the machine cannot read its files.
    """
    sandbox = find_sandbox(name, running=False)
    if not sandbox.service:
        raise SandboxError(f"{name} was created empty: there is no original to compare with")
    roots = root_of(sandbox.service), root_of(name)
    since = Since(int(sandbox.made * 1e9), int(sandbox.ready * 1e9))
    found: Difference = bounded(name, lambda: compare_trees(*roots, since), WITHIN_S + 5)
    return found


def compare_trees(original: Path, changed: Path, since: Since) -> Difference:
    """Compare two roots."""
    with contextlib.ExitStack() as opened:
        old, new = (_open_root(opened, root) for root in (original, changed))
        walk = _Walk(old, new, since)
        with contextlib.suppress(_EnoughError):
            walk.folder(old, new, "", 0)
    return walk.found


def _open_root(opened: contextlib.ExitStack, root: Path) -> int:
    try:
        handle = os.open(root, _NEVER | os.O_DIRECTORY)
    except OSError as error:
        raise SandboxError(f"{root}: {error.strerror}: run this as root") from None
    opened.callback(os.close, handle)
    return handle


class _Walk:
    """Compares two trees, folder by folder, until a limit is reached."""

    def __init__(self, original: int, changed: int, since: Since) -> None:
        # Without mounts that map owners, each instance has its own range of them on the disk.
        self._bases = {which: os.fstat(which).st_uid for which in (original, changed)}
        self._original, self._changed = original, changed
        self._devices = os.fstat(original).st_dev, os.fstat(changed).st_dev
        self._since = since
        self._deadline = time.monotonic() + WITHIN_S
        self._entries = self._text_bytes = self._compared = 0
        self.found = Difference()

    def folder(self, old: int | None, new: int, path: str, depth: int) -> None:
        """Compare one folder; `old` is None where the original has no such folder."""
        if depth > _DEPTH:
            self._leave_out(f"{path}: more than {_DEPTH} folders deep")
            return
        before = self._stats(old) if old is not None else {}
        now = self._stats(new)
        for name in sorted({*before, *now}):
            place = f"{path}/{_shown(name)}"
            if f"{path}/{name}" in LEFT_OUT:
                continue
            if name not in now:
                if before[name].st_ctime_ns < self._since.made:
                    self._note("removed", place, _kind(before[name]))
                continue
            self._entry(old, new, name, place, depth, before.get(name), now[name])

    def _entry(
        self,
        old: int | None,
        new: int,
        name: str,
        place: str,
        depth: int,
        before: os.stat_result | None,
        now: os.stat_result,
    ) -> None:
        if now.st_dev != self._devices[1]:
            return
        is_folder = stat.S_ISDIR(now.st_mode)
        same_kind = before is not None and stat.S_IFMT(before.st_mode) == stat.S_IFMT(now.st_mode)
        if now.st_ctime_ns > self._since.ready:
            self._compare(old, new, name, place, before, now)
        if is_folder:
            with contextlib.ExitStack() as opened:
                inner = self._open(opened, new, name)
                outer = self._open(opened, old, name) if same_kind and old is not None else None
                if inner is not None:
                    self.folder(outer, inner, place, depth + 1)

    def _open(self, opened: contextlib.ExitStack, parent: int, name: str) -> int | None:
        # It may be gone, or be a link by now.
        with contextlib.suppress(OSError):
            handle = os.open(name, _NEVER | os.O_DIRECTORY, dir_fd=parent)
            opened.callback(os.close, handle)
            return handle
        return None

    def _stats(self, folder: int) -> dict[str, os.stat_result]:
        found = {}
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > MOST_ENTRIES:
                    self._stop(f"more than {MOST_ENTRIES} files")
                if time.monotonic() > self._deadline:
                    self._stop(f"it takes longer than {WITHIN_S:g} s")
                with contextlib.suppress(OSError):
                    found[entry.name] = entry.stat(follow_symlinks=False)
        return found

    def _compare(
        self,
        old: int | None,
        new: int,
        name: str,
        place: str,
        before: os.stat_result | None,
        now: os.stat_result,
    ) -> None:
        if before is None or old is None:
            text = self._diff(None, self._text(new, name, now), place)
            self._note("added", place, _kind(now), text)
            return
        details = []
        if stat.S_IFMT(before.st_mode) != stat.S_IFMT(now.st_mode):
            details.append(f"{_kind(before)} became {_kind(now)}")
        elif stat.S_IMODE(before.st_mode) != stat.S_IMODE(now.st_mode):
            details.append(f"mode {stat.S_IMODE(before.st_mode):o} → {stat.S_IMODE(now.st_mode):o}")
        owners = self._owner(before, self._original), self._owner(now, self._changed)
        if owners[0] != owners[1]:
            details.append(f"owner {owners[0]} → {owners[1]}")
        text = ""
        if self._differs(old, new, name, before, now):
            details.append("content")
            small = self._text(old, name, before), self._text(new, name, now)
            text = self._diff(*small, place) if None not in small else ""
        if details:
            self._note("changed", place, ", ".join(details), text)

    def _owner(self, seen: os.stat_result, root: int) -> str:
        base = self._bases[root]
        return f"{seen.st_uid - base}:{seen.st_gid - base}"

    def _differs(
        self, old: int, new: int, name: str, before: os.stat_result, now: os.stat_result
    ) -> bool:
        if stat.S_ISLNK(now.st_mode) and stat.S_ISLNK(before.st_mode):
            with contextlib.suppress(OSError):
                return os.readlink(name, dir_fd=old) != os.readlink(name, dir_fd=new)
        if not (stat.S_ISREG(now.st_mode) and stat.S_ISREG(before.st_mode)):
            return False
        if now.st_size != before.st_size:
            return True
        self._compared += now.st_size
        if self._compared > _COMPARED_BYTES:
            self._leave_out(f"contents of equal length, after {_COMPARED_BYTES >> 20} MiB")
            return True
        pieces = zip(_pieces(old, name), _pieces(new, name), strict=False)
        return any(one != other for one, other in pieces)

    def _text(self, folder: int, name: str, seen: os.stat_result) -> str | None:
        """Return the text of a small file; None of all others."""
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _TEXT_BYTES:
            return None
        data = b"".join(_pieces(folder, name))
        if b"\0" in data or len(data) > _TEXT_BYTES:
            return None
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode()
        return None

    def _diff(self, old: str | None, new: str | None, place: str) -> str:
        if new is None or self._text_bytes > _ALL_TEXT_BYTES:
            return ""
        before = (old or "").splitlines(keepends=True)
        after = new.splitlines(keepends=True)
        # Of long texts that differ everywhere, difflib takes minutes.
        if max(len(before), len(after)) > _TEXT_LINES:
            return ""
        names = "/dev/null" if old is None else f"a{place}", f"b{place}"
        lines = difflib.unified_diff(before, after, *names, n=2)
        text = "".join(f"{_shown(line)}\n" for line in lines)
        text = text.encode()[: _ALL_TEXT_BYTES // 3].decode(errors="ignore")
        self._text_bytes += len(text.encode())
        if self._text_bytes > _ALL_TEXT_BYTES:
            self._leave_out(f"texts after {_ALL_TEXT_BYTES >> 10} KiB of differences")
        return text

    def _note(self, kind: Kind, place: str, detail: str, text: str = "") -> None:
        if len(self.found.changes) >= MOST_CHANGES:
            self._stop(f"more than {MOST_CHANGES} changes")
        self.found.changes.append(Change(kind, place, detail, text))

    def _leave_out(self, what: str) -> None:
        if what not in self.found.left_out and len(self.found.left_out) < 20:
            self.found.left_out.append(what)

    def _stop(self, why: str) -> None:
        self._leave_out(f"the rest: {why}")
        raise _EnoughError


def _pieces(folder: int, name: str) -> Iterator[bytes]:
    """Yield the content of a regular file, as far as a text or a comparison needs it."""
    try:
        handle = os.open(name, _NEVER, dir_fd=folder)
    except OSError:
        return
    with os.fdopen(handle, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return
        left = _COMPARED_BYTES
        while left > 0 and (piece := stream.read(min(left, 1 << 18))):
            left -= len(piece)
            yield piece


def _kind(seen: os.stat_result) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(seen.st_mode), "special file")
    return f"{kind}, {seen.st_size} bytes" if kind == "file" else kind


def _shown(line: str) -> str:
    """Return a file's name or a line of it in characters that a terminal prints."""
    plain = line.rstrip("\n").encode("utf-8", "replace").decode()
    return "".join(x if x.isprintable() or x == "\t" else "?" for x in plain)
