"""The house's ruleset beside those of other programs, in the real kernel."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.machine import other_firewalls
from hearth.machine.other_firewalls import find, firewall_problems
from hearth.remove import run, whole_house
from tests.role_data import reference_house
from tests.unit.roles.router import CONTAINER, KOKORO, LAN, LITELLM, OLLAMA, Router, router, until

INSTANCES = "10.140.30.0/24"
# As Docker makes them through iptables where forwarding was off when it started.
DOCKER = """
table ip filter {
	chain DOCKER { }
	chain DOCKER-USER { counter return; }
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
		counter jump DOCKER-USER
		oifname "docker0" ct state related,established counter accept
		oifname "docker0" counter jump DOCKER
		iifname "docker0" oifname != "docker0" counter accept
	}
}
"""
# https://tailscale.com/kb/1294/netfilter-modes: what it adds to iptables and to the routing rules.
TAILSCALE = """
table ip filter {
	chain ts-forward {
		iifname "tailscale0" counter meta mark set mark and 0xff00ffff xor 0x40000
		meta mark & 0x00ff0000 == 0x00040000 counter accept
		ip saddr 100.64.0.0/10 oifname "tailscale0" counter drop
		oifname "tailscale0" counter accept
	}
	chain ts-input {
		ip saddr 100.101.102.103 iifname "lo" counter accept
		ip saddr 100.115.92.0/23 iifname != "tailscale0" counter return
		ip saddr 100.64.0.0/10 iifname != "tailscale0" counter drop
		iifname "tailscale0" counter accept
	}
	chain FORWARD {
		type filter hook forward priority filter; policy accept;
		counter jump ts-forward
	}
	chain INPUT {
		type filter hook input priority filter; policy accept;
		counter jump ts-input
	}
}
table ip nat {
	chain ts-postrouting { meta mark & 0x00ff0000 == 0x00040000 counter masquerade; }
	chain POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept; counter jump ts-postrouting;
	}
}
"""
TAILSCALE_WAYS = ("5210 fwmark 0x80000/0xff0000 lookup main", "5270 lookup 52")
LIBVIRT = """
table ip libvirt_network {
	chain guest_input {
		oifname "virbr0" ip daddr 192.168.122.0/24 ct state related,established counter accept
		oifname "virbr0" counter reject
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
		counter jump guest_input
	}
}
"""
UFW = """
table ip filter {
	chain ufw-user-forward { }
	chain ufw-before-forward {
		ct state related,established counter accept
		counter jump ufw-user-forward
	}
	chain ufw-user-input { }
	chain FORWARD {
		type filter hook forward priority filter; policy drop; counter jump ufw-before-forward;
	}
	chain INPUT {
		type filter hook input priority filter; policy drop;
		counter jump ufw-user-input
	}
}
"""
UFW_CURED = f"""
add rule ip filter ufw-user-forward ip saddr {INSTANCES} counter accept
add rule ip filter ufw-user-forward ip daddr {INSTANCES} counter accept
add rule ip filter ufw-user-input ip saddr {INSTANCES} counter accept
"""
FIREWALLD = """
table inet firewalld {
	chain filter_FWD_trusted { accept; }
	chain filter_FWD_public { reject with icmpx admin-prohibited; }
	chain filter_FORWARD_POLICIES { goto filter_FWD_public; }
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state established,related accept
		ct status dnat accept
		jump filter_FORWARD_POLICIES
		reject with icmpx admin-prohibited
	}
}
"""
FIREWALLD_CURED = (
    f"insert rule inet firewalld filter_FORWARD_POLICIES ip saddr {INSTANCES} "
    "goto filter_FWD_trusted"
)
OWN = """
table inet mine {
	chain passing { type filter hook forward priority 5; policy accept; counter jump rest; }
	chain rest { log prefix "gone" drop; }
}
"""
OWN_CURED = 'insert rule inet mine passing oifname "to-*" accept'


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Router]:
    (tmp_path / "inventory").mkdir()
    with router(reference_house(tmp_path / "inventory"), tmp_path) as made:
        yield made


@pytest.fixture
def watched(machine: Router) -> Iterator[Router]:
    """The machine with hearth-firewall-watch."""
    with subprocess.Popen(machine.watch, start_new_session=True) as watch:
        yield machine
        os.killpg(watch.pid, signal.SIGKILL)


def ways(machine: Router) -> dict[str, str]:
    """Return what an allowed connection meets, and some that no need allows."""
    return {
        "need": machine.knock(LITELLM, OLLAMA, 11434),
        "no need": machine.knock(KOKORO, OLLAMA, 11434),
        "from a container": machine.knock(CONTAINER, OLLAMA, 11434),
        "to a container": machine.knock(LITELLM, CONTAINER, 8080),
    }


GOOD = {
    "need": "open",
    "no need": "rejected",
    "from a container": "rejected",
    "to a container": "rejected",
}


def ours(machine: Router) -> int:
    """Count the house's rules in Docker's chain."""
    return machine.run("", "nft", "list", "chain", *whole_house.DOCKER).count('comment "Hearth"')


def test_the_house_alone_lets_needs_pass(machine: Router) -> None:
    assert ways(machine) == GOOD
    assert find(machine.ruleset(), INSTANCES) == []


def test_dockers_rules_stop_a_house_without_its_watch(machine: Router) -> None:
    machine.load(DOCKER)
    assert ways(machine)["need"] == "silent"


def test_the_watch_opens_dockers_rules_whenever_docker_makes_them(watched: Router) -> None:
    watched.load(DOCKER)
    until(lambda: ours(watched) == 2)
    assert ways(watched) == GOOD
    assert watched.knock(CONTAINER, LAN, 8080) == "open"
    assert find(watched.ruleset(), INSTANCES) == []
    # As after a reboot, or where a person has emptied the chain.
    watched.run("", "nft", "flush", "chain", *whole_house.DOCKER)
    until(lambda: ours(watched) == 2)
    watched.run("", "nft", "delete", "table", *whole_house.DOCKER[:2])
    watched.load(DOCKER)
    until(lambda: ours(watched) == 2)
    assert ways(watched) == GOOD


def test_removal_leaves_dockers_rules_as_they_were(
    machine: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_house, "run", lambda *argv: run(*machine.argv("", *argv)))
    assert not [one for one in whole_house.firewall(tmp_path) if "Docker" in one.what]
    machine.load(DOCKER)
    before = machine.run("", "nft", "--stateless", "list", "table", "ip", "filter")
    machine.load(f'insert rule {" ".join(whole_house.DOCKER)} counter comment "theirs"')
    for direction in ("iifname", "oifname"):
        rule = f'{direction} "to-*" accept comment "Hearth"'
        machine.load(f"insert rule {' '.join(whole_house.DOCKER)} {rule}")
    (trace,) = [one for one in whole_house.firewall(tmp_path) if "Docker" in one.what]
    trace.remove()
    after = machine.run("", "nft", "--stateless", "list", "table", "ip", "filter")
    assert after.replace('counter comment "theirs"\n', "").split() == before.split()
    assert "theirs" in after


@pytest.mark.parametrize("rules", [TAILSCALE, LIBVIRT], ids=["tailscale", "libvirt"])
def test_programs_that_need_nothing(machine: Router, rules: str) -> None:
    machine.load(rules)
    for way in TAILSCALE_WAYS if rules == TAILSCALE else ():
        machine.run("", "ip", "rule", "add", "pref", *way.split())
    assert find(machine.ruleset(), INSTANCES) == []
    assert ways(machine) == GOOD


@pytest.mark.parametrize(
    ("rules", "cure", "line"),
    [
        (UFW, UFW_CURED, "ufw would drop packets of the house's instances and devices: run `ufw"),
        (FIREWALLD, FIREWALLD_CURED, "firewalld would drop packets of the house's instances"),
        (OWN, OWN_CURED, "the chain `inet mine passing` of another firewall drops packets"),
    ],
    ids=["ufw", "firewalld", "own"],
)
def test_a_firewall_that_stops_the_house_is_named_until_it_is_told(
    machine: Router, rules: str, cure: str, line: str
) -> None:
    machine.load(rules)
    assert ways(machine)["need"] != "open"
    (found,) = find(machine.ruleset(), INSTANCES)
    assert found.startswith(line)
    machine.load(cure)
    assert ways(machine) == GOOD
    assert find(machine.ruleset(), INSTANCES) == []


def test_input_alone_is_named_too(machine: Router) -> None:
    machine.load(
        "table inet mine { chain arriving { type filter hook input priority 0; policy drop; }; }"
    )
    (found,) = find(machine.ruleset(), INSTANCES)
    assert found.startswith("the chain `inet mine arriving` of another firewall drops")
    assert "53, 80 and 443" in found


def test_rules_of_the_older_iptables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = {"/usr/sbin/iptables-legacy": "-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n"}
    monkeypatch.setattr(other_firewalls, "_output", lambda *argv: printed.get(argv[0], ""))
    assert firewall_problems(INSTANCES, tmp_path) == []
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/ip_tables_names").write_text("nat\nfilter\n")
    (line,) = firewall_problems(INSTANCES, tmp_path)
    assert line.startswith("iptables-legacy drops forwarded packets")
    printed.clear()
    assert firewall_problems(INSTANCES, tmp_path) == []
