"""The house as another machine on its LAN sees it: its names, its root, and nothing more."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import lab_machine as lab
from tests.lab.house import NAME, House, ask
from tests.lab.visitor import ROOT_THERE

pytestmark = pytest.mark.lab

OPEN = {53, 80, 443}
FOLLOWS_S = 60
# Ports that Debian's own programs had open before the house was built.
OF_THE_MACHINE = {22}
LOOK = """
import json, socket, sys
found = {}
for address, port in json.loads(sys.argv[1]):
    plug = socket.socket()
    plug.settimeout(1)
    try:
        plug.connect((address, port))
        found[f"{address}:{port}"] = "open"
    except OSError as error:
        found[f"{address}:{port}"] = type(error).__name__
print(json.dumps(found))
"""


def look(guest: str, places: list[tuple[str, int]]) -> dict[str, str]:
    """Try to connect from the guest to each place; return the results."""
    argv = ["python3", "-c", LOOK, json.dumps(places)]
    done = lab.run(guest, argv, timeout=120, check=True)
    return dict(json.loads(done.stdout))


def test_the_guests_resolver_is_the_house(house: House, guest: str) -> None:
    near = lab.run(guest, ["cat", "/etc/resolv.conf"], check=True).stdout
    assert near.split() == ["nameserver", lab.address(NAME)]
    found = lab.run(guest, ["getent", "ahostsv4", "llm.lan"], check=True).stdout
    assert {line.split()[0] for line in found.splitlines()} == {lab.address(NAME)}
    # Names of the internet are resolved by the house, too.
    assert lab.run(guest, ["getent", "ahostsv4", "github.com"], timeout=30).returncode == 0


def test_the_guest_needs_the_root_to_trust_an_answer(house: House, guest: str) -> None:
    answer = ask(guest, ROOT_THERE, "fast", house.key())
    assert answer.status == 200, answer
    assert answer.json["choices"][0]["message"]["content"].strip()
    assert ask(guest, None, "fast", house.key()).head == "curl: exit 60"


def test_only_the_reverse_proxy_and_the_resolver_are_open(house: House, guest: str) -> None:
    listing = house.shell("ss -Hlnt | awk '{print $4}'")
    known = {int(line.rpartition(":")[2]) for line in listing.splitlines()}
    ports = sorted(known | {8443, 9180, 11434, 4000, 8880, 8000, 10300, 9090})
    seen = look(guest, [(lab.address(NAME), port) for port in ports])
    open_ports = {int(at.rpartition(":")[2]) for at, what in seen.items() if what == "open"}
    assert open_ports - OF_THE_MACHINE == OPEN


def test_the_house_forwards_nothing_to_an_instance(house: House, guest: str) -> None:
    route = ["ip", "route", "replace", "10.140.30.0/24", "via", lab.address(NAME)]
    lab.run(guest, route, check=True)
    inner = [("10.140.30.10", 11434), ("10.140.30.14", 4000), ("10.140.30.18", 8880)]
    inner += [("10.140.30.30", 8000), ("10.140.30.30", 10300), ("10.140.30.1", 53)]
    seen = look(guest, inner)
    assert "open" not in seen.values(), seen
    # From the machine itself the services answer: the firewall closes the path, not the port.
    for host, port in inner[:-1]:
        house.shell(f"timeout 5 bash -c '</dev/tcp/{host}/{port}'")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a foreign Host", ["--header", "Host: example.org"]),
        ("a bare address as Host", ["--header", "Host: {house}"]),
        ("an unknown SNI", ["--insecure", "--connect-to", "example.org:443:{house}:443"]),
        ("a bare address", ["--insecure"]),
        ("plain HTTP", ["--header", "Host: llm.lan"]),
    ],
)
def test_a_wrong_name_reaches_no_backend(
    house: House, guest: str, name: str, words: list[str]
) -> None:
    there = lab.address(NAME)
    begin = {
        "an unknown SNI": "https://example.org",
        "a bare address": f"https://{there}",
        "plain HTTP": f"http://{there}",
    }.get(name, "https://llm.lan")
    more = [word.format(house=there) for word in words]
    path = f"{begin}/v1/chat/completions"
    answer = ask(guest, ROOT_THERE, "fast", house.key(), *more, address=path)
    # No response at all, a redirect to the right name, or a refusal that no backend gives.
    assert answer.status in (0, 308, 404, 421), f"{name}: {answer}"
    assert "x-hearth-model" not in answer.head


def move(before: str, now: str) -> None:
    """Replace the house's address on its LAN, as a DHCP client does."""
    script = (
        f"sed -i 's/^Address={before}/Address={now}/' /etc/systemd/network/10-host0.network\n"
        "networkctl reload; networkctl reconfigure host0\n"
        f'has() {{ ip -o -4 address show host0 | grep -qF " $1/"; }}\n'
        # With both addresses for a moment the old one would still answer.
        f"until has {now} && ! has {before}; do sleep 0.1; done"
    )
    lab.run(NAME, ["timeout", "30", "/bin/bash", "-ec", script], check=True)


@contextmanager
def moved_to(new: str, guest: str) -> Iterator[None]:
    """Move the house, and tell the guest as a router would be told."""
    old = lab.address(NAME)
    move(old, new)
    try:
        tell(guest, new)
        yield
    finally:
        move(new, old)
        tell(guest, old)


def tell(guest: str, resolver: str) -> None:
    """Give the guest a resolver."""
    put = ["sh", "-c", 'echo "nameserver $0" > /etc/resolv.conf', resolver]
    lab.run(guest, put, check=True)


def wait_for_name(guest: str, address: str) -> None:
    """Wait until the guest finds the gateway at an address, for a minute at most."""
    deadline = time.monotonic() + FOLLOWS_S
    while address not in lab.run(guest, ["getent", "ahostsv4", "llm.lan"], timeout=30).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_names_and_pages_follow_a_new_address_without_a_run(house: House, guest: str) -> None:
    old = lab.address(NAME)
    new = f"{old.rpartition('.')[0]}.77"
    before = house.processes()
    with moved_to(new, guest):
        wait_for_name(guest, new)
        assert ask(guest, ROOT_THERE, "fast", house.key()).status == 200
        fetch = ["curl", "--silent", "--fail", "--max-time", "10", f"http://{new}/"]
        page = lab.run(guest, fetch, check=True).stdout
        assert f"QR code for http://{new}/" in page
        (note,) = [part for part in page.split("</section>") if 'id="moved"' in part]
        assert old in note
        status = json.loads(house.hearth("status", "--json").stdout)
        assert status["good"], status["rows"]
        assert status["trust"][0] == f"http://{new}/"
        (line,) = [line for line in status["pending"] if "address was" in line]
        assert f"{old} and is now {new}" in line
        # The machine itself finds its pages, too.
        house.shell("curl --silent --fail --cacert /etc/hearth/pki/root.crt https://trust.lan/")
    wait_for_name(guest, old)
    assert house.processes() == before
