"""The ruleset keeps its word while it changes, is flushed, and is asked too often."""

import shlex
import time

import pytest

from tests.lab.house import FLUSH, House

pytestmark = pytest.mark.lab

LITELLM, OLLAMA, WHISPER = "10.140.30.12", "10.140.30.11", "10.140.30.16"
RESOLVER = "10.140.30.1"
HEALED_S = 10
# A connection that a need allows, kept open byte by byte as a long answer keeps one.
HOLD = f"""
import socket, time
plug = socket.create_connection(("{WHISPER}", 8000), 5)
print("held", flush=True)
try:
    for _ in range(100):
        plug.sendall(b"x")
        time.sleep(0.1)
    print("still open")
except OSError as error:
    print(type(error).__name__)
"""
KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
    print("open")
except OSError as error:
    print(type(error).__name__, error.errno)
"""
# One name, asked as fast as a program that has gone mad can.
ASK = f"""
import select, socket, sys, time
plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plug.connect(("{RESOLVER}", 53))
name = b"".join(bytes([len(p)]) + p for p in (b"llm", b"lan")) + b"\\0\\0\\1\\0\\1"
heard = 0
for number in range(int(sys.argv[1])):
    plug.send(number.to_bytes(2, "big") + b"\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name)
    while select.select([plug], [], [], 0)[0]:
        plug.recv(512)
        heard += 1
end = time.monotonic() + 1
while select.select([plug], [], [], max(0, end - time.monotonic()))[0]:
    plug.recv(512)
    heard += 1
print(heard)
"""


def inside(instance: str, program: str, *words: str) -> str:
    """Return the line of a shell that runs a program in an instance."""
    argv = ["incus", "exec", instance, "--", "timeout", "60", "python3", "-c", program, *words]
    return shlex.join(argv) + " </dev/null"


def test_a_need_that_goes_takes_its_connections_along(house: House) -> None:
    flow = f"'{{ {LITELLM} . {WHISPER} . 8000 }}'"
    with house.spending("the firewall, changed, flushed and flooded", 0.5):
        said = house.shell(
            f"{inside('litellm', HOLD)} >/tmp/held & held=$!\n"
            "until grep -q held /tmp/held; do sleep 0.1; done\n"
            f"nft delete element inet hearth flows {flow}\n"
            f"wait $held; nft add element inet hearth flows {flow}; cat /tmp/held"
        )
    assert said.split() == ["held", "ConnectionResetError"]


def test_a_ruleset_loaded_anew_leaves_what_is_allowed_alone(house: House) -> None:
    said = house.shell(
        f"{inside('litellm', HOLD)} >/tmp/held & held=$!\n"
        "until grep -q held /tmp/held; do sleep 0.1; done\n"
        "nft -f /etc/hearth/firewall.nft; systemctl try-restart hearth-dnsmasq\n"
        "wait $held; cat /tmp/held"
    )
    assert said.split() == ["held", "still", "open"]


def test_the_watch_over_the_ruleset_stays_up(house: House) -> None:
    unit = "hearth-firewall-watch.service"
    house.shell(f"systemctl restart {unit}; sleep 3; systemctl is-active {unit}")
    assert house.shell(f"systemctl show --property=NRestarts --value {unit}").strip() == "0"


def test_a_flushed_ruleset_opens_no_way_and_comes_back_by_itself(house: House) -> None:
    house.shell(f"systemctl stop hearth-firewall-watch; {FLUSH}")
    ways = [("kokoro", OLLAMA, "11434"), ("litellm", OLLAMA, "22"), ("litellm", OLLAMA, "11434")]
    met = [house.shell(inside(source, KNOCK, *target)).split()[0] for source, *target in ways]
    house.shell("systemctl start hearth-firewall-watch")
    took = healed(house)
    # The kernel says that there is no way; with one, a port that nobody holds would refuse.
    assert met == ["OSError"] * len(ways)
    house.shell(FLUSH)
    house.figures["flushed firewall is loaded again, s"] = max(took, healed(house))
    assert house.shell(inside("litellm", KNOCK, OLLAMA, "11434")).strip() == "open"
    assert house.shell(inside("kokoro", KNOCK, OLLAMA, "11434")).split()[0] == "OSError"


def healed(house: House) -> float:
    """Wait until the ruleset is there again; return how long that took."""
    began = time.monotonic()
    # Not only the table: it is judged by what is loaded first and last.
    look = "nft list chain inet hearth postrouting && nft list chain inet hearth judged"
    while house.inside("/bin/sh", "-c", look).returncode:
        assert time.monotonic() < began + HEALED_S, "nobody has loaded the firewall again"
        time.sleep(0.2)
    return time.monotonic() - began


def test_who_floods_the_resolver_is_slowed_down_and_nobody_else(house: House) -> None:
    said = house.shell(
        f"{inside('litellm', ASK, '3000')} >/tmp/flood & flood=$!; sleep 0.5\n"
        f"{inside('kokoro', ASK, '20')}; wait $flood; cat /tmp/flood"
    )
    quiet, loud = map(int, said.split())
    assert quiet == 20
    # 200 at once, and 200 more in each second that it takes.
    assert 0 < loud < 1500, f"{loud} of 3000 questions were answered"
