"""What the watcher reads now and then, from answers and files as the house has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hearth.backup import age
from hearth.backup.create import backups, file_name, note_made
from hearth.catalogue.house import House
from hearth.clients import ClientError
from hearth.doctor import background
from hearth.machine import pki
from tests.unit.doctor.conftest import HOUSE


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"device": "cpu", "ready": True}, "cpu"),
        ({"device": "cuda"}, "cuda"),
        ({"provider": "CPUExecutionProvider"}, "cpu"),
        ({"provider": "cuda (NVIDIA GeForce RTX 3060)"}, "cuda (NVIDIA GeForce RTX 3060)"),
        # Its model is not loaded yet.
        ({"ready": False}, ""),
        ([], ""),
        ("x", ""),
    ],
)
def test_a_program_says_what_it_computes_on(status: Any, shown: str) -> None:
    assert background.device(status) == shown


def test_speech_and_transcription_both_have_an_accelerator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As the /status of services/kokoro and of services/whisper name it.
    answers = {
        HOUSE.services["kokoro"].url: {"engine": "onnx", "provider": "CPUExecutionProvider"},
        HOUSE.services["whisper"].url: {"model": "small", "device": "cpu"},
    }

    def answer(url: str, _: float) -> Any:
        if (known := answers.get(url.removesuffix("/status"))) is None:
            raise ClientError("no answer")
        return known

    monkeypatch.setattr(background, "get_json", answer)
    measured = {"accelerator": {"measured": "CUDA", "device": "RTX 3060", "model": "none"}}
    assert background.devices(HOUSE, measured) == {"kokoro": "cpu", "whisper": "cpu"}


def stanza(name: str, version: str, **more: str) -> str:
    fields = {"Package": name, "Version": version, "Architecture": "all", "Maintainer": "x"}
    lines = {**fields, **more, "Description": "x"}.items()
    return "".join(f"{field}: {value}\n" for field, value in lines) + "\n"


@pytest.fixture
def apt(tmp_path: Path) -> str:
    """A machine's apt that knows a security update of a program, and one of the kernel."""
    for name in ("archive", "state/lists/partial", "cache/archives/partial"):
        (tmp_path / name).mkdir(parents=True)
    new = {"Filename": "./x.deb", "Size": "1", "SHA256": "0" * 64}
    kernel = stanza("linux-image-amd64", "6.12.48-1", Depends="linux-image-6.12.48", **new)
    others = [
        stanza("linux-image-6.12.48", "6.12.48-1", **new),
        stanza("openssl", "3.5.2-1", **new),
    ]
    (tmp_path / "archive/Packages").write_text("".join([kernel, *others]))
    release = (
        "Label: Debian-Security\nSuite: stable-security\nDate: Mon, 23 Nov 2026 12:00:00 UTC\n"
    )
    (tmp_path / "archive/Release").write_text(release)
    there = {"Status": "install ok installed"}
    old = [stanza("linux-image-amd64", "6.12.41-1", **there), stanza("openssl", "3.5.1-1", **there)]
    (tmp_path / "state/status").write_text("".join(old))
    (tmp_path / "sources").write_text(f"deb [trusted=yes] file:{tmp_path}/archive ./\n")
    settings = {
        "Dir::Etc::sourcelist": "sources",
        "Dir::Etc::sourceparts": "none",
        "Dir::State": "state",
        "Dir::State::status": "state/status",
        "Dir::Cache": "cache",
    }
    config = tmp_path / "apt.conf"
    lines = [f'{name} "{tmp_path}/{value}";\n' for name, value in settings.items()]
    config.write_text("".join([*lines, 'APT::Sandbox::User "";\n']))
    environment = {**os.environ, "APT_CONFIG": str(config)}
    subprocess.run(["apt-get", "-qq", "update"], env=environment, check=True, timeout=60)
    return str(config)


@pytest.mark.skipif(not shutil.which("apt-get"), reason="only Debian has apt")
def test_an_update_that_needs_a_new_package_waits_as_well(apt: str) -> None:
    assert background.waiting_updates(apt) == 2


