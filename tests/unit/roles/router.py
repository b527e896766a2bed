"""A machine with the house's real ruleset, in network namespaces: instances, a LAN, a container."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.role_data import rendered_file, run_units

# Of the shipped inventory.
LITELLM, OLLAMA, KOKORO = "10.140.30.14", "10.140.30.10", "10.140.30.18"
FETCHER = "10.140.30.58"
LAN, CONTAINER, INTERNET = "192.0.2.99", "172.17.0.2", "9.9.9.9"
_LINKS = {LITELLM: "to-litellm", OLLAMA: "to-ollama", KOKORO: "to-kokoro", FETCHER: "to-fetcher"}
_OTHERS = {
    LAN: ("lan0", "192.0.2.10"),
    CONTAINER: ("docker0", "172.17.0.1"),
    INTERNET: ("wan0", "9.9.9.1"),
}
_LISTEN = """
import signal, socket, sys
servers = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("up", flush=True)
signal.pause()
"""
_KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.4).close()
    print("open")
except TimeoutError:
    print("silent")
except OSError as error:
    print("rejected" if error.errno in (1, 13, 113) else type(error).__name__)
"""


@dataclass(slots=True)
class Router:
    """The machine's namespace, and one for each address that it routes to."""

    holders: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    watch: list[str] = field(default_factory=list)

    def argv(self, where: str, *argv: str) -> list[str]:
        """Return the command that runs `argv` in a namespace; "" is the machine."""
        enter = ["nsenter", "--target", str(self.holders[where].pid), "--net"]
        enter += [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [*enter, *argv]

    def run(self, where: str, *argv: str, stdin: str = "") -> str:
        """Run a command, which must succeed, and return its output."""
        done = subprocess.run(
            self.argv(where, *argv), input=stdin, capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def load(self, rules: str) -> None:
        """Load rules of another program, as it would at its start."""
        self.run("", "nft", "-f", "-", stdin=rules)

    def knock(self, source: str, target: str, port: int) -> str:
        """Return what a connection from one place to another meets."""
        program = ("python3", "-I", "-c", _KNOCK, target, str(port))
        return self.run(source, *program).strip()

    def ruleset(self) -> list[dict[str, Any]]:
        """Return all rules as nft lists them."""
        return list(json.loads(self.run("", "nft", "--json", "list", "ruleset"))["nftables"])


@contextlib.contextmanager
def router(house: dict[str, Any], folder: Path) -> Iterator[Router]:
    """Give a machine whose LAN is `lan0`, with the house's ruleset and listeners everywhere.

    The house's units find their files in `folder`; `watch` is the command of hearth-firewall-watch.
    """
    made = Router()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    try:
        made.holders[""] = _holder(["unshare", "--net", *user])
        for address in (*_LINKS, *_OTHERS):
            made.holders[address] = _holder(made.argv("", "unshare", "--net"), 80, 443)
        made.run("", "sh", "-ec", _machine(made))
        for address in (*_LINKS, *_OTHERS):
            made.run(address, "sh", "-ec", _end(address))
        # No test machine has the users of a house.
        rules = rendered_file("firewall", "firewall.nft.j2", house)
        rules = re.sub('"(caddy|hearth-[a-z-]+)"', "33", rules)
        (folder / "firewall.nft").write_text(rules)
        units = run_units(house, "none")
        made.run("", *command(units["hearth-firewall"], folder))
        made.watch = made.argv("", *command(units["hearth-firewall-watch"], folder))
        yield made
    finally:
        for holder in made.holders.values():
            holder.kill()
            holder.communicate()


def _holder(start: list[str], *more: int) -> subprocess.Popen[str]:
    """Start a process that listens in a namespace of its own, and keeps that."""
    ports = map(str, (8080, 11434, *more))
    holder = subprocess.Popen(
        [*start, "python3", "-I", "-c", _LISTEN, *ports], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    assert holder.stdout.readline() == "up\n"
    return holder


def _machine(made: Router) -> str:
    """Return the script that makes the machine's links and routes."""
    lines = ["ip link set lo up", "echo 1 >/proc/sys/net/ipv4/ip_forward"]
    for address, link in _LINKS.items():
        lines += [
            f"ip link add {link} type veth peer name eth0 netns {made.holders[address].pid}",
            f"ip address add 169.254.0.1/32 dev {link}",
            f"ip link set {link} up",
            f"ip route add {address} dev {link}",
        ]
    for address, (link, own) in _OTHERS.items():
        lines += [
            f"ip link add {link} type veth peer name eth0 netns {made.holders[address].pid}",
            f"ip address add {own}/24 dev {link}",
            f"ip link set {link} up",
        ]
    return "\n".join(lines)


def _end(address: str) -> str:
    """Return the script that gives an end of a link its address and its way out."""
    lines = ["ip link set lo up", "ip link set eth0 up"]
    if address in _OTHERS:
        gateway = _OTHERS[address][1]
        lines += [f"ip address add {address}/24 dev eth0", f"ip route add default via {gateway}"]
    else:
        lines += [
            f"ip address add {address}/32 dev eth0",
            "ip route add default via 169.254.0.1 dev eth0 onlink",
        ]
    return "\n".join(lines)


def until(check: Callable[[], bool], within_s: float = 20) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def command(unit: str, folder: Path) -> list[str]:
    """Return the command of a rendered unit, with `folder` in place of the machine's own."""
    line = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    text = line.removeprefix("ExecStart=").replace("$$", "$").replace("%%", "%")
    for place in ("/run/hearth-firewall", "/etc/hearth"):
        text = text.replace(place, str(folder))
    return shlex.split(text)
