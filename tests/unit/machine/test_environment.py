"""The environment of a machine, from folders that look like one and resolvers that answer."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.machine import environment
from tests.role_data import ROOT
from tests.unit.machine.samples import HOUSE, facts

ASKED = (HOUSE, facts(upstream_dns=("192.0.2.1", "9.9.9.9")))
Known = dict[tuple[str, str], str]


def resolvers(monkeypatch: pytest.MonkeyPatch, known: Known, anything: str = "") -> None:
    """Resolvers that know these names; `anything` is one that answers to every name."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        rows = []
        for server, name, kind in request["resolve"]:
            assert kind == "A"
            found = known.get((server, name)) or ("203.0.113.9" if server == anything else "")
            rows.append((0, [found]) if found else (3, []))
        return {"resolve": rows}

    monkeypatch.setattr(environment, "answer", answer)
    monkeypatch.setattr(socket, "gethostname", lambda: "debian.lan")


def test_another_resolver_that_knows_a_name_of_the_domain_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolvers(monkeypatch, {("192.0.2.1", "debian.lan"): "192.0.2.10"})
    assert environment.claims(*ASKED) == {"192.0.2.1": ("debian.lan", "192.0.2.10")}
    # One name of each resolver is enough.
    both = {("9.9.9.9", name): "192.0.2.77" for name in ("debian.lan", "llm.lan")}
    resolvers(monkeypatch, both)
    assert environment.claims(*ASKED) == {"9.9.9.9": ("llm.lan", "192.0.2.77")}


def test_a_router_that_passes_on_the_houses_own_answer_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolvers(monkeypatch, {("192.0.2.1", "llm.lan"): "192.0.2.10"})
    assert environment.claims(*ASKED) == {}


def test_a_provider_that_answers_to_anything_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    resolvers(monkeypatch, {}, anything="9.9.9.9")
    assert environment.claims(*ASKED) == {}


@pytest.mark.parametrize("seen", [{"upstream_dns": ()}, {"built": True}])
def test_without_resolvers_or_once_built_no_query_is_sent(
    monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any]
) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        assert request == {"resolve": []}
        return {"resolve": []}

    monkeypatch.setattr(environment, "answer", answer)
    assert environment.claims(HOUSE, facts(**seen)) == {}


def test_other_ranges_are_read_and_the_houses_own_links_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    routes = [
        {"dst": "default", "dev": "lan0"},
        {"dst": "192.0.2.0/24", "dev": "lan0"},
        {"dst": "10.140.30.10", "dev": "to-ollama"},
        {"dst": "10.9.9.9", "dev": "wg0"},
        {"dst": "10.8.0.0/16"},
    ]
    monkeypatch.setattr(environment, "ip", lambda *_: routes)
    assert list(environment.networks()) == [("lan0", "192.0.2.0/24"), ("wg0", "10.9.9.9")]


@pytest.mark.parametrize(
    ("kind", "vendor", "there"),
    [
        ("0x030000", "0x10de", True),
        ("0x030200", "0x10de", True),
        ("0x040300", "0x10de", False),  # its sound
        ("0x030000", "0x1002", False),
    ],
)
def test_an_nvidia_card_is_seen_without_its_driver(
    tmp_path: Path, kind: str, vendor: str, there: bool
) -> None:
    assert not environment.nvidia_on_bus(tmp_path)
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "class").write_text(f"{kind}\n")
    (device / "vendor").write_text(f"{vendor}\n")
    assert environment.nvidia_on_bus(tmp_path) is there


@pytest.mark.parametrize(("value", "on"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False)])
def test_secure_boot_is_read_from_the_firmware(tmp_path: Path, value: bytes, on: bool) -> None:
    assert not environment.secure_boot(tmp_path)
    variables = tmp_path / "sys/firmware/efi/efivars"
    variables.mkdir(parents=True)
    (variables / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(value)
    assert environment.secure_boot(tmp_path) is on


@pytest.mark.parametrize(("status", "expected"), [(5, "free"), (0, None), (1, None)])
def test_the_clock_is_free_where_the_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, expected: str | None
) -> None:
    monkeypatch.setattr(environment, "_adjtimex", lambda: status)
    assert environment.clock(tmp_path) == expected
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("lxc")
    assert environment.clock(tmp_path) is None


def test_a_clock_before_this_debian_was_made_is_early(tmp_path: Path) -> None:
    made = tmp_path / "usr/lib/os-release"
    made.parent.mkdir(parents=True)
    made.touch()
    os.utime(made, (0, 4_102_444_800))  # 2100
    assert environment.clock(tmp_path) == "early"


def test_the_kernel_judges_its_own_clock() -> None:
    assert environment._adjtimex() in range(6)


def test_the_whole_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ip", lambda *_: [])
    monkeypatch.setattr(environment, "listeners", list)
    folder = str(tmp_path / "not/there/yet")
    ollama = HOUSE.services["ollama"]
    volumes = tuple(replace(volume, from_folder=folder) for volume in ollama.volumes)
    services = {**HOUSE.services, "ollama": replace(ollama, volumes=volumes)}
    house, machine = replace(HOUSE, services=services), facts(built=True)
    seen = environment.read_environment(house, machine, tmp_path)
    assert not seen.tun
    assert seen.root is (os.geteuid() == 0)
    assert [*seen.free_bytes] == [folder]
    assert abs(seen.free_bytes[folder] - shutil.disk_usage(tmp_path).free) < 1 << 30
    (tmp_path / "dev/net").mkdir(parents=True)
    (tmp_path / "dev/net/tun").touch()
    seen = environment.read_environment(HOUSE, machine, tmp_path)
    assert (seen.tun, seen.free_bytes) == (True, {})


def test_a_unit_of_ones_own_that_ours_would_hide_is_seen(tmp_path: Path) -> None:
    mask = tmp_path / environment.UNITS / "caddy.service"
    mask.parent.mkdir(parents=True)
    assert [*environment.own_units(tmp_path)] == []
    mask.symlink_to("/dev/null")
    assert [*environment.own_units(tmp_path)] == []
    mask.unlink()
    mask.symlink_to("/opt/caddy/caddy.service")
    assert [*environment.own_units(tmp_path)] == ["caddy.service"]
    mask.unlink()
    mask.write_text("[Service]\nExecStart=/opt/caddy run\n")
    assert [*environment.own_units(tmp_path)] == ["caddy.service"]
    # The role does not overwrite a file that was missed.
    tasks = yaml.safe_load((ROOT / "roles/machine/tasks/install.yml").read_text())
    (mask,) = [task["ansible.builtin.file"] for task in tasks if "ansible.builtin.file" in task]
    assert mask["path"] == "/etc/systemd/system/{{ item }}"
    assert "force" not in mask
