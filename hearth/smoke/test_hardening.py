"""Units are hardened as written, and nothing listens that the catalogue does not know."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from hearth.catalogue.house import House, Part, Service
from hearth.machine import facts, instances
from hearth.machine.instances import DEFAULT_LIMITS
from hearth.project import Project
from hearth.render.units import CREDENTIALS_FOLDER, exposure_ceiling
from hearth.smoke import hosts
from hearth.smoke.plugin import Notes

pytestmark = pytest.mark.home

LOOPBACK = ("127.", "::1")
# Loads rules as root, with one capability; all others have a user of their own.
AS_ROOT = "firewall"
# Below are the machine's own users, and those that its people get.
FIRST_FREE_USER = 65536
READ_ONLY = ("/usr", "/etc", "/var", "/opt")
CONTAINERS = "/var/lib/incus/storage-pools/*/containers"
# What no program may read, wherever it lives.
SECRETS = (f"{CREDENTIALS_FOLDER}/*/*", "/etc/shadow", "/etc/gshadow")


def test_unit_is_hardened(owner: Service | Part, notes: Notes) -> None:
    instance = getattr(owner, "instance", None)
    host = hosts.host(instance)
    for unit in hosts.units(instance, owner.unit):
        said = host.run("systemd-analyze security --no-pager %s", unit).stdout
        level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        assert level, f"systemd-analyze says nothing of {unit}"
        exposure = float(level[1])
        ceiling = exposure_ceiling(host.check_output("systemctl cat %s", unit))
        assert exposure <= ceiling, f"{unit} is open to {exposure} of 10; its role says {ceiling}"
        notes.sample("exposure of the units", "of 10", exposure)


def test_program_is_not_root(owner: Service | Part) -> None:
    instance = getattr(owner, "instance", None)
    host = hosts.host(instance)
    for unit in hosts.units(instance, owner.unit):
        user = host.check_output("systemctl show --property=User --value %s", unit)
        root = user in ("", "root")
        assert root == (owner.name == AS_ROOT), f"{unit} runs as {user or 'root'}"


def test_program_is_shut_in(owner: Service | Part, project: Project) -> None:
    """Entered where the program lives, as its user: what is written in a unit holds there."""
    instance = getattr(owner, "instance", None)
    secrets = SECRETS if instance else (*SECRETS, *_secrets_of_the_machine(project))
    tried = {
        unit: hosts.sandbox(instance, unit, secrets) for unit in hosts.units(instance, owner.unit)
    }
    assert any(tried.values()), f"nothing of {owner.name} lives"
    for unit, seen in tried.items():
        if seen:
            leaks = list(_leaks(seen, root=owner.name == AS_ROOT))
            assert not leaks, f"{unit}: {'; '.join(leaks)}"


def test_instance_is_shut_in(inside: Service, notes: Notes) -> None:
    assert inside.instance
    config = hosts.incus_config(inside.instance)
    assert config.get("security.privileged", "false") == "false", "the instance is privileged"
    lacking = [key for key in DEFAULT_LIMITS if not config.get(key)]
    assert not lacking, f"the instance has no {', '.join(lacking)}"
    if config.get(instances.NESTING_KEY, "false") != "false":
        notes.remark(
            f"{inside.name}: {instances.NESTING_KEY}, since this machine's AppArmor lets systemd "
            "hand over no credentials without (docs/security.md)"
        )
    host = hosts.host(inside.instance)
    # The kernel's own word; a machine without memory controllers has no such file.
    bound = host.run("cat /sys/fs/cgroup/memory.max").stdout.strip()
    assert bound != "max", "the kernel bounds no memory of the instance"


def test_no_two_instances_share_a_user(house: House) -> None:
    ranges = []
    for service in house.services.values():
        if service.address:
            said = hosts.host(service.instance).check_output("cat /proc/self/uid_map").split()
            first, count = int(said[1]), int(said[2])
            # 0 would be the machine's own root.
            assert first >= FIRST_FREE_USER, f"{service.name} counts its users from {first}"
            ranges.append((first, first + count, service.name))
    ranges.sort()
    for (_, end, one), (first, _, other) in pairwise(ranges):
        assert end <= first, f"{one} and {other} share users of the machine"


def _secrets_of_the_machine(project: Project) -> tuple[str, ...]:
    """Return where the house keeps what only root may read, and where instances keep theirs."""
    vault = (str(project.vault.path), str(project.vault.password_file))
    return (*vault, f"{CONTAINERS}/*/rootfs{CREDENTIALS_FOLDER}/*/*")


def _leaks(seen: hosts.Sandbox, *, root: bool) -> Iterator[str]:
    """Say what a unit's process can do that it shall not, and what the probe could not do."""
    if seen.written["/tmp"] != "done":
        yield f"the probe could not write its own /tmp ({seen.written['/tmp']})"
    # Not EACCES: that would be the user's rights alone, and these end where a program has a hole.
    loose = [f"{at} ({said})" for at in READ_ONLY if (said := seen.written[at]) != "EROFS"]
    if loose:
        yield f"not read-only: {', '.join(loose)}"
    if seen.marker_seen:
        yield "/tmp is everybody's"
    yield from (f"sees into {at}" for at, said in seen.homes.items() if said == "done")
    yield from (
        f"cannot read its own {at} ({said})" for at, said in seen.own.items() if said != "done"
    )
    if not root:
        yield from _told(seen)
    held = seen.status["NoNewPrivs"] == "1" and seen.status["Seccomp"] == "2"
    if (seen.user == 0) != root or not held:
        yield f"its process is not held: {dict(seen.status)}"
    if int(seen.status["CapBnd"], 16).bit_count() != len(seen.capabilities):
        yield f"its process may gain {seen.status['CapBnd']}, its unit names {seen.capabilities}"


