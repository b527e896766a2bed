"""The smoke tests of the network find each leak, and try all targets of an instance at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hearth import status
from hearth.catalogue.house import Flow
from hearth.machine import facts
from hearth.smoke import test_network as smoke
from hearth.smoke.hosts import Attempt
from hearth.smoke.plugin import NotMeasured
from hearth.smoke.test_network import Expected, Target

CLOSED, OTHER, DNS = ("10.0.0.2", 80), ("10.0.0.2", 81), ("10.0.0.1", 53)
SERVICE: Any = SimpleNamespace(name="ollama", instance="ollama")
HOUSE: Any = SimpleNamespace()


def neighbours(*_: Any) -> Expected:
    return Expected([CLOSED, OTHER], [CLOSED], open=[DNS])


def no_mirror(*_: Any) -> Expected:
    raise NotMeasured("no mirror")


def network(
    monkeypatch: pytest.MonkeyPatch, alone: str = "rejected", **outcomes: str
) -> Callable[[], Any]:
    """Return what judges a network: by default everything is as it should be."""
    known = {80: "silent", 81: "rejected", 53: "open"}
    known |= {int(port[1:]): outcome for port, outcome in outcomes.items()}

    def connections(
        instance: str, targets: Sequence[Target], last: Sequence[Target]
    ) -> list[Attempt]:
        together = [Attempt(*target, known[target[1]], 0.1) for target in targets]
        return [*together, *(Attempt(*target, alone, 0.1) for target in last)]

    monkeypatch.setattr(smoke, "connections", connections)
    monkeypatch.setattr(smoke, "EXPECTED", {"neighbours": neighbours, "mirrors": no_mirror})
    return lambda: smoke.problems(SERVICE, HOUSE)


def test_a_closed_network_has_no_problem_and_a_test_keeps_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = network(monkeypatch)()
    assert found["neighbours"] == ""
    assert str(found["mirrors"]) == "no mirror"


@pytest.mark.parametrize(
    ("outcomes", "problem"),
    [
        ({"p80": "open"}, "10.0.0.2 port 80: open"),
        ({"p81": "refused"}, "10.0.0.2 port 81: refused"),
        ({"p53": "rejected"}, "10.0.0.1 port 53: rejected"),
        ({"alone": "silent"}, "not rejected quickly: 10.0.0.2 port 80: silent"),
    ],
)
def test_each_leak_is_found(
    monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, str], problem: str
) -> None:
    assert network(monkeypatch, **outcomes)()["neighbours"].startswith(problem)


def test_a_refusal_may_be_as_good_as_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = network(monkeypatch, p80="refused")
    lenient = Expected([CLOSED], [], leaks=("open",))
    monkeypatch.setattr(smoke, "EXPECTED", {"lenient": lambda *_: lenient})
    assert judge() == {"lenient": ""}


@pytest.mark.parametrize(
    ("problems", "line"),
    [
        (("", ""), None),
        # The tests of each service tell which one.
        (("lost", ""), None),
        (("lost", "lost"), "nothing passes"),
    ],
)
def test_only_when_nothing_passes_no_other_test_is_worth_its_time(
    problems: Sequence[str], line: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = ("ollama", "kokoro", "login")
    flows = [Flow("litellm", name, "10.0.0.1", "10.0.0.2", 80) for name in targets]
    house: Any = SimpleNamespace(flows=flows, services=dict.fromkeys(("ollama", "kokoro")))
    # The last is a part: it is on the machine itself, and still answers.
    tried = dict(zip(flows, (*problems, ""), strict=True))
    monkeypatch.setattr(status, "try_needs", lambda _: tried)
    monkeypatch.setattr(status, "judge_needs", lambda *_: (False, "nothing passes"))
    monkeypatch.setattr(smoke, "SETTLED_S", 0)
    if line is None:
        smoke.test_instances_reach_each_other(house)
        return
    with pytest.raises(pytest.fail.Exception, match=line):
        smoke.test_instances_reach_each_other(house)


def local(**more: Any) -> Any:
    return SimpleNamespace(**{"name": "fetcher", "instance": "fetcher", "anywhere": True} | more)


def house(*egress: tuple[str, int]) -> Any:
    rows = [SimpleNamespace(source="fetcher", host=name, port=port) for name, port in egress]
    machine = SimpleNamespace(resolver_address="10.0.0.1")
    return SimpleNamespace(egress=rows, flows=[], machine=machine)


def expected(name: str, service: Any, whole: Any) -> Expected:
    return smoke.EXPECTED[f"test_an_instance_reaches_no_{name}"](service, whole)


def test_with_egress_to_everywhere_the_web_alone_is_open() -> None:
    everywhere = {*expected("public_address", local(), house()).closed}
    assert ("1.1.1.1", 443) not in everywhere
    assert {("1.1.1.1", 853), ("169.254.169.254", 80)} <= everywhere
    assert ("1.1.1.1", 443) in expected("public_address", local(anywhere=False), house()).closed


def test_devices_of_the_lan_are_closed_except_a_name_that_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: dict[str, list[dict[str, Any]]] = {
        "route": [{"gateway": "192.168.1.1", "dev": "lan0"}],
        "neigh": [
            {"dst": "10.140.30.14", "dev": "to-litellm"},
            {"dst": "192.168.1.1", "dev": "lan0"},
            {"dst": "192.168.1.5", "dev": "lan0"},
            {"dst": "192.168.1.6", "dev": "lan0"},
        ],
    }
    monkeypatch.setattr(facts, "ip", lambda _, what, *__: shown[what])
    monkeypatch.setattr(smoke, "dns_answers", lambda *_: [(0, ["192.168.1.5"])])
    devices = ("192.168.1.1", "192.168.1.5")
    all_of_them = {(device, port) for device in devices for port in (80, 443)}
    for one in (local(), local(anywhere=False)):
        assert {*expected("device_of_the_lan", one, house()).closed} == all_of_them
        found = expected("device_of_the_lan", one, house(("wiki.example.org", 443)))
        assert {*found.closed} == all_of_them - {("192.168.1.5", 443)}
    shown |= {"route": [], "neigh": []}
    with pytest.raises(NotMeasured, match="no other device"):
        expected("device_of_the_lan", local(), house())


def test_a_mirror_is_open_to_a_service_that_goes_anywhere_on_the_webs_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smoke, "mirrors", lambda: {"deb.example.org"})
    monkeypatch.setattr(smoke, "dns_answers", lambda *_: [(0, ["9.9.9.9"])])
    closed = expected("name_outside_its_egress", local(), house()).closed
    assert closed == [("9.9.9.9", 22)]
    closed = expected("name_outside_its_egress", local(anywhere=False), house()).closed
    assert closed == [("9.9.9.9", 443)]
    outcomes = {None: "open", "fetcher": "open"}

    def connections(where: str | None, targets: Sequence[Target]) -> list[Attempt]:
        return [Attempt(*target, outcomes[where], 0.1) for target in targets]

    monkeypatch.setattr(smoke, "connections", connections)
    smoke.test_egress_to_every_public_address_is_open(local(), house())
    outcomes["fetcher"] = "rejected"
    with pytest.raises(AssertionError, match="port 80: rejected"):
        smoke.test_egress_to_every_public_address_is_open(local(), house())
    outcomes[None] = "silent"
    with pytest.raises(NotMeasured, match="does not reach"):
        smoke.test_egress_to_every_public_address_is_open(local(), house())
