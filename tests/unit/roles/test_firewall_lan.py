"""What the machine's firewall leaves open to the LAN, as it is rendered."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.role_data import reference_house, rendered_file
from tests.unit.roles.router import LAN, router

ELSEWHERE = 'iifname "lan0" ip6 daddr != fe80::/10'


def test_the_houses_ports_are_closed_at_routable_ipv6_addresses(
    tmp_path: Path,
) -> None:
    text = rendered_file("firewall", "firewall.nft.j2", reference_house(tmp_path))
    chain = text.partition("chain input {")[2].partition("\n\t}")[0]
    rules = [line.strip() for line in chain.splitlines()]
    shut = [rules.index(line) for line in rules if line.startswith(ELSEWHERE)]
    assert [rules[at].partition(ELSEWHERE)[2].strip() for at in shut] == [
        "tcp dport { 53, 80, 443 } reject with tcp reset",
        "udp dport 53 reject with icmpx admin-prohibited",
    ]
    # Who is refused takes no place among those whose questions are counted.
    counted = [at for at, line in enumerate(rules) if line.endswith("jump dns_limit")]
    assert counted
    assert max(shut) < min(counted)


SERVE = """
import signal, socket
server = socket.create_server(("", 443), backlog=200)
print("up", flush=True)
signal.pause()
"""
CONNECT = """
import json, socket, struct, time
held, outcomes = [], []
def connect():
    try:
        held.append(socket.create_connection(("192.0.2.10", 443), 5))
    except OSError as error:
        return type(error).__name__
    return "open"
outcomes = [connect() for _ in range(103)]
held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
held.pop().close()
# The kernel counts again from time to time.
for _ in range(100):
    if (again := connect()) == "open":
        break
    time.sleep(0.05)
print(json.dumps([outcomes.count("open"), outcomes[-1], again]))
"""


def test_one_device_cannot_take_all_connections(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a network of its own needs root")
    (tmp_path / "house").mkdir()
    with router(reference_house(tmp_path / "house"), tmp_path) as made:
        server = subprocess.Popen(
            made.argv("", "python3", "-I", "-c", SERVE), stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout
            assert server.stdout.readline() == "up\n"
            found = json.loads(made.run(LAN, "python3", "-I", "-c", CONNECT))
        finally:
            server.kill()
            server.communicate()
    # A connection that is closed makes room for another.
    assert found == [100, "ConnectionRefusedError", "open"]
