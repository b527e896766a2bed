"""The smoke tests of the units pass for an inspection as it should be, and find each flaw."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.machine import facts
from hearth.smoke import test_units as smoke
from hearth.smoke.plugin import Notes
from hearth.smoke.unit_probe import READ_ONLY, TMP
from tests.documents import shipped_house

OWNER: Any = SimpleNamespace(name="ollama", instance="ollama", unit="ollama.service", as_root=False)
LOCAL: Any = SimpleNamespace(
    name="ollama", address="10.0.0.1", port=80, metrics_port=None, publish_tcp={}
)
TRIED: dict[str, Any] = {
    "user": 900,
    "written": {**dict.fromkeys(READ_ONLY, "EROFS"), TMP: "done"},
    "marker_seen": False,
    "homes": {"/root": "EACCES"},
    "own": {"/run/credentials/ollama.service/key": "done"},
    "secrets": {"/etc/shadow": "EACCES"},
    "processes": [],
}
STATUS = {"NoNewPrivs": "1", "Seccomp": "2", "CapBnd": "0000000000000001"}


def unit(status: dict[str, str] | None = None, **flaws: Any) -> dict[str, Any]:
    properties = {"ActiveState": "active", "SubState": "running", "Result": "success"}
    properties |= {"User": "ollama", "CapabilityBoundingSet": "cap_chown"}
    found = {"stale": [], "text": "[Service]\n", "properties": properties}
    found["security"] = "→ Overall exposure level for ollama.service: 1.3 OK :-)"
    found["sandbox"] = {"status": STATUS | (status or {}), "tried": TRIED | flaws.pop("tried", {})}
    properties |= flaws.pop("properties", {})
    return {**found, **flaws}


def judge(seen: dict[str, Any], owner: Any = OWNER) -> Notes:
    """Run all tests that read a unit's inspection."""
    notes, units = Notes(), {"ollama.service": seen}
    smoke.test_the_unit_runs(OWNER, units)
    smoke.test_the_running_version_is_the_installed_one(units)
    smoke.test_units_are_hardened(units, notes)
    smoke.test_programs_do_not_run_as_root(owner, units)
    smoke.test_programs_are_sandboxed(owner, units)
    return notes


