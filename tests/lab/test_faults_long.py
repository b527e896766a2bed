"""Faults that take longer: each program and instance by itself, no power, no internet."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from hearth.clients import ClientError
from hearth.clients.chat import Person
from tests import lab_machine as lab
from tests.lab import breaking, chat
from tests.lab.breaking import Unit
from tests.lab.house import NAME, House, changed
from tests.lab.test_faults import keep, whole
from tests.lab.watching import watching

pytestmark = [pytest.mark.lab, pytest.mark.long]

UNITS = (
    *("dnsmasq", "login", "caddy", "litellm", "ollama", "ollama-proxy", "ollama-models"),
    *("kokoro", "whisper", "pipelines", "open-webui"),
)
INSTANCES = ("ollama", "litellm", "kokoro", "whisper", "pipelines", "open-webui")
# Packets to anywhere but the machine's LAN are dropped without a rejection.
NO_WAY_OUT = """
nft -f - <<'EOF'
table inet no_way_out {
  set near { type ipv4_addr; flags interval; elements = { NEAR } }
  chain output {
    type filter hook output priority -150;
    oifname "host0" ct state established,related accept
    oifname "host0" ip daddr != @near drop
  }
  chain forward {
    # After the house's own ruleset, whose quick refusals are none of the dead wire's.
    type filter hook forward priority 150;
    oifname "host0" ct state established,related accept
    oifname "host0" ip daddr != @near drop
  }
}
EOF
"""


@pytest.mark.parametrize("name", UNITS)
def test_one_program_is_killed(house: House, name: str) -> None:
    before = house.processes()
    with watching(house, f"{name} killed") as seen:
        house.shell(Unit(name).kill())
        house.wait_green()
    assert breaking.restarted(before, house.processes()) == {name}
    for what, seconds in seen.reds().items():
        house.figures[f"{name} killed: {what} red, s"] = seconds


@pytest.mark.parametrize("name", INSTANCES)
def test_one_instance_is_killed(house: House, name: str) -> None:
    before = house.processes()
    inside = {unit for unit in before if Unit(unit).instance == name}
    with watching(house, f"the instance {name} killed") as seen:
        breaking.end_instance(house, name)
        house.wait_green()
    now = house.processes()
    assert {unit for unit in set(before) - inside if now[unit] != before[unit]} == set()
    for what, seconds in seen.reds().items():
        house.figures[f"instance {name} killed: {what} red, s"] = seconds


def test_all_instances_are_killed_at_once(house: House) -> None:
    with watching(house, "all instances killed") as seen:
        for name in INSTANCES:
            breaking.end_instance(house, name)
        house.wait_green()
    for what, seconds in seen.reds().items():
        house.figures[f"all instances killed: {what} red, s"] = seconds


def test_power_is_cut_during_writes(house: House, admin: Person) -> None:
    stop = threading.Event()
    paper = b"The garden gate opens to the left. " * 30000
    there: list[str] = []

    def write() -> None:
        while not stop.is_set():
            try:
                there.append(keep(admin, paper))
            except (ClientError, OSError):
                stop.wait(1)

    writers = [threading.Thread(target=write, daemon=True) for _ in range(2)]
    for writer in writers:
        writer.start()
    while len(there) < 2:
        time.sleep(0.2)
    began = time.monotonic()
    lab.cut(NAME)
    stop.set()
    lab.start(NAME)
    house.wait_green()
    house.figures["power cut until all is green, s"] = time.monotonic() - began
    whole(house)
    # Every acknowledged write is there.
    for number in there:
        assert admin.send("GET", f"{chat.FILES}{number}/content").content == paper
        admin.request("DELETE", f"{chat.FILES}{number}")
    assert changed(house.site()) == 0


@pytest.fixture
def no_way_out(house: House) -> Iterator[None]:
    """Cut the machine's link to the internet, and leave that to its LAN."""
    machine = lab.load(NAME)
    guests = ", ".join(f"10.99.{machine.net}.{number}" for number in range(20, 40))
    # The tests themselves send from the outer end of the link, and get their answers.
    house.shell(NO_WAY_OUT.replace("NEAR", guests))
    yield
    house.shell("nft delete table inet no_way_out")


@pytest.mark.usefixtures("no_way_out")
def test_without_the_internet_a_converged_house_converges_and_serves(house: House) -> None:
    assert house.inside("getent", "ahostsv4", "github.com", timeout=60).returncode != 0
    # As after a month: the lists of packages are old.
    house.shell("find /var/lib/apt -maxdepth 2 -exec touch -d '40 days ago' {} +")
    with watching(house, "no internet") as seen:
        began = time.monotonic()
        assert changed(house.site()) == 0
        house.figures["no internet: no-change site.yml, s"] = time.monotonic() - began
        done = house.hearth("verify", timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
        assert json.loads(house.hearth("status", "--json").stdout)["good"]
    assert seen.reds() == {}
