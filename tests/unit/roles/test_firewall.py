"""The machine's firewall, as it is rendered for a record that names callers."""

from __future__ import annotations

import copy
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.role_data import ROLES, read, reference_house, rendered_file, run_units
from tests.unit.roles.router import command

CALLERS = ["192.0.2.20", "192.0.2.0/28"]


def rules(house: dict[str, Any]) -> list[str]:
    """Return the lines of the ruleset that send a caller on into an instance."""
    text = rendered_file("firewall", "firewall.nft.j2", house)
    return [line.strip() for line in text.splitlines() if "dnat ip to" in line]


def test_a_port_is_forwarded_for_its_clients_and_only_at_the_machines_address(
    tmp_path: Path,
) -> None:
    shipped = reference_house(tmp_path)
    assert rules(shipped) == []
    house = copy.deepcopy(shipped)
    house["services"]["whisper"]["publish_tcp"] = {"10300": CALLERS}
    # A machine that routes for a caller leaves alone what he sends to that port of others.
    assert rules(house) == [
        'iifname "lan0" ip saddr { 192.0.2.20, 192.0.2.0/28 } fib daddr type local '
        "tcp dport 10300 dnat ip to 10.140.30.30:10300"
    ]


def test_each_set_that_the_file_fills_is_compared_by_the_next_run(tmp_path: Path) -> None:
    text = rendered_file("firewall", "firewall.nft.j2", reference_house(tmp_path))
    sets = re.findall(r"^\tset (\w+) \{\n([^}]*)", text, re.MULTILINE)
    filled = {name for name, body in sets if "elements" in body}
    observed = read(ROLES / "firewall/vars/main.yml")["__firewall_observed"]
    listed = {words[-1] for words in observed if "set" in words}
    # The table itself is listed without what its sets hold, since the resolver fills some.
    assert {"flows", "links", "published"} <= filled == listed


# A kernel's routing rules as lines of a file: the same one twice is refused, as the kernel does.
IP = """#!/bin/sh
echo "ip $*" >>"$KERNEL/log"
case "$1 $2" in
"rule add") ! grep -qxF "$*" "$KERNEL/rules" && echo "$*" >>"$KERNEL/rules" ;;
"rule delete") grep -q " pref $4 " "$KERNEL/rules" && sed -i "0,/ pref $4 /{//d}" "$KERNEL/rules" ;;
esac
"""
NFT = """#!/bin/sh
echo "nft $*" >>"$KERNEL/log"
test "$1" != -f || exit "$LOADS"
"""
WAYS = ["302 from 10.140.30.0/24", "303 to 10.140.30.0/24"]


@dataclass(slots=True)
class Kernel:
    """What hearth-firewall.service is started on: a stand-in for the machine's own programs."""

    folder: Path
    command: list[str]

    def load(self, works: bool) -> int:
        """Start the unit's program; say how it ends where the ruleset loads, or does not."""
        (self.folder / "log").write_text("")
        env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        env |= {"KERNEL": str(self.folder), "LOADS": "0" if works else "1"}
        return subprocess.run(self.command, env=env, timeout=60, check=False).returncode

    def ways(self) -> list[str]:
        """Return what is closed to a packet that no rule has judged."""
        lines = (self.folder / "rules").read_text().splitlines()
        kept = [line for line in lines if "fwmark 0/0x08000000 prohibit" in line]
        return sorted(line.split("pref ")[1].partition(" fwmark")[0] for line in kept)

    def calls(self) -> list[str]:
        """Return the commands of the last start, one in a line."""
        return (self.folder / "log").read_text().splitlines()


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    (tmp_path / "inventory").mkdir()
    unit = run_units(reference_house(tmp_path / "inventory"), "none")["hearth-firewall"]
    folder = tmp_path / "kernel"
    folder.mkdir()
    for name, text in (("ip", IP), ("nft", NFT), ("rules", "")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return Kernel(folder, command(unit, folder))


def test_a_ruleset_that_does_not_load_leaves_all_ports_closed(kernel: Kernel) -> None:
    assert kernel.load(works=False) != 0
    assert kernel.ways() == WAYS
    # Tried again and again, with no moment in which they are open.
    assert kernel.load(works=False) != 0
    assert kernel.ways() == WAYS
    assert not [line for line in kernel.calls() if "delete" in line]
    assert kernel.load(works=True) == 0
    assert kernel.ways() == WAYS


def test_rules_of_a_previous_address_range_are_removed(kernel: Kernel) -> None:
    old = "rule add pref 302 from 10.99.0.0/24 fwmark 0/0x08000000 prohibit protocol kernel\n"
    (kernel.folder / "rules").write_text(old)
    assert kernel.load(works=True) == 0
    assert kernel.ways() == WAYS
    calls = kernel.calls()
    loaded = next(number for number, line in enumerate(calls) if line.startswith("nft -f"))
    assert all(number > loaded for number, line in enumerate(calls) if "delete" in line)
