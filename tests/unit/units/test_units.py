"""A unit contains exactly its start data, and nothing that was injected into them."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hearth.backup import timer
from hearth.render.units import (
    EXPOSURE_CEILING,
    HARDENING,
    StartData,
    UnitError,
    exposure_ceiling,
    quoted,
    systemd_unit,
)
from hearth.sandbox import units as sandboxes
from tests.role_data import ACCELERATORS, reference_house, run_units

FIELDS = [field.name for field in dataclasses.fields(StartData)]

SAMPLE: dict[str, Any] = {
    "summary": "Answers 100 % of the time",
    "user": "kokoro",
    "command": ["/usr/bin/python3", "-m", "kokoro", "--greeting", 'say "hi" for 5 % of $HOME'],
    "environment": {"B": "$plain", "A": "two words"},
    "credentials": ["key", "api_key"],
    "writable": ["/var/lib/kokoro", "/srv/my voices"],
    "groups": ["audio"],
    "after": ["ollama.service"],
    "reload": ["/bin/kill", "-HUP", "1"],
    "runtime_folder": "kokoro",
    "limits": {"memory": "1G", "tasks": 64},
    "exceptions": {"ProcSubset": {"value": "all", "reason": "it counts processors"}},
}
SAMPLE_UNIT = r"""# Written by Hearth from the start data of its role; edits are found and undone.

[Unit]
Description=Answers 100 %% of the time
After=network.target ollama.service
Wants=ollama.service
StartLimitIntervalSec=0

