"""Each check of the machine fires on a broken reading and is silent on a healthy one."""

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from hearth.clients.endpoints import lan_address
from hearth.doctor import checks_machine as checks
from hearth.doctor.finding import Context
from hearth.machine import pki
from hearth.machine.facts import FactsError, Listener
from hearth.status import Row
from tests.unit.doctor.test_checks_services import seen, with_row

OWN, ROUTER = "192.168.1.9", "192.168.1.1"
GIB = 2**30


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on a LAN, whose router answers for nothing."""
    monkeypatch.setattr(checks, "lan_address", lambda house: OWN)
    monkeypatch.setattr("hearth.doctor.checks_machine.facts.addresses", lambda: [OWN, "127.0.0.1"])


@pytest.mark.parametrize(
    ("free", "wanted"),
    [
        (80 * GIB, []),
        (3 * GIB, [("HEARTH-DISK-LOW", "/var")]),
        (GIB // 2, [("HEARTH-DISK-FULL", "/var")]),
    ],
)
def test_a_disk_without_room_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch, free: int, wanted: list[Any]
) -> None:
    monkeypatch.setattr(checks, "free_space", lambda house: {"/var": free})
    assert seen(checks.disk(healthy)) == wanted


@pytest.mark.parametrize(
    ("ahead", "wanted"),
    [
        ({}, []),
        ({"litellm": 1.0, "kokoro": None}, []),
        ({"litellm": 2 * 86400.0}, [("HEARTH-CLOCK-WRONG", "litellm")]),
        (dict.fromkeys(("litellm", "kokoro", "whisper"), -7200.0), [("HEARTH-CLOCK-WRONG", "")]),
    ],
)
def test_a_wrong_clock_is_that_of_one_program_or_of_the_machine(
    healthy: Context, monkeypatch: pytest.MonkeyPatch, ahead: dict[str, Any], wanted: list[Any]
) -> None:
    rest = None if len(ahead) > 2 else 0.0
    monkeypatch.setattr(checks, "seconds_ahead", lambda one: ahead.get(one.name, rest))
    assert seen(checks.clock(healthy)) == wanted


def test_the_clock_of_a_program_is_in_its_answer(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = datetime.now(UTC) + timedelta(days=2)

    def get(url: str, **more: Any) -> httpx.Response:
        return httpx.Response(200, headers={"Date": format_datetime(there, usegmt=True)})

    monkeypatch.setattr("hearth.doctor.checks_machine.httpx.get", get)
    ahead = checks.seconds_ahead(healthy.house.services["litellm"])
    assert ahead is not None
    assert abs(ahead - 2 * 86400) < 10


def test_a_clock_before_the_release_is_found(healthy: Context) -> None:
    release = healthy.root / "usr/lib/os-release"
    release.parent.mkdir(parents=True)
    release.touch()
    os.utime(release, (time.time() + 86400, time.time() + 86400))
    assert seen(checks.clock(healthy)) == [("HEARTH-CLOCK-WRONG", "")]


def authority(folder: Path, now: datetime) -> pki.Authority:
    made = pki.make_house_authority("lan", now)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "root.crt").write_text(made.root_cert_pem)
    (folder / "intermediate.crt").write_text(made.intermediate_cert_pem)
    return made


def test_certificates_near_their_end_are_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.fromtimestamp(healthy.now, UTC)
    made = authority(healthy.root / "etc/hearth/pki", now)
    monkeypatch.setattr(checks, "certificate_of", lambda address, fqdn: made.root_cert_pem)
    assert seen(checks.certificates(healthy)) == []
    old = now - pki.ROOT_LIFE * 0.9
    site = pki.make_house_authority("lan", old).root_cert_pem
    monkeypatch.setattr(
        checks, "certificate_of", lambda address, fqdn: site if fqdn == "chat.lan" else ""
    )
    assert seen(checks.certificates(healthy)) == [("HEARTH-CERTIFICATE-ENDING", "chat.lan")]
    authority(healthy.root / "etc/hearth/pki", now - pki.INTERMEDIATE_LIFE + timedelta(days=9))
    (first, _) = checks.certificates(healthy)
    assert "the intermediate expires in" in first.evidence


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ({}, []),
        ({(OWN, "chat.lan"): [OWN]}, []),
        # A router that asks the house.
        ({(ROUTER, "chat.lan"): [OWN]}, []),
        ({(ROUTER, "chat.lan"): ["10.0.0.7"]}, [("HEARTH-DNS-OTHER-SERVER", ROUTER)]),
        ({(OWN, "chat.lan"): ["10.0.0.7"]}, [("HEARTH-DNS-OTHER-SERVER", OWN)]),
        # It is not asked: the names of a home are nobody else's.
        ({("9.9.9.9", "chat.lan"): ["10.0.0.7"]}, []),
    ],
)
def test_another_server_for_the_houses_names_is_found(
    healthy: Context,
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[tuple[str, str], list[str]],
    wanted: list[Any],
) -> None:
    (healthy.root / "etc").mkdir()
    (healthy.root / "etc/resolv.conf").write_text(f"nameserver {ROUTER}\nnameserver 9.9.9.9\n")

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        queries = request["resolve"]
        return {"resolve": [(0, answers.get((server, name), [])) for server, name, _ in queries]}

    monkeypatch.setattr("hearth.doctor.checks_machine.environment.answer", answer)
    assert seen(checks.names(healthy)) == wanted


def test_an_address_that_changed_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "moved", lambda house: [])
    assert seen(checks.address(healthy)) == []
    monkeypatch.setattr(checks, "moved", lambda house: ["it was 192.168.1.8 and is now …"])
    assert seen(checks.address(healthy)) == [("HEARTH-ADDRESS-CHANGED", "")]


@pytest.mark.parametrize(
    ("listener", "hits"),
    [
        (Listener("tcp", "0.0.0.0", 80, "nginx.service"), {"caddy"}),
        (Listener("udp", OWN, 53, "named.service"), {"dnsmasq"}),
        (Listener("tcp", "127.0.0.1", 9180, "python3"), {"login"}),
        (Listener("tcp", "*", 443, "hearth-caddy.service"), None),
        (Listener("tcp", "0.0.0.0", 22, "ssh.service"), None),
    ],
)
def test_a_port_of_the_house_that_another_program_holds_is_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch, listener: Listener, hits: set[str] | None
) -> None:
    monkeypatch.setattr("hearth.doctor.checks_machine.facts.listeners", lambda: [listener])
    found = list(checks.ports(healthy))
    assert [one.kind.name for one in found] == (["HEARTH-PORT-TAKEN"] if hits else [])
    for one in found:
        assert {*one.hits} == hits
        assert listener.holder in one.evidence


def rules(*docker: dict[str, Any], policy: str = "drop") -> list[dict[str, Any]]:
    table = {"family": "ip", "table": "filter"}
    hook = {"type": "filter", "hook": "forward", "prio": 0, "policy": policy}
    jump = [{"jump": {"target": "DOCKER-USER"}}]
    return [
        {"chain": {**table, "name": "FORWARD", **hook}},
        {"chain": {**table, "name": "DOCKER-USER"}},
        {"rule": {**table, "chain": "FORWARD", "expr": jump}},
        *({"rule": {**table, "chain": "DOCKER-USER", **one}} for one in docker),
    ]


OURS = {
    "expr": [
        {"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "to-*"}},
        {"accept": None},
    ]
}


@pytest.mark.parametrize(
    ("ruleset", "wanted"),
    [
        ([], []),
        (rules(OURS), []),
        (rules(policy="accept"), []),
        (rules(), [("HEARTH-DOCKER-BLOCKS", "")]),
        (
            [
                {
                    "chain": {
                        "family": "inet",
                        "table": "mine",
                        "name": "fwd",
                        "type": "filter",
                        "hook": "forward",
                        "prio": 0,
                        "policy": "drop",
                    }
                }
            ],
            [("HEARTH-FIREWALL-BLOCKS", "")],
        ),
    ],
)
def test_firewalls_in_the_way_are_found(
    healthy: Context, monkeypatch: pytest.MonkeyPatch, ruleset: list[Any], wanted: list[Any]
) -> None:
    assert json.dumps(ruleset)
    monkeypatch.setattr("hearth.doctor.checks_machine.other_firewalls.ruleset", lambda: ruleset)
    assert seen(checks.firewalls(healthy)) == wanted


def test_a_flushed_firewall_is_found(healthy: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.doctor.checks_machine.other_firewalls.ruleset", list)
    row = Row("firewall", "part", False, "its rules were removed: run `hearth up`", 0)
    assert seen(checks.firewalls(with_row(healthy, row))) == [("HEARTH-FIREWALL-GONE", "")]


def test_a_machine_without_a_link_is_no_failure(
    healthy: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()

    def lan(*_: str) -> tuple[str, str]:
        raise FactsError("no default route")

    monkeypatch.setattr("hearth.machine.facts.lan", lan)
    house = replace(healthy.house, machine=replace(healthy.house.machine, lan_address="auto"))
    assert lan_address(house) is None