def _told(seen: hosts.Sandbox) -> Iterator[str]:
    """Say what a process learns of others: root's own files and all processes show to root."""
    yield from (f"reads {at}" for at, said in seen.secrets.items() if said == "done")
    if not seen.secrets:
        yield "the probe found no secret to try"
    if seen.processes:
        yield f"sees processes of others: {', '.join(seen.processes[:5])}"


def test_instance_listens_only_where_the_catalogue_says(inside: Service) -> None:
    ports = (inside.port, inside.metrics_port, *inside.publish_tcp)
    known = {(inside.address, port) for port in ports if port}
    known |= {("0.0.0.0", port) for _, port in known} | {("*", port) for _, port in known}
    found = set()
    for line in hosts.host(inside.instance).check_output("ss -Hlntu").splitlines():
        address, _, port = line.split()[4].rpartition(":")
        address = address.partition("%")[0].strip("[]")
        if not address.startswith(LOOPBACK):
            found.add((address, int(port)))
    more = ", ".join(f"{address} port {port}" for address, port in sorted(found - known))
    assert not more, f"{inside.name} also listens on {more}"
    assert found, f"{inside.name} listens nowhere"


def test_the_houses_parts_listen_only_where_the_catalogue_says(house: House) -> None:
    parts = {part.unit: part for part in house.parts.values()}
    lan, _ = facts.lan(house.machine.lan_interface)
    allowed = {
        # Each address of the LAN's interface; of IPv6 the firewall leaves only its wire's open.
        "dnsmasq": {(a, 53) for a in (*facts.addresses(lan), house.machine.resolver_address)},
        # Everywhere, since a LAN address may change; the firewall leaves only the LAN's open.
        "caddy": {("*", 80), ("*", 443)},
    }
    for one in facts.listeners():
        part = parts.get(one.holder)
        if part is None or one.address.startswith(LOOPBACK):
            continue
        known = allowed.get(part.role, set())
        place = (one.address, one.port)
        assert place in known, f"{part.name} listens on {one.address} port {one.port}"


def test_incus_itself_is_not_on_the_network() -> None:
    holders = {one.holder for one in facts.listeners() if not one.address.startswith(LOOPBACK)}
    assert "incus.service" not in holders


def test_the_firewall_survives_a_reboot(house: House) -> None:
    host = hosts.host(None)
    table = json.loads(host.check_output("nft -j list table inet hearth"))["nftables"]
    sets = {row["set"]["name"] for row in table if "set" in row}
    assert {"flows", "published", "wires"} <= sets
    watch = "hearth-firewall-watch.service"
    assert host.check_output("systemctl is-active %s", watch) == "active"
    marks = host.check_output("ip rule show pref 302; ip rule show pref 303").splitlines()
    assert [line.split()[-1] for line in marks] == ["prohibit"] * 2, "no mark is asked for"
    unit = "hearth-firewall.service"
    assert host.check_output("systemctl is-enabled %s", unit) == "enabled"
    before = host.check_output("systemctl show --property=Before --value %s", unit).split()
    assert "incus.service" in before, f"{unit} does not start before incus.service"