[Service]
Type=exec
Restart=always
RestartSec=1
RestartSteps=5
RestartMaxDelaySec=15
ExecStart=/usr/bin/python3 -m kokoro --greeting "say \"hi\" for 5 %% of $$HOME"
ExecReload=/bin/kill -HUP 1
User=kokoro
TimeoutStopSec=10
Environment="A=two words"
Environment=B=$plain
LoadCredential=api_key:/etc/hearth/credentials/kokoro/api_key
LoadCredential=key:/etc/hearth/credentials/kokoro/key
RuntimeDirectory=kokoro
SupplementaryGroups=audio
ReadWritePaths=/var/lib/kokoro "/srv/my voices"
MemoryMax=1G
TasksMax=64
# ProcSubset: it counts processors
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProcSubset=all
"""


def minimal(**more: Any) -> dict[str, Any]:
    return {"summary": "A program", "user": "nobody", "command": ["/bin/true"], **more}


def test_the_sample_gives_exactly_this_unit() -> None:
    text = systemd_unit("kokoro", SAMPLE)
    assert text.startswith(SAMPLE_UNIT)
    assert text.endswith("UMask=0077\n\n[Install]\nWantedBy=multi-user.target\n")


def test_every_hardening_rule_is_in_a_minimal_unit() -> None:
    lines = systemd_unit("plain", minimal()).splitlines()
    for rule, value in HARDENING.items():
        # A deny list after an allow list is a line of its own.
        for part in re.split(r" (?=~)", value):
            assert f"{rule}={part}" in lines


def test_only_the_named_devices_are_allowed() -> None:
    lines = systemd_unit("card", minimal(devices=["char-drm"])).splitlines()
    assert {"PrivateDevices=no", "DevicePolicy=closed", "DeviceAllow=char-drm rw"} <= set(lines)


def test_a_program_with_named_peers_can_reach_only_them() -> None:
    lines = systemd_unit("alone", minimal(peers=["localhost", "192.0.2.7"])).splitlines()
    assert {"IPAddressDeny=any", "IPAddressAllow=localhost 192.0.2.7"} <= set(lines)
    assert not any(line.startswith("IPAddress") for line in systemd_unit("x", minimal()).split())


def test_a_capability_is_in_both_sets() -> None:
    lines = systemd_unit("port", minimal(capabilities=["CAP_NET_BIND_SERVICE"])).splitlines()
    assert "CapabilityBoundingSet=CAP_NET_BIND_SERVICE" in lines
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in lines


def test_a_oneshot_unit_restarts_only_after_a_failure() -> None:
    lines = systemd_unit("once", minimal(once=True, before=["incus.service"])).splitlines()
    assert {"Type=oneshot", "RemainAfterExit=yes", "Before=incus.service"} <= set(lines)
    assert "Restart=on-failure" in lines
    assert {"RestartSec=1", "RestartSteps=5", "RestartMaxDelaySec=15"} <= set(lines)


def test_a_program_is_restarted_for_ever_with_growing_delays() -> None:
    lines = systemd_unit("loop", minimal(again_s=5)).splitlines()
    assert {"StartLimitIntervalSec=0", "Restart=always", "RestartSec=5"} <= set(lines)
    assert {"RestartSteps=5", "RestartMaxDelaySec=15"} <= set(lines)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"comand": ["/bin/true"]},
            f"x: comand is not a valid field of start data; known are {', '.join(FIELDS)}",
        ),
        ({"command": []}, "x: command must start with the full path of a program"),
        ({"command": ["true"]}, "x: command must start with the full path of a program"),
        (
            {"exceptions": {"ProtectHome": {"value": "no"}}},
            "x: exception ProtectHome must be a rule with value and reason",
        ),
        (
            {"exceptions": {"ProtectHouse": {"value": "no", "reason": "it must"}}},
            "x: exception ProtectHouse must be a rule with value and reason",
        ),
        (
            {"ceiling": {"value": 10, "reason": "why not"}},
            "x: ceiling must be a value from 0 to 10 and reason",
        ),
        ({"ceiling": {"value": 2}}, "x: ceiling must be a value from 0 to 10 and reason"),
        ({"limits": {"cpu": 2}}, "limits: cpu is not one of memory, tasks"),
        (
            {"environment": {"A": "1\nExecStartPre=/bin/evil"}},
            r"'A=1\nExecStartPre=/bin/evil' must be one line of text",
        ),
        (
            {"summary": "Fine\nExecStartPre=/bin/evil"},
            r"x: Description: 'Fine\nExecStartPre=/bin/evil' must be one line of text",
        ),
        (
            {"summary": "swallows \\"},
            r"x: Description: 'swallows \\' must be one line of text",
        ),
        (
            {"exceptions": {"ProtectHome": {"value": "no", "reason": "a\nUser=root"}}},
            r"x: ProtectHome: 'a\nUser=root' must be one line of text",
        ),
    ],
)
def test_invalid_start_data_are_rejected(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UnitError) as caught:
        systemd_unit("x", minimal(**more))
    assert str(caught.value) == message


def test_missing_start_data_are_named() -> None:
    with pytest.raises(UnitError) as caught:
        systemd_unit("x", {"command": ["/bin/true"]})
    assert str(caught.value) == "x: summary, user is missing in start data"


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ('say "hi"', r'"say \"hi\""'),
        ("it's", '"it\'s"'),
        ("back\\slash", r'"back\\slash"'),
        (";", '";"'),
    ],
)
def test_words_are_quoted_for_systemd(word: str, line: str) -> None:
    assert quoted(word) == line


def test_systemd_accepts_quoted_words(tmp_path: Path) -> None:
    path = tmp_path / "words.service"
    path.write_text(systemd_unit("words", {**SAMPLE, "command": ["/bin/echo", "a;b", "'", "%n"]}))
    assert complaints(path) == []


@pytest.fixture(scope="module", params=ACCELERATORS)
def units(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("units")
    house = reference_house(tmp_path_factory.mktemp("inventory"))
    for name, text in run_units(house, request.param).items():
        (folder / f"{name}.service").write_text(text)
    return sorted(folder.iterdir())


def complaints(path: Path) -> list[str]:
    """What systemd says against a unit, except that the house's programs are not installed here."""
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # The last three are of systemd 253 and 254; Debian 12 leaves them out and says so.
    absent = re.compile(
        r"is not executable: No such file or directory|Failed to open connection"
        r"|Unknown key (name )?'(RestartSteps|RestartMaxDelaySec|LogFilterPatterns)' in section"
    )
    return [line for line in result.stderr.splitlines() if not absent.search(line)]


def test_every_program_of_the_house_has_its_unit(units: list[Path]) -> None:
    assert sorted(path.stem for path in units) == [
        "agents",
        "alertmanager",
        "fetcher",
        "hearth-blackbox-exporter",
        "hearth-broker",
        "hearth-caddy",
        "hearth-dnsmasq",
        "hearth-firewall",
        "hearth-firewall-watch",
        "hearth-health",
        # A container's only: a machine has Ansible for it.
        "hearth-init",
        "hearth-login",
        "hearth-node-exporter",
        "hearth-trust",
        "hearth-watch",
        "kokoro",
        "kokoro-fastapi",
        "kokoro-gpu",
        "litellm",
        "ntfy",
        "ollama",
        "ollama-models",
        "ollama-proxy",
        "open-webui",
        "pipelines",
        "prometheus",
        "voice",
        "whisper",
    ]