def test_a_unit_as_it_should_be_passes() -> None:
    assert judge(unit()).samples == {("exposure of the units", "of 10"): [1.3]}


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (unit(properties={"ActiveState": "failed"}), r"is failed \(running, success\)"),
        (unit(stale=["/usr/lib/libold.so (deleted)"]), "still runs a file that was replaced"),
        (unit(security="no such unit"), "reports no exposure"),
        (unit(security="Overall exposure level for x: 9.9 UNSAFE"), "has exposure 9.9 of 10"),
        (unit(properties={"User": ""}), "runs as root"),
        (unit(sandbox=None), "no process of ollama runs"),
        (unit(sandbox="nsenter: broken"), "the probe failed: nsenter: broken"),
        (unit(tried={"written": {**TRIED["written"], "/etc": "EACCES"}}), "not read-only: /etc"),
        (unit(tried={"marker_seen": True}), "/tmp is shared"),
        (unit(tried={"homes": {"/root": "done"}}), "can list /root"),
        (unit(tried={"own": {"/key": "EACCES"}}), "cannot read its own /key"),
        (unit(tried={"secrets": {"/etc/shadow": "done"}}), "can read /etc/shadow"),
        (unit(tried={"secrets": {}}), "found no secret to try"),
        (unit(tried={"processes": ["1"]}), "sees processes of other users: 1"),
        (unit(status={"Seccomp": "0"}), "its process is not restricted"),
        (unit(status={"CapBnd": "3"}), "may gain 3"),
    ],
)
def test_each_flaw_of_a_unit_is_found(seen: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        judge(seen)


def test_only_a_part_whose_record_says_so_runs_as_root() -> None:
    owner: Any = SimpleNamespace(name="watch", unit="ollama.service", as_root=True)
    tried = {"user": 0, "homes": {"/root": "done"}, "secrets": {"/etc/shadow": "done"}}
    seen = unit(tried=tried, properties={"User": ""}, text="ProtectHome=read-only\n")
    judge(seen, owner)
    with pytest.raises(AssertionError, match="can list /root"):
        judge(unit(tried=tried, properties={"User": ""}), owner)
    with pytest.raises(AssertionError, match="runs as ollama"):
        judge(unit(), owner)


@pytest.mark.parametrize(
    ("listening", "problem"),
    [
        ([("tcp", "*", 80), ("udp", "127.0.0.53", 53)], ""),
        ([("tcp", "10.0.0.1", 80), ("udp", "0.0.0.0", 5353)], "listens on 0.0.0.0 port 5353"),
        ([], "listens nowhere"),
    ],
)
def test_a_socket_that_the_catalogue_does_not_know_is_found(
    listening: list[Any], problem: str
) -> None:
    def inspected(_: str | None) -> dict[str, Any]:
        return {"listening": listening}

    host: Any = SimpleNamespace(**vars(LOCAL), instance="ollama")
    if not problem:
        smoke.test_an_instance_listens_only_where_the_catalogue_says(host, inspected)
        return
    with pytest.raises(AssertionError, match=problem):
        smoke.test_an_instance_listens_only_where_the_catalogue_says(host, inspected)


def test_a_port_of_a_question_that_is_closed_again_is_no_open_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = shipped_house()
    unit = house.parts["dnsmasq"].unit
    served = facts.Listener("udp", house.machine.resolver_address, 53, unit)
    question = facts.Listener("udp", "0.0.0.0", 55785, unit)
    looks = [[served, question], [served, question], [served]]
    monkeypatch.setattr(facts, "lan", lambda _: ("eth0", ""))
    monkeypatch.setattr(facts, "addresses", lambda _: [])
    monkeypatch.setattr(facts, "listeners", lambda: looks.pop(0))
    monkeypatch.setattr("time.sleep", lambda _: None)
    smoke.test_the_houses_parts_listen_only_where_the_catalogue_says(house)
    assert looks == []
    monkeypatch.setattr(facts, "listeners", lambda: [served, question])
    monkeypatch.setattr(smoke, "QUESTION_S", 0)
    with pytest.raises(AssertionError, match=r"dnsmasq listens on 0\.0\.0\.0 port 55785"):
        smoke.test_the_houses_parts_listen_only_where_the_catalogue_says(house)


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        (["ollama", "ollama-models"], ""),
        (["litellm", "ollama", "ollama-models"], "ollama can also read litellm"),
        (["ollama"], "ollama does not see ollama-models"),
    ],
)
def test_a_program_of_another_service_is_found(
    seen: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for installed in ("ollama", "ollama-models", "litellm"):
        (tmp_path / installed / "current").mkdir(parents=True)
    # One that is not installed: its folder is mounted, and empty.
    (tmp_path / "ollama_data").mkdir()
    monkeypatch.setattr(smoke, "PROGRAMS", tmp_path)
    host: Any = SimpleNamespace(
        name="ollama", instance="ollama", programs=("ollama", "ollama-models", "ollama_data")
    )
    with pytest.raises(AssertionError, match=problem) if problem else nullcontext():
        smoke.test_an_instance_sees_only_its_own_programs(host, lambda _: {"programs": seen})


def test_versions_are_read_from_the_inspections() -> None:
    service = SimpleNamespace(
        **{"name": "litellm", "instance": "litellm", "unit": "litellm.service"},
        **{"address": "10.0.0.1", "sources": (), "system": "litellm"},
    )
    house: Any = SimpleNamespace(services={"litellm": service})
    inspections: dict[str | None, Any] = {
        None: {"debian": {"caddy": "2.6"}},
        "litellm": {"debian": {}, "units": {"litellm.service": {"packages": {"litellm": "1.9"}}}},
    }
    for kind, name, found in (
        ("debian", "caddy", {"on the machine": "2.6"}),
        ("python", "litellm", {"in litellm": "1.9"}),
    ):
        minimum: Any = SimpleNamespace(kind=kind, name=name)
        assert dict(smoke._versions(minimum, house, inspections.__getitem__)) == found
