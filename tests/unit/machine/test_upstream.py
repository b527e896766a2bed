"""The house's upstream DNS servers: never the house itself, whatever the network announces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hearth.machine.facts import RESOLVER_FILE, choose_upstream, configured_upstream
from tests.unit.machine.samples import HOUSE

RESOLVER = "10.140.30.1"
OWN = ["127.0.0.1", "::1", "192.0.2.10", "fe80::a", "2001:db8::a"]
ROUTER = "192.0.2.1"
AUTO = replace(HOUSE.machine, upstream_dns="auto", resolver_address=RESOLVER)


def machine(root: Path, resolv_conf: str | None, resolver: str = "", stub: str = "") -> Path:
    """Write what a machine and the house's resolver know."""
    files = {"etc/resolv.conf": resolv_conf, RESOLVER_FILE: resolver or None}
    files["run/systemd/resolve/resolv.conf"] = stub or None
    for name, text in files.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("resolv_conf", "servers"),
    [
        ("search lan\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n", [ROUTER, "2001:db8::1"]),
        # The router hands out the house, and itself beside it.
        ("nameserver 192.0.2.10\nnameserver 192.0.2.1\n", [ROUTER]),
        ("nameserver fe80::a%lan0\nnameserver fe80::1%lan0\n", ["fe80::1%lan0"]),
        ("nameserver 2001:0db8:0::A\nnameserver 192.0.2.1\n", [ROUTER]),
        # The house's machine is set to query the house, through the instances' resolver.
        ("nameserver 10.140.30.1\nnameserver 192.0.2.1\n", [ROUTER]),
        ("nameserver 127.0.0.1\nnameserver 192.0.2.1\n", [ROUTER]),
        ("nameserver\nnameserver my-router\nnameserver 192.0.2.1\n", [ROUTER]),
    ],
)
def test_the_machines_servers_are_used_except_the_house(
    tmp_path: Path, resolv_conf: str, servers: list[str]
) -> None:
    assert choose_upstream(AUTO, OWN, machine(tmp_path, resolv_conf)) == (tuple(servers), "known")


def test_the_servers_behind_a_stub_are_used(tmp_path: Path) -> None:
    root = machine(tmp_path, "nameserver 127.0.0.53\n", stub="nameserver 192.0.2.1\n")
    assert choose_upstream(AUTO, OWN, root) == ((ROUTER,), "known")


@pytest.mark.parametrize(
    "resolv_conf",
    ["nameserver 192.0.2.10\n", "nameserver 127.0.0.1\n", "nameserver 10.140.30.1\n"],
)
def test_a_machine_that_knows_only_the_house_is_seen(tmp_path: Path, resolv_conf: str) -> None:
    assert choose_upstream(AUTO, OWN, machine(tmp_path, resolv_conf)) == ((), "itself")


@pytest.mark.parametrize("resolv_conf", [None, "search lan\n", "nameserver 127.0.0.53\n"])
def test_a_machine_without_servers_is_detected(tmp_path: Path, resolv_conf: str | None) -> None:
    assert choose_upstream(AUTO, OWN, machine(tmp_path, resolv_conf)) == ((), "none")


@pytest.mark.parametrize("resolv_conf", [None, "nameserver 192.0.2.10\n"])
def test_a_house_goes_on_asking_whom_it_asked(tmp_path: Path, resolv_conf: str | None) -> None:
    resolver = "server=192.0.2.10\nserver=192.0.2.1\nlocal=/lan/\n#server=192.0.2.3\n"
    root = machine(tmp_path, resolv_conf, resolver)
    assert choose_upstream(AUTO, OWN, root) == ((ROUTER,), "kept")
    assert configured_upstream(root) == ["192.0.2.10", ROUTER]


def test_what_the_record_names_wins_but_for_the_house(tmp_path: Path) -> None:
    root = machine(tmp_path, "nameserver 192.0.2.1\n")
    named = replace(
        AUTO,
        upstream_dns=(
            "192.0.2.10",
            "9.9.9.9",
        ),
    )
    assert choose_upstream(named, OWN, root) == (("9.9.9.9",), "known")
    named = replace(AUTO, upstream_dns=("192.0.2.10",))
    assert choose_upstream(named, OWN, root) == ((), "itself")
