"""A damaged, forged or newer backup, or another key, is refused in one line; nothing changes."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hearth.backup import BackupError, age
from hearth.backup.restore import read_backup
from tests.unit.backup.local import KEY, RECIPIENT, backup, place

Members = list[tuple[tarfile.TarInfo, bytes]]
HEADER = {
    "format": 1,
    "house": "house",
    "domain": "lan",
    "hearth": "1",
    "made_at": "2026-11-22T00:00:00+00:00",
    "volumes": [{"service": "open_webui", "path": "/data", "copy_as": "files"}],
}


def member(name: str, content: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """One entry of a tar."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def proper(*more: tuple[tarfile.TarInfo, bytes]) -> Members:
    """A backup with some entries, and a manifest that agrees with them."""
    made = [
        member("hearth.json", json.dumps(HEADER).encode()),
        member("vault.json", b"{}"),
        *more,
    ]
    entries = {
        info.name: {
            "size": len(content),
            "sha256": "" if info.isdir() else hashlib.sha256(content).hexdigest(),
        }
        for info, content in made
    }
    manifest = {"entries": entries, "left_out": [], "damaged": {}}
    return [*made, member("manifest.json", json.dumps(manifest).encode())]


def sealed(path: Path, members: Members, cut: int = 0) -> Path:
    """Encrypt a tar, as anyone can who knows the recipient."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    argv = ["age", "--encrypt", "--recipient", RECIPIENT, "--output", str(path)]
    subprocess.run(argv, input=plain.getvalue()[: -cut or None], check=True, timeout=30)
    return path


def test_what_these_tests_forge_is_a_backup_otherwise(tmp_path: Path) -> None:
    contents = read_backup(sealed(tmp_path / "b", proper(member("data/open_webui/0/a", b"1"))), KEY)
    entry = contents.manifest.entries["data/open_webui/0/a"]
    assert (entry.size, entry.sha256) == (1, hashlib.sha256(b"1").hexdigest())


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (member("data/open_webui/0/../../x"), "which is not a valid path in a backup"),
        (member("/etc/passwd"), "which is not a valid path in a backup"),
        (member("data/open_webui/0//x"), "which is not a valid path in a backup"),
        (member("etc/passwd"), "which is not a valid path in a backup"),
        (member("data/open_webui/0/l", type=tarfile.SYMTYPE, linkname="/etc"), "a link or"),
        (member("data/open_webui/0/h", type=tarfile.LNKTYPE, linkname="x"), "a link or a device"),
        (member("data/open_webui/0/d", type=tarfile.CHRTYPE), "is a link or a device"),
        (member("data/open_webui/0/p", type=tarfile.FIFOTYPE), "is a link or a device"),
        (member("data/litellm/1/x"), "belongs to none of its volumes"),
        (member("hearth.json", b"{}"), "is in the backup twice"),
        (member("data/open_webui/0/a/b"), "a/b is a file here and a folder there"),
        (member("data/open_webui/0/" + "x" * 256), "is longer than a path may be"),
        (member("data/open_webui/0/.hearth-restore/complete"), "is not a valid path in a folder"),
    ],
)
def test_a_forged_entry_is_refused(
    tmp_path: Path, entry: tuple[tarfile.TarInfo, bytes], reason: str
) -> None:
    file = sealed(tmp_path / "b", proper(member("data/open_webui/0/a"), entry))
    with pytest.raises(BackupError, match=reason) as refused:
        read_backup(file, KEY)
    assert str(refused.value).startswith(f"{file}: refused: ")
    assert "\n" not in str(refused.value)


def _without_manifest(members: Members) -> Members:
    return members[:-1]


def _without_a_file(members: Members) -> Members:
    return [one for one in members if not one[0].name.startswith("data/")]


def _with_another_content(members: Members) -> Members:
    return [(info, b"2" if info.name.startswith("data/") else content) for info, content in members]


def _with_one_more(members: Members) -> Members:
    return [*members[:-1], member("data/open_webui/0/b", b"1"), members[-1]]


def _manifest_first(members: Members) -> Members:
    return [members[-1], *members[:-1]]


def _vault_of_numbers(members: Members) -> Members:
    return [members[0], member("vault.json", b"[1]"), *members[2:]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without_manifest, "cut short: it ends before its manifest"),
        (_without_a_file, "damaged: data/open_webui/0/a does not match the manifest"),
        (_with_another_content, "damaged: data/open_webui/0/a does not match the manifest"),
        (_with_one_more, "damaged: data/open_webui/0/b does not match the manifest"),
        (_manifest_first, "refused: manifest.json is out of order"),
        (_vault_of_numbers, "damaged: vault.json does not match the manifest"),
    ],
)
def test_a_mismatch_with_the_manifest_is_refused(
    tmp_path: Path, change: Callable[[Members], Members], reason: str
) -> None:
    file = sealed(tmp_path / "b", change(proper(member("data/open_webui/0/a", b"1"))))
    with pytest.raises(BackupError) as refused:
        read_backup(file, KEY)
    assert f"{file}: {reason}" in str(refused.value)


def test_a_sealed_tar_that_ends_inside_a_file_is_refused(tmp_path: Path) -> None:
    members = proper(member("data/open_webui/0/a", bytes(50_000)))
    # Without tar's own padding and the manifest, in the middle of the file.
    file = sealed(tmp_path / "b", members, cut=40_000)
    with pytest.raises(
        BackupError, match="damaged: unexpected end of data: use another"
    ) as refused:
        read_backup(file, KEY)
    assert "\n" not in str(refused.value)


def test_a_newer_format_is_reported_as_newer_whatever_it_contains(tmp_path: Path) -> None:
    newer = {"format": 2, "chapters": []}
    file = sealed(tmp_path / "b", [member("hearth.json", json.dumps(newer).encode())])
    with pytest.raises(
        BackupError, match="made by a newer Hearth \\(format 2, this one reads 1\\)"
    ):
        read_backup(file, KEY)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A backup of a little more than one of age's pieces of 64 KiB."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").write_bytes(bytes(200_000))
    return backup(tmp_path / "to", place(data, "files")).path


def test_every_cut_is_found(file: Path) -> None:
    whole = file.read_bytes()
    # Also exactly between two pieces, where a reader without age's last one would see a good end.
    header = whole.index(b"\n", whole.index(b"\n--- ") + 1) + 1 + 16
    assert len(whole) > header + 65552
    for size in (0, 10, 100, header, 65536, header + 65552, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(BackupError) as refused:
            read_backup(file, KEY)
        assert "damaged or cut short" in str(refused.value) or size < 21, size
    file.write_bytes(whole + b"x")
    with pytest.raises(BackupError, match="damaged or cut short"):
        read_backup(file, KEY)


def test_every_flipped_bit_is_found(file: Path) -> None:
    whole = file.read_bytes()
    for at in (30, 150, 300, 70_000, len(whole) - 1):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(BackupError) as refused:
            read_backup(file, KEY)
        assert "\n" not in str(refused.value)


def test_another_key_does_not_open_it_and_the_error_explains_it(file: Path) -> None:
    other, _ = age.new_key()
    with pytest.raises(BackupError, match="this key does not open it: it was made for another key"):
        read_backup(file, other)


def test_no_backup_at_all(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    with pytest.raises(BackupError, match="not a backup of a house: age did not encrypt it"):
        read_backup(tmp_path / "picture", KEY)
    with pytest.raises(BackupError, match="No such file"):
        read_backup(tmp_path / "nothing", KEY)
