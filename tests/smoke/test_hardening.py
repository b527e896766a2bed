"""Units are hardened as written, and nothing listens that the catalogue does not know."""

import json
import re

import pytest

from hearth.catalogue.house import House, Part, Service
from hearth.house import facts
from hearth.verify import inside as look
from hearth.verify.figures import Notes

pytestmark = pytest.mark.home

# systemd's own scale: 0 is shut, 10 is open, "OK" ends at 5.
EXPOSURE_CEILING = 3.0
LOOPBACK = ("127.", "::1")


def test_unit_is_hardened(owner: Service | Part, notes: Notes) -> None:
    host = look.host(getattr(owner, "instance", None))
    for unit in _units(host, owner.unit):
        said = host.run("systemd-analyze security --no-pager %s", unit).stdout
        level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        assert level, f"systemd-analyze says nothing of {unit}"
        exposure = float(level[1])
        assert exposure <= EXPOSURE_CEILING, f"{unit} is open to {exposure} of 10"
        notes.sample("exposure of the units", "of 10", exposure)


def _units(host: object, unit: str) -> list[str]:
    """Return a unit and its helpers, such as the gate in front of a program."""
    pattern = unit.removesuffix(".service") + "-*.service"
    said = host.check_output(  # type: ignore[attr-defined]
        "systemctl list-units --all --plain --no-legend %s %s", unit, pattern
    )
    return [line.split()[0] for line in said.splitlines()]


def test_program_is_not_root(owner: Service | Part) -> None:
    host = look.host(getattr(owner, "instance", None))
    for unit in _units(host, owner.unit):
        user = host.check_output("systemctl show --property=User --value %s", unit)
        assert user not in ("", "root"), f"{unit} runs as root"


def test_instance_listens_only_where_the_catalogue_says(inside: Service) -> None:
    ports = (inside.port, inside.metrics_port, *inside.publish_tcp)
    known = {(inside.address, port) for port in ports if port}
    known |= {("0.0.0.0", port) for _, port in known} | {("*", port) for _, port in known}
    found = set()
    for line in look.host(inside.instance).check_output("ss -Hlntu").splitlines():
        address, _, port = line.split()[4].rpartition(":")
        address = address.partition("%")[0].strip("[]")
        if not address.startswith(LOOPBACK):
            found.add((address, int(port)))
    more = ", ".join(f"{address} port {port}" for address, port in sorted(found - known))
    assert not more, f"{inside.name} also listens on {more}"
    assert found, f"{inside.name} listens nowhere"


def test_the_houses_parts_listen_only_where_the_catalogue_says(
    house: House, lan_address: str
) -> None:
    parts = {part.unit: part for part in house.parts.values()}
    allowed = {
        "dnsmasq": {(a, 53) for a in (lan_address, house.machine.resolver_address)},
        # Everywhere, since a LAN address may change; the firewall leaves only the LAN's open.
        "caddy": {("*", 80), ("*", 443)},
    }
    for one in facts.listeners():
        part = parts.get(one.holder)
        if part is None or one.address.startswith(LOOPBACK):
            continue
        known = allowed.get(part.role, set())
        # Names are also asked for over the LAN's own IPv6, which goes no further than its cable.
        address = (
            lan_address if part.port == 53 and one.address.startswith("fe80:") else one.address
        )
        assert (address, one.port) in known, f"{part.name} listens on {one.address} port {one.port}"


def test_incus_itself_is_not_on_the_network() -> None:
    holders = {one.holder for one in facts.listeners() if not one.address.startswith(LOOPBACK)}
    assert "incus.service" not in holders


def test_the_firewall_survives_a_reboot(house: House) -> None:
    host = look.host(None)
    table = json.loads(host.check_output("nft -j list table inet hearth"))["nftables"]
    sets = {row["set"]["name"] for row in table if "set" in row}
    assert {"flows", "published", "wires"} <= sets
    unit = "hearth-firewall.service"
    assert host.check_output("systemctl is-enabled %s", unit) == "enabled"
    before = host.check_output("systemctl show --property=Before --value %s", unit).split()
    assert "incus.service" in before, f"{unit} does not start before incus.service"
