"""The labs' LANs on the outer machine: one bridge per house, one nftables table for all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.lab_machine.command import LabError, call
from tests.lab_machine.model import Machine
from tests.lab_machine.steps import remark

TABLE = "inet hearth_lab"
CACHE_PORT, UPSTREAMS_PORT, SCRIPTED_PORT = 3142, 8443, 8480


def ruleset(machines: Iterable[Machine]) -> str:
    """The whole nftables table as text: egress, isolation of labs, services for labs only."""
    nets = sorted({machine.net for machine in machines})
    apart = "".join(
        f"    ip saddr 10.99.{net}.0/24 ip daddr 10.99.0.0/16 ip daddr != 10.99.{net}.0/24 drop\n"
        for net in nets
    )
    outer = ", ".join(f"10.99.{net}.1" for net in nets) or "10.99.0.1"
    return (
        f"add table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n"
        "  chain nat {\n    type nat hook postrouting priority srcnat; policy accept;\n"
        '    ip saddr 10.99.0.0/16 oifname != "hl-*" masquerade\n  }\n'
        # Port 443 of this machine may be taken by a house that runs on it.
        "  chain upstreams {\n    type nat hook prerouting priority dstnat; policy accept;\n"
        f'    iifname "hl-*" tcp dport 443 ip daddr {{ {outer} }} redirect to :{UPSTREAMS_PORT}\n'
        "  }\n"
        "  chain forward {\n    type filter hook forward priority filter; policy accept;\n"
        f"{apart}  }}\n"
        "  chain input {\n    type filter hook input priority filter; policy accept;\n"
        f'    iifname != {{ "lo", "hl-*" }} tcp dport {CACHE_PORT} drop\n  }}\n'
        "}\n"
    )


def load_rules(machines: Iterable[Machine]) -> None:
    """Replace the labs' table in one transaction."""
    call(["nft", "-f", "-"], stdin=ruleset(machines))


def drop_rules() -> None:
    """Remove the labs' table if it exists."""
    call(["nft", "-f", "-"], stdin=f"add table {TABLE}\ndelete table {TABLE}\n")


def create(machine: Machine) -> None:
    """Create the LAN of a house, with the outer machine's address on it."""
    if exists(machine.bridge):
        return
    if machine.net in busy_nets():
        raise LabError(f"{machine.outer_address}: this machine already has an address in that LAN")
    call(["ip", "link", "add", machine.bridge, "type", "bridge"])
    call(["ip", "address", "add", f"{machine.outer_address}/24", "dev", machine.bridge])
    call(["ip", "link", "set", machine.bridge, "up"])
    remark(
        f"outer machine: bridge {machine.bridge} with {machine.outer_address}/24, "
        f"resolver on it, nftables table {TABLE}, package cache on port {CACHE_PORT}"
    )


def delete(interface: str) -> None:
    """Remove an interface if it exists."""
    if exists(interface):
        call(["ip", "link", "delete", interface], check=False)


def exists(interface: str) -> bool:
    """Whether the outer machine has an interface of this name."""
    return Path(f"/sys/class/net/{interface}").exists()


def busy_nets() -> set[int]:
    """The N of every 10.99.N.0/24 in which this machine already has an address."""
    return parse_nets(call(["ip", "-o", "-4", "address", "show"]).stdout)


def parse_nets(addresses: str) -> set[int]:
    """The N of every 10.99.N.x in the output of `ip -o -4 address show`."""
    return {int(net) for net in re.findall(r" inet 10\.99\.(\d+)\.\d+", addresses)}