def test_updates_are_counted_again_when_the_lists_or_what_is_installed_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists, installed = tmp_path / "lists", tmp_path / "status"
    lists.mkdir()
    installed.touch()
    calls: list[int] = []

    def count() -> int:
        calls.append(1)
        if len(calls) == 3:
            raise subprocess.CalledProcessError(100, "apt-get")
        return len(calls)

    monkeypatch.setattr(background, "waiting_updates", count)
    monkeypatch.setattr(background, "_counted", {})
    first = {"waiting": 1, "lists_made": 0.0}
    assert [background.updates(lists, installed) for _ in range(2)] == [first, first]
    (lists / "deb.debian.org_InRelease").touch()
    os.utime(lists / "deb.debian.org_InRelease", (5, 5))
    assert background.updates(lists, installed) == {"waiting": 2, "lists_made": 5.0}
    os.utime(installed, (7, 7))
    # It costs a second, also where it fails.
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            background.updates(lists, installed)
    assert len(calls) == 3


@pytest.fixture
def backed_up(tmp_path: Path) -> House:
    """A house with a backup of yesterday, noted as `hearth backup` does."""
    (tmp_path / "to").mkdir()
    _, recipient = age.new_key()
    path = tmp_path / "to" / file_name("house", datetime.now(UTC) - timedelta(days=1))
    with path.open("wb") as target, age.encrypting(recipient, target) as sink:
        sink.write(os.urandom(200_000))
    note_made(path, tmp_path / "state")
    settings = replace(HOUSE.machine.backup, recipient=recipient, to=str(tmp_path / "to"))
    return replace(HOUSE, machine=replace(HOUSE.machine, backup=settings))


def test_a_backup_can_be_read_only_if_it_is_whole(backed_up: House, tmp_path: Path) -> None:
    def look() -> dict[str, Any]:
        return background.last_backup(backed_up, tmp_path / "state", tmp_path / "verified.json")

    (path,) = backups(tmp_path / "to", "house")
    found, whole = look(), path.read_bytes()
    assert (found["readable"], found["text"], found["bytes"]) == (True, "", len(whole))
    assert time.time() - found["verified"] < 600
    # Cut inside of a piece, and after one: both start as a backup does.
    for cut in (whole[:-1], whole[: len(whole) // 2]):
        path.write_bytes(cut)
        assert not look()["readable"]
    path.write_bytes(whole)
    assert look()["readable"]


def test_the_content_of_a_backup_is_verified_each_week(
    backed_up: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified, state = tmp_path / "verified.json", tmp_path / "state"
    (path,) = backups(tmp_path / "to", "house")
    first = background.last_backup(backed_up, state, verified)["verified"]
    flipped = bytearray(path.read_bytes())
    flipped[100_000] ^= 1
    path.write_bytes(flipped)
    found = background.last_backup(backed_up, state, verified)
    assert (found["readable"], found["verified"]) == (True, first)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 86_400)
    # Also where nothing can be written.
    verified.unlink()
    for where in (verified, tmp_path / "no folder/verified.json"):
        found = background.last_backup(backed_up, state, where)
        assert (found["readable"], found["verified"]) == (False, now + 8 * 86_400)
        assert found["text"] == f"{path}: its content is not what it was when made"
        assert background.verification(where)["fault"]


def test_without_a_digest_of_its_making_the_content_is_not_verified(
    backed_up: House, tmp_path: Path
) -> None:
    (tmp_path / "state/last.json").write_text('{"name": "another", "bytes": 3}')
    found = background.last_backup(backed_up, tmp_path / "state", tmp_path / "verified.json")
    assert (found["readable"], found["verified"]) == (True, 0)


def test_the_site_whose_certificate_expires_first_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [site.fqdn for site in HOUSE.sites]
    reads: list[str] = []

    def end(text: str) -> datetime:
        reads.append(text)
        return datetime.fromtimestamp(float(text), UTC)

    monkeypatch.setattr(pki, "not_after", end)

    def issue(root: str, name: str, ends: int, written: int) -> None:
        path = tmp_path / root / "certificates/house" / name / f"{name}.crt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(ends))
        os.utime(path, (written, written))

    assert background.sites_until(HOUSE, tmp_path) is None
    issue("old root", names[0], 100, 1)
    issue("new root", names[0], 900, 2)
    issue("new root", names[1], 500, 2)
    issue("new root", "removed.lan", 50, 2)
    first = {"name": names[1], "until": 500.0, "count": 2}
    assert [background.sites_until(HOUSE, tmp_path) for _ in range(2)] == [first, first]
    assert sorted(reads) == ["500", "900"]
    issue("new root", names[1], 1300, 3)
    assert background.sites_until(HOUSE, tmp_path) == {
        "name": names[0],
        "until": 900.0,
        "count": 2,
    }
