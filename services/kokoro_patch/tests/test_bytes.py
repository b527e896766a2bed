"""Line ends, byte order marks and encodings are kept; a kill leaves no partial change."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth_kokoro_patch import ALL, PatchError, Plan, plan, planning, state, take_back
from hearth_kokoro_patch.planning import edited
from hearth_kokoro_patch.record import FOLDER, digest

from .conftest import NAMES, Release, contents

ENGINE, SERVICE, PLAYER = NAMES.values()


def crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def latin(content: bytes) -> bytes:
    return b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + content


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "lines as on Windows": crlf,
    "a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "both": lambda content: b"\xef\xbb\xbf" + crlf(content),
    "no final newline": lambda content: content.rstrip(b"\n"),
    "characters of many scripts": lambda content: content.replace(b"made", "gemächt 生".encode()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", ["v0.2.1", "v0.8"])
def test_other_line_ends_and_characters_are_kept(release: Release, shape: str, form: str) -> None:
    folder = release(shape)
    for name in NAMES.values():
        (folder / name).write_bytes(FORMS[form]((folder / name).read_bytes()))
    before = contents(folder)
    first = plan(folder)
    assert SERVICE in first.files
    assert first.diff().endswith("\n")
    first.apply()
    for name in first.files:
        content = (folder / name).read_bytes()
        assert content.startswith(b"\xef\xbb\xbf") == before[name].startswith(b"\xef\xbb\xbf")
        if b"\r" in before[name]:
            assert content.count(b"\r\n") == content.count(b"\n"), name
        if name.endswith(".py"):
            compile(content, name, "exec", dont_inherit=True)
    assert plan(folder).files == ()
    take_back(folder)
    assert contents(folder) == before


def test_an_encoding_cookie_is_respected(release: Release) -> None:
    folder = release("v0.8")
    (folder / ENGINE).write_bytes(latin((folder / ENGINE).read_bytes()))
    before = contents(folder)
    plan(folder).apply()
    assert b"# caf\xe9\n" in (folder / ENGINE).read_bytes()
    take_back(folder)
    assert contents(folder) == before


# What Python does before a file or a folder changes; a kill may come before each of them.
WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown"}


def killed(before: int, work: Callable[[], object]) -> bool:
    """Run work in a process that dies before its nth change; return whether it finished earlier."""
    child = os.fork()
    if child == 0:
        left = before

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            opened = event == "open" and isinstance(arguments[1], str) and arguments[1] != "r"
            if event in WRITES or (opened and set("wxa+") & set(str(arguments[1]))):
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(hook)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def whole(folder: Path, original: dict[str, bytes], patched: dict[str, bytes]) -> None:
    for name in NAMES.values():
        assert (folder / name).read_bytes() in (original[name], patched[name])


@pytest.fixture
def planned_quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compute each edit only once: the kill comes while they are written."""
    monkeypatch.setattr(planning, "edited", functools.cache(edited))
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("planned_quickly")
def test_the_next_run_repairs_a_kill_at_any_point(release: Release) -> None:
    folder = release("v0.2.1")
    original = contents(folder)
    plan(folder).apply()
    patched = contents(folder)
    take_back(folder)
    seen = set()
    for number in range(200):
        finished = killed(number, plan(folder).apply)
        seen.add(state(folder))
        whole(folder, original, patched)
        plan(folder).apply()
        assert contents(folder) == patched, f"killed before change {number}"
        assert state(folder) == "applied"
        if finished:
            break
        killed_back(folder, number, original, patched)
    assert seen == {"none", "partly", "applied"}


@pytest.mark.usefixtures("planned_quickly")
def test_the_next_run_repairs_a_kill_during_a_change_of_steps(release: Release) -> None:
    folder = release("v0.2.1")
    original = contents(folder)
    for number in range(200):
        plan(folder, frozenset({"yielding"})).apply()
        finished = killed(number, plan(folder, ALL - {"yielding"}).apply)
        if number % 2:
            take_back(folder)
            assert contents(folder) == original
        if finished:
            break


def killed_back(
    folder: Path, number: int, original: dict[str, bytes], patched: dict[str, bytes]
) -> None:
    killed(number, lambda: take_back(folder))
    whole(folder, original, patched)
    assert state(folder) in ("none", "partly", "applied")
    take_back(folder)
    assert contents(folder) == original


def test_a_write_error_leaves_everything_unchanged(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = release("v0.2.1")
    before = contents(folder)
    rename, calls = Path.replace, []

    def full(self: Path, target: Path) -> Path:
        if self.name.endswith(".hearth-new"):
            calls.append(self)
            if len(calls) == 3:
                raise OSError(28, "No space left on device", str(target))
        return rename(self, target)

    wanted: Plan = plan(folder)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(PatchError, match=r"AudioService\.js: No space left on device: nothing was"):
        wanted.apply()
    monkeypatch.undo()
    left = contents(folder)
    assert {n: c for n, c in left.items() if not n.startswith(".hearth-patch/")} == before
    assert state(folder) == "none"
    take_back(folder)
    assert contents(folder) == before


@pytest.mark.parametrize("call", ["fsync", "chown"])
def test_a_full_disk_leaves_no_temporary_files(
    release: Release, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder = release("v0.8")
    wanted = plan(folder)
    before = contents(folder)
    plan(folder).apply()
    take_back(folder)

    def full(*words: object) -> None:
        raise OSError(28, "No space left on device")

    # The owner is kept.
    monkeypatch.setattr(os, "getuid", lambda: -1)
    monkeypatch.setattr(os, call, full)
    with pytest.raises(PatchError, match="No space left on device: nothing was changed"):
        wanted.apply()
    left = contents(folder)
    assert {n for n in left if n.endswith((".new", ".hearth-new", ".hearth-old"))} == set()
    assert {n: c for n, c in left.items() if not n.startswith(".hearth-patch/")} == before


def test_a_half_written_original_is_not_used(release: Release) -> None:
    folder = release("v0.8")
    before = contents(folder)
    kept = folder / FOLDER / digest(before[ENGINE])
    kept.parent.mkdir()
    kept.write_bytes(before[ENGINE][:100])
    plan(folder).apply()
    take_back(folder)
    assert contents(folder) == before


def test_links_in_the_record_of_a_checkout_are_rejected(release: Release, tmp_path: Path) -> None:
    folder = release("v0.8")
    victim = tmp_path / "passwd"
    victim.write_text("root")
    home = folder / FOLDER
    home.mkdir()
    (home / ".gitignore").symlink_to(victim)
    with pytest.raises(PatchError, match=r"\.hearth-patch/\.gitignore: is not a regular file"):
        plan(folder)
    (home / ".gitignore").unlink()
    wanted = plan(folder)
    # The checkout's owner is quicker.
    (home / ".gitignore").symlink_to(victim)
    with pytest.raises(PatchError, match="is not a regular file"):
        wanted.apply()
    assert victim.read_text() == "root"
