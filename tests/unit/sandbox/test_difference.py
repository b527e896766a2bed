"""Changes in a sandbox are found, and nothing hostile in it leads out or takes for ever."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from hearth.sandbox import SandboxError, difference
from hearth.sandbox.difference import Change, Difference, Since, compare_trees

UNIT = "[Service]\nExecStart=/opt/hearth/kokoro\nUser=kokoro\n"


class Roots:
    """An original, and a copy that is changed."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = folder / "old", folder / "new"
        (self.old / "etc/systemd").mkdir(parents=True)
        (self.old / "etc/systemd/kokoro.service").write_text(UNIT)
        (self.old / "etc/motd").write_text("hello\n")
        (self.old / "etc/program").write_bytes(b"\0\1\2" * 100)
        (self.old / "etc/link").symlink_to("motd")
        (self.old / "var/log").mkdir(parents=True)
        self.made = tick()
        shutil.copytree(self.old, self.new, symlinks=True)
        self.ready = tick()

    def compare(self) -> Difference:
        return compare_trees(self.old, self.new, Since(self.made, self.ready))

    def changes(self) -> list[tuple[str, str]]:
        return [(one.kind, one.path) for one in self.compare().changes]


def tick() -> int:
    # The kernel's time of a file is that of its last tick.
    time.sleep(0.02)
    now = time.time_ns()
    time.sleep(0.02)
    return now


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return Roots(tmp_path)


def test_an_untouched_copy_has_no_changes(roots: Roots) -> None:
    assert roots.compare() == Difference()


def test_a_changed_text_is_shown_as_a_diff(roots: Roots) -> None:
    path = roots.new / "etc/systemd/kokoro.service"
    path.write_text(UNIT.replace("hearth/kokoro", "hearth/kokoro --port 8880"))
    (change,) = roots.compare().changes
    assert (change.kind, change.detail) == ("changed", "content")
    assert change.text.splitlines()[:2] == [
        "--- a/etc/systemd/kokoro.service",
        "+++ b/etc/systemd/kokoro.service",
    ]
    assert "-ExecStart=/opt/hearth/kokoro\n+ExecStart=/opt/hearth/kokoro --port 8880\n" in (
        change.text
    )


def test_what_was_added_removed_and_moved_is_named(roots: Roots) -> None:
    (roots.new / "etc/new").mkdir()
    (roots.new / "etc/new/a.conf").write_text("a = 1\n")
    (roots.new / "etc/motd").unlink()
    (roots.new / "etc/link").unlink()
    (roots.new / "etc/link").symlink_to("/etc/shadow")
    shutil.rmtree(roots.new / "etc/systemd")
    found = roots.compare().changes
    assert [(one.kind, one.path) for one in found] == [
        ("changed", "/etc/link"),
        ("removed", "/etc/motd"),
        ("added", "/etc/new"),
        ("added", "/etc/new/a.conf"),
        ("removed", "/etc/systemd"),
    ]
    assert "+a = 1" in found[3].text


def test_modes_owners_and_kinds_are_compared(roots: Roots) -> None:
    (roots.new / "etc/motd").chmod(0o4755)
    (roots.new / "etc/program").unlink()
    (roots.new / "etc/program").mkdir()
    details = {one.path: one.detail for one in roots.compare().changes}
    assert details == {
        "/etc/motd": "mode 644 → 4755",
        "/etc/program": "file, 300 bytes became folder",
    }
    if os.geteuid() == 0:
        os.chown(roots.new / "etc/link", 900, 901, follow_symlinks=False)
        details = {one.path: one.detail for one in roots.compare().changes}
        assert details["/etc/link"] == "owner 0:0 → 900:901"


def test_owners_count_from_each_roots_own_range(roots: Roots) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root changes owners")
    for path in (roots.new, *roots.new.rglob("*")):
        os.chown(path, 1_000_000, 1_000_000, follow_symlinks=False)
    assert roots.compare() == Difference()


def test_a_binary_and_a_large_text_are_named_without_their_content(roots: Roots) -> None:
    (roots.new / "etc/program").write_bytes(b"\0\1\3" * 100)
    (roots.new / "etc/motd").write_text("x" * 100 + "\n" * difference._TEXT_BYTES)
    assert [(one.path, one.text) for one in roots.compare().changes] == [
        ("/etc/motd", ""),
        ("/etc/program", ""),
    ]


