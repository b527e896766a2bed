"""Each row has a version: of a Debian package, of a program, of an answer, or the project's."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hearth
from hearth.catalogue.house import Part, Service
from hearth.clients import ClientError
from hearth.doctor import snapshot, versions
from hearth.machine import outside
from hearth.status import Row
from tests.unit.doctor.conftest import HOUSE, ROWS

FILES = {
    "/var/lib/dpkg/info/ntfy.list": "/.\n/usr/bin/ntfy\n",
    "/var/lib/dpkg/info/prometheus.list": "/.\n/usr/bin/prometheus\n",
    "/var/lib/dpkg/info/prometheus-alertmanager.list": "/usr/bin/prometheus-alertmanager\n",
    "/var/lib/dpkg/status": (
        "Package: libc6\nStatus: install ok installed\nVersion: 2.41-12\n\n"
        "Package: prometheus\nStatus: install ok installed\nArchitecture: amd64\n"
        "Version: 2.53.3+ds1-2\n\n"
        "Package: prometheus-alertmanager\nVersion: 0.28.1+ds-4\n\n"
        "Package: ntfy\nVersion: 2.11.0~ds1-2+b6\n"
    ),
}


def read(instance: str | None, path: str) -> bytes:
    if instance not in ("ntfy", "prometheus", "alertmanager") or path not in FILES:
        raise FileNotFoundError(path)
    return FILES[path].encode()


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What servers answer, by the address that is asked; others are silent."""
    known: dict[str, Any] = {}

    def answer(url: str, _: float) -> Any:
        if url not in known:
            raise ClientError("no answer")
        return known[url]

    monkeypatch.setattr(versions, "get_json", answer)
    return known


def program(folder: Path, name: str, *packages: str) -> None:
    """Install a program as `house_program` does, with these Python packages in it."""
    fresh = folder / name / "0123456789abcdef"
    for package in packages:
        info = fresh / f"{package}.dist-info"
        info.mkdir(parents=True)
        title, _, version = package.rpartition("-")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {title}\nVersion: {version}\n"
        )
    fresh.mkdir(parents=True, exist_ok=True)
    (folder / name / "current").symlink_to(fresh)


@pytest.mark.parametrize(
    ("name", "runs", "version"),
    [
        ("ntfy", "/usr/bin/ntfy", "2.11.0~ds1-2+b6"),
        ("prometheus", "/usr/bin/prometheus", "2.53.3+ds1-2"),
        ("alertmanager", "/usr/bin/prometheus-alertmanager", "0.28.1+ds-4"),
        # Of no package, of no interest, and of an instance that does not run.
        ("prometheus", "/opt/prometheus", ""),
        ("prometheus", "/usr/bin/python3.13", ""),
        ("kokoro", "/usr/bin/ntfy", ""),
    ],
)
def test_a_debian_program_has_the_version_of_its_package_in_the_instance(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, runs: str, version: str
) -> None:
    monkeypatch.setattr(versions, "_program", lambda *_: runs)
    assert versions.version_of(HOUSE.services[name], read, tmp_path) == version


def test_programs_of_ours_have_the_digest_of_their_files_and_others_their_own_version(
    tmp_path: Path, answers: dict[str, Any]
) -> None:
    program(tmp_path, "kokoro", "kokoro_onnx-0.4.9", "numpy-2.3.1")
    program(tmp_path, "login")
    program(tmp_path, "open_webui", "open_webui-0.12.4", "litellm-1.2.3")
    ollama = HOUSE.services["ollama"]
    program(tmp_path, "ollama")
    answers[f"{ollama.url}/api/version"] = {"version": "0.30.11"}
    of: dict[str, Service | Part] = {**HOUSE.services, **HOUSE.parts}
    found = {n: versions.version_of(of[n], read, tmp_path) for n in ("kokoro", "login", "ollama")}
    ours = f"{hearth.__version__} (01234567)"
    assert found == {"kokoro": ours, "login": ours, "ollama": "0.30.11"}
    assert versions.version_of(of["open_webui"], read, tmp_path) == "0.12.4"


def test_a_part_has_the_version_of_its_package_on_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[str, ...]] = []

    def query(*argv: str) -> str:
        calls.append(argv)
        return "dnsmasq-base: /usr/sbin/dnsmasq\n" if argv[0] == "--search" else "2.91-1"

    monkeypatch.setattr(versions, "_query", query)
    monkeypatch.setattr(versions, "_program", lambda *_: "/usr/sbin/dnsmasq")
    assert versions.version_of(HOUSE.parts["dnsmasq"], read, tmp_path) == "2.91-1"
    assert calls[1][-1] == "dnsmasq-base"


def test_what_a_unit_runs_is_read_from_its_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "processes", lambda *_: outside.Processes((os.getpid(),), 5))
    assert Path(versions._program(None, "x.service")) == Path(sys.executable).resolve()
    monkeypatch.setattr(outside, "processes", lambda *_: outside.Processes())
    assert versions._program(None, "x.service") == ""


def test_they_are_read_again_only_when_a_program_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [Row("kokoro", "service", True, "up", 5)]
    calls: list[str] = []

    def version_of(owner: Service | Part) -> str:
        calls.append(owner.name)
        if owner.name == "whisper":
            raise ValueError("its files are no package")
        return "1"

    monkeypatch.setattr(versions, "version_of", version_of)
    one = versions.Versions(HOUSE, lambda: rows)
    everyone = len(HOUSE.services) + len(HOUSE.parts)
    assert one.read() == one.read()
    assert len(calls) == everyone
    rows[0] = replace(rows[0], since=9, text="other")
    assert one.read()["kokoro"] == "1"
    assert "whisper" not in one.read()
    assert len(calls) == 2 * everyone


def test_every_row_of_a_house_has_a_version() -> None:
    receipt = {"versions": {"caddy": "2.6.2", "kokoro": "old"}}
    found = versions.shown(HOUSE, {"kokoro": "1 (0123)"}, receipt)
    rows = snapshot.rows_as_json(ROWS, snapshot.Memory(), found, {}, {})
    by_name = {row["name"]: row["version"] for row in rows}
    assert (by_name["kokoro"], by_name["caddy"]) == ("1 (0123)", "2.6.2")
    assert by_name["firewall"] == by_name["watch"] == hearth.__version__
    assert [name for name, version in by_name.items() if not version] == []
    # A server of somebody else is no version of ours.
    ollama = replace(HOUSE.services["ollama"], runtime="external")
    house = replace(HOUSE, services={**HOUSE.services, "ollama": ollama})
    assert versions.shown(house, {}, {})["ollama"] == ""