def test_systemd_accepts_the_units(units: list[Path]) -> None:
    assert {path.stem: complaints(path) for path in units} == {path.stem: [] for path in units}


def test_systemd_rejects_an_invalid_unit(tmp_path: Path) -> None:
    path = tmp_path / "wrong.service"
    path.write_text(systemd_unit("wrong", minimal()).replace("UMask", "UMaks"))
    assert any("UMaks" in line for line in complaints(path))


def exposures(
    folder: Path, house: dict[str, Any], accelerator: str
) -> dict[str, tuple[float, float]]:
    """How open each unit is with an accelerator, and how open it may be; 0 is shut, 10 is open."""
    found = {}
    for name, text in run_units(house, accelerator).items():
        path = folder / f"{name}.service"
        path.write_text(text)
        found[name] = exposure(path), exposure_ceiling(text)
    return found


def exposure(path: Path) -> float:
    """How open a unit is, as systemd says."""
    argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
    output = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    return float(re.findall(r"exposure level for \S+: ([\d.]+)", output)[0])


def test_no_unit_exceeds_the_exposure_of_its_role(tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    house = reference_house(tmp_path / "inventory")
    for accelerator in ACCELERATORS:
        rows = exposures(tmp_path, house, accelerator)
        assert {name: row for name, row in rows.items() if row[0] > row[1]} == {}, accelerator
        # A ceiling that is higher than the unit needs would let something in unseen.
        named = {name: row for name, row in rows.items() if row[1] != EXPOSURE_CEILING}
        assert {name: row for name, row in named.items() if row[0] != row[1]} == {}, accelerator


def test_the_nightly_backup_does_not_exceed_its_exposure(tmp_path: Path) -> None:
    text = timer.units("/root/hearth", "/srv/backups", None)[f"{timer.UNIT}.service"]
    path = tmp_path / f"{timer.UNIT}.service"
    path.write_text(text)
    # systemd 257 rates the same unit 0.2 lower than systemd 252 does.
    assert 0 <= round(exposure_ceiling(text) - exposure(path), 1) <= 0.2


def test_the_guard_of_sandboxes_does_not_exceed_its_exposure(tmp_path: Path) -> None:
    text = sandboxes.unit_files("/root/hearth")[f"{sandboxes.UNIT}.service"]
    path = tmp_path / f"{sandboxes.UNIT}.service"
    path.write_text(text)
    assert 0 <= round(exposure_ceiling(text) - exposure(path), 1) <= 0.2


def test_a_unit_without_hardening_exceeds_its_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "plain.service"
    text = systemd_unit("plain", minimal(user="kokoro"))
    path.write_text(text)
    threshold = f"--threshold={round(exposure_ceiling(text) * 10)}"
    argv = ["systemd-analyze", "security", "--offline=true", threshold, str(path)]
    assert subprocess.run(argv, capture_output=True, timeout=60).returncode == 0
    path.write_text(text.replace("ProtectSystem=strict\n", ""))
    assert subprocess.run(argv, capture_output=True, timeout=60).returncode == 1


def test_a_unit_states_its_exposure_ceiling_and_the_reason() -> None:
    ceiling = {"value": 1.7, "reason": "it opens port 53"}
    text = systemd_unit("dns", minimal(ceiling=ceiling))
    assert "\n# X-ExposureCeiling: it opens port 53\nX-ExposureCeiling=1.7\n" in text
    assert exposure_ceiling(text) == 1.7
    assert exposure_ceiling(systemd_unit("plain", minimal())) == EXPOSURE_CEILING


def test_no_secret_is_in_a_unit(units: list[Path]) -> None:
    for path in units:
        assert "made-up" not in path.read_text()


def test_programs_do_not_run_as_root(units: list[Path]) -> None:
    users = {
        path.stem: words[5:]
        for path in units
        for words in path.read_text().splitlines()
        if words.startswith("User=")
    }
    # The ruleset is loaded by root, which keeps one capability; the watcher looks into instances;
    # Incus and systemd answer the broker only because it is root.
    roots = [name for name, user in users.items() if user == "root"]
    assert sorted(roots) == [
        *("hearth-broker", "hearth-firewall", "hearth-firewall-watch", "hearth-watch")
    ]


def test_the_command_line_names_a_program_by_its_full_path(units: list[Path]) -> None:
    for path in units:
        command = re.findall(r"^ExecStart=(.*)$", path.read_text(), re.MULTILINE)
        assert len(command) == 1
        assert shlex.split(command[0])[0].startswith("/")