def test_what_was_only_touched_or_what_the_original_changed_is_no_change(roots: Roots) -> None:
    (roots.new / "etc/motd").write_text("hello\n")
    os.utime(roots.new / "etc/program")
    (roots.old / "etc/systemd/kokoro.service").write_text("changed in the house\n")
    (roots.old / "etc/later").write_text("made in the house\n")
    for name in ("var/log/x.log", "tmp/x", "etc/hearth/credentials/kokoro/key"):
        (roots.new / name).parent.mkdir(parents=True, exist_ok=True)
        (roots.new / name).write_text("its own\n")
    assert roots.changes() == [("added", "/etc/hearth")]


def test_a_time_in_the_past_hides_no_change(roots: Roots) -> None:
    path = roots.new / "etc/motd"
    path.write_text("other\n")
    os.utime(path, (1, 1))
    assert roots.changes() == [("changed", "/etc/motd")]


def test_no_link_leads_out_of_either_tree(roots: Roots, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("the machine's own\n")
    (roots.new / "etc/out").symlink_to(secret)
    (roots.new / "etc/key").symlink_to(secret / "key")
    shutil.rmtree(roots.new / "etc/systemd")
    (roots.new / "etc/systemd").symlink_to(secret)
    (roots.old / "etc/motd").unlink()
    (roots.old / "etc/motd").symlink_to(secret / "key")
    (roots.new / "etc/motd").write_text("changed\n")
    found = roots.compare()
    assert "the machine's own" not in str(found)
    assert ("changed", "/etc/systemd") in [(one.kind, one.path) for one in found.changes]


def test_a_folder_that_becomes_a_link_after_it_was_seen_is_not_entered(
    roots: Roots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("the machine's own\n")
    stats = difference._Walk._stats

    def replaced(self: difference._Walk, folder: int) -> dict[str, os.stat_result]:
        found = stats(self, folder)
        place = roots.new / "etc/systemd"
        ours = os.path.samestat(os.fstat(folder), os.stat(roots.new / "etc"))
        if ours and not place.is_symlink():
            shutil.rmtree(place)
            place.symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(difference._Walk, "_stats", replaced)
    assert "key" not in str(roots.compare())


def test_pipes_and_devices_are_named_and_never_opened_for_long(roots: Roots) -> None:
    os.mkfifo(roots.new / "etc/pipe")
    (roots.new / "etc/motd").unlink()
    os.mkfifo(roots.new / "etc/motd")
    began = time.monotonic()
    assert roots.compare().changes == [
        Change("changed", "/etc/motd", "file, 6 bytes became special file"),
        Change("added", "/etc/pipe", "special file"),
    ]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        ("MOST_CHANGES", 3, "the rest: more than 3 changes"),
        ("MOST_ENTRIES", 5, "the rest: more than 5 files"),
        ("WITHIN_S", 0.0, "the rest: it takes longer than 0 s"),
        ("_DEPTH", 2, "/etc/a/b: more than 2 folders deep"),
    ],
)
def test_each_limit_is_said(
    roots: Roots, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, says: str
) -> None:
    (roots.new / "etc/a/b/c").mkdir(parents=True)
    for number in range(8):
        (roots.new / f"etc/a/b/{number}").write_text("x\n")
    monkeypatch.setattr(difference, limit, value)
    assert roots.compare().left_out == [says]


def test_a_folder_as_deep_as_a_hostile_one_ends(roots: Roots) -> None:
    here = os.open(roots.new, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    found = roots.compare()
    assert len(found.changes) == difference._DEPTH + 1
    assert "folders deep" in found.left_out[0]
    # pytest itself could not remove it.
    subprocess.run(["/bin/rm", "-rf", roots.new], check=True, timeout=60)


def test_texts_together_are_bounded(roots: Roots) -> None:
    for number in range(10):
        (roots.new / f"etc/{number}").write_text(f"{number} line\n" * 1900)
    found = roots.compare()
    assert sum(len(one.text) for one in found.changes) < 2 * difference._ALL_TEXT_BYTES
    assert "texts after 48 KiB of differences" in found.left_out


def test_a_name_with_an_escape_code_is_printable(roots: Roots) -> None:
    (roots.new / "a\x1b[2J\nremoved: motd").write_text("b\x1b[2J\tc\n")
    (change,) = roots.compare().changes
    assert change.path == "/a?[2J?removed: motd"
    assert change.text.endswith("+b?[2J\tc\n")


def test_a_root_that_cannot_be_read_is_one_line(roots: Roots, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="none: No such file or directory: run this as root"):
        compare_trees(tmp_path / "none", roots.new, Since(0, 0))
