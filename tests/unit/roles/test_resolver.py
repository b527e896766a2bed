"""The resolver follows the LAN's address: the real dnsmasq, in a network of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.role_data import reference_house, rendered_file

OLD, NEW, PORTAL = "192.0.2.10", "198.51.100.77", "10.140.30.1"
# The commands that a DHCP client sends to the kernel, and a device's queries.
FOLLOW = """
import json, subprocess, sys, time
from hearth.machine.probe import answer

old, new, portal, *dnsmasq = sys.argv[1:]

def ip(*words):
    subprocess.run(["/usr/sbin/ip", *words], check=True)

def resolve(server, wanted):
    # dnsmasq learns of a change from the kernel, a moment after it.
    for _ in range(100):
        ((_, found),) = answer({"resolve": [[server, "chat.lan", "A"]]})["resolve"]
        if found == [wanted]:
            break
        time.sleep(0.05)
    return found

ip("link", "set", "lo", "up")
ip("address", "add", f"{portal}/32", "dev", "lo")
ip("link", "add", "lan0", "type", "veth", "peer", "name", "cable")
ip("link", "set", "cable", "up")
ip("link", "set", "lan0", "up")
ip("address", "add", f"{old}/24", "dev", "lan0")
with subprocess.Popen(dnsmasq) as server:
    try:
        found = [resolve(old, old), resolve(portal, old)]
        ip("address", "add", f"{new}/24", "dev", "lan0")
        ip("address", "del", f"{old}/24", "dev", "lan0")
        found += [resolve(new, new), resolve(portal, new)]
    finally:
        server.terminate()
print(json.dumps(found))
"""


# A resolver outside the house, and what a device gets from the house's.
FORWARD = """
import json, subprocess, sys, time
from hearth.machine.probe import answer

outside, portal, names, *dnsmasq = sys.argv[1:]
rows = [f"--address=/{name}/{address}" for name, address in json.loads(names).items()]
subprocess.run(["/usr/sbin/ip", "link", "set", "lo", "up"], check=True)
for own in outside, portal:
    subprocess.run(["/usr/sbin/ip", "address", "add", f"{own}/32", "dev", "lo"], check=True)
other = ["/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv",
         "--no-hosts", "--port=5300", "--pid-file=", f"--listen-address={outside}",
         "--bind-interfaces", *rows]

def resolve(name):
    ((_, found),) = answer({"resolve": [[portal, name, "A"]]})["resolve"]
    return found

with subprocess.Popen(other) as upstream, subprocess.Popen(dnsmasq) as server:
    try:
        # The first answer shows that both run.
        while not resolve("one.example"):
            time.sleep(0.05)
        print(json.dumps({name: resolve(name) for name in json.loads(names)}))
    finally:
        server.terminate()
        upstream.terminate()
"""


def test_names_follow_the_address_without_a_restart(tmp_path: Path) -> None:
    text = rendered_file("dnsmasq", "dnsmasq.conf.j2", reference_house(tmp_path))
    done = in_a_network(text, FOLLOW, OLD, NEW, PORTAL)
    assert json.loads(done) == [[OLD], [OLD], [NEW], [NEW]]


def test_a_foreign_name_with_a_private_address_is_dropped(tmp_path: Path) -> None:
    names = {
        "one.example": "93.184.216.34",
        "router.example": "192.168.1.1",
        "nas.example": "10.0.0.5",
        "loopback.example": "127.0.0.1",
        "fritz.box": "192.168.178.1",
        "nas.fritz.box": "192.168.178.20",
        # Someone may have a mirror of their own.
        "registry.ollama.ai": "10.99.0.1",
    }
    outside = "192.0.2.1"
    text = rendered_file("dnsmasq", "dnsmasq.conf.j2", reference_house(tmp_path))
    text += f"server={outside}#5300\n"
    found = json.loads(in_a_network(text, FORWARD, outside, PORTAL, json.dumps(names)))
    dropped = {"router.example", "nas.example", "loopback.example"}
    assert found == {name: [] if name in dropped else [names[name]] for name in names}


def in_a_network(text: str, program: str, *arguments: str) -> str:
    """Run a program in a network of its own, with dnsmasq's command; return its output."""
    if os.geteuid() != 0:
        pytest.skip("a network of its own needs root")
    # As the unit starts it: another user with two capabilities.
    held = "+net_bind_service,+net_admin"
    start = ["/usr/bin/setpriv", "--reuid=65534", "--clear-groups", f"--inh-caps={held}"]
    start += [f"--ambient-caps={held}", "/usr/sbin/dnsmasq", "--keep-in-foreground"]
    argv = ["/usr/bin/unshare", "--net", sys.executable, "-c", program, *arguments, *start]
    done = subprocess.run(
        # From its standard input, since another user cannot enter the test's folder.
        [*argv, "--conf-file=-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
