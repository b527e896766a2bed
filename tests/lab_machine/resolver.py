"""A real dnsmasq at the outer end of a lab machine's link; it resolves the mock upstreams."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab_machine import process
from tests.lab_machine.command import LabError, call
from tests.lab_machine.model import Machine

_HOST = re.compile(r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9-]{1,63}")


def upstreams(resolv_conf: str) -> list[str]:
    """The IPv4 and IPv6 resolvers that a resolv.conf names."""
    rows = (line.split() for line in resolv_conf.splitlines())
    return [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver"]


def config(machine: Machine, servers: Sequence[str]) -> str:
    """The dnsmasq configuration of one house: its own names first, the rest from `servers`."""
    lines = [
        *("no-hosts", "no-resolv", "bind-interfaces", "cache-size=1000", "log-queries"),
        f"listen-address={machine.outer_address}",
        f"log-facility={machine.folder / 'dns.log'}",
        *(f"server={server}" for server in servers),
    ]
    for name, address in sorted(machine.names.items()):
        # `local` keeps other queries (AAAA, HTTPS) for the name from the real internet.
        lines += [f"local=/{name}/", f"address=/{name}/{address}"]
    return "\n".join(lines) + "\n"


def check_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return the pairs of host name and address if all are valid; names include subdomains."""
    for name, address in names.items():
        if not _HOST.fullmatch(name):
            raise LabError(f"{name!r} is not a valid host name; write one such as github.com")
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise LabError(
                f"{name}: {address!r} is not a valid address; write one such as 10.99.1.1"
            ) from None
    return dict(names)


def start(machine: Machine) -> None:
    """Run the resolver of a house with its current names, in place of an older one."""
    stop(machine)
    servers = upstreams(Path("/etc/resolv.conf").read_text())
    if not servers:
        raise LabError("/etc/resolv.conf names no resolver; the lab forwards queries to one")
    path = machine.folder / "dnsmasq.conf"
    path.write_text(config(machine, servers))
    call(["dnsmasq", "--test", f"--conf-file={path}"])
    process.spawn(
        record(machine),
        ["dnsmasq", "--keep-in-foreground", f"--conf-file={path}", "--pid-file="],
        log=machine.folder / "dnsmasq.log",
    )


def stop(machine: Machine) -> None:
    """End the resolver of a house."""
    process.end(record(machine))


def record(machine: Machine) -> Path:
    """The record of its process."""
    return machine.folder / "run" / "dnsmasq"
