"""Everything that should run does, is new enough and hardened, and listens nowhere else."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from packaging.version import InvalidVersion, Version

from hearth.catalogue.house import House, MinimumVersion, Part, Service
from hearth.clients import health
from hearth.machine import facts, instances, systemd
from hearth.machine.instances import DEFAULT_LIMITS
from hearth.project import Project
from hearth.render.units import CREDENTIALS_FOLDER, exposure_ceiling
from hearth.smoke.hosts import host, incus_config, loaded, sandbox, units
from hearth.smoke.plugin import Notes, NotMeasured
from hearth.smoke.unit_probe import READ_ONLY, TMP

pytestmark = pytest.mark.home

LOOPBACK = ("127.", "::1")
# Loads rules as root, with one capability; all others have a user of their own.
AS_ROOT = "firewall"
# User ids below are the machine's own users, and those that its people get.
FIRST_FREE_USER = 65536
CONTAINERS = "/var/lib/incus/storage-pools/*/containers"
# What no program may read, wherever it runs.
SECRETS = (f"{CREDENTIALS_FOLDER}/*/*", "/etc/shadow", "/etc/gshadow")


def test_the_unit_runs(owner: Service | Part) -> None:
    state = systemd.unit_state(getattr(owner, "instance", None), owner.unit)
    assert state.up, f"{owner.unit} is {state.active} ({state.sub}, {state.result})"


def test_the_service_is_healthy(service: Service, notes: Notes) -> None:
    result = health.check(service)
    assert result.healthy, f"{service.url}{service.health.path}: {result.reason}"
    notes.figure(f"health of {service.name}", "ms", [result.seconds * 1000])


@pytest.mark.unit(None, "hearth-login.service")
def test_the_login_is_healthy(house: House) -> None:
    login = house.parts.get("login")
    if login is None:
        raise NotMeasured("this house has no login")
    answer = httpx.get(f"{login.url}/health", timeout=5, trust_env=False)
    assert answer.json() == {"status": "ok"}


def test_no_program_is_older_than_its_minimum_version(
    minimum: MinimumVersion, house: House, notes: Notes
) -> None:
    if minimum.oldest is None:
        raise NotMeasured(
            f"the minimum of {minimum.name} was lifted in inventory/local/minimum_versions.yml"
        )
    found = dict(_versions(minimum, house))
    if not found:
        raise NotMeasured(f"{minimum.name} is not in this house")
    notes.versions[minimum.name] = min(found.values())
    old = [f"{version} {at}" for at, version in found.items() if _older(version, minimum)]
    remedy = "run `apt-get update && apt-get upgrade` there"
    if minimum.kind != "debian":
        remedy = "update Hearth and run `hearth up`"
    assert not old, (
        f"{minimum.name} {', '.join(old)} is older than {minimum.oldest}: {remedy} "
        f"({minimum.reason})"
    )


def _older(version: str, minimum: MinimumVersion) -> bool:
    if minimum.kind == "debian":
        compare = "dpkg --compare-versions %s lt %s"
        return bool(host(None).run(compare, version, minimum.oldest).rc == 0)
    try:
        return Version(version) < Version(minimum.oldest or "0")
    except InvalidVersion:
        pytest.fail(f"{minimum.name} reports {version!r}, which is not a version", pytrace=False)


def _versions(minimum: MinimumVersion, house: House) -> Iterator[tuple[str, str]]:
    """Yield each place where a program is in use, and its version there."""
    local = [service for service in house.services.values() if service.address]
    if minimum.kind == "debian":
        for instance in (None, *(service.instance for service in local)):
            package = host(instance).package(minimum.name)
            if package.is_installed:
                yield f"in {instance}" if instance else "on the machine", package.version
        return
    for service in local:
        # A service that was built from a download reports its version.
        if minimum.kind == "source" and minimum.name in service.sources:
            url = f"{service.url}{service.health.path}"
            answer = httpx.get(url, timeout=service.health.within_s, trust_env=False).json()
            yield f"in {service.name}", str(answer.get("version", ""))
        if minimum.kind == "python":
            packages = loaded(service.instance, service.unit, [minimum.name])["packages"]
            if minimum.name in packages:
                yield f"in {service.name}", packages[minimum.name]


def test_the_running_version_is_the_installed_one(owner: Service | Part) -> None:
    """A library that was replaced stays in the memory of a process that loaded it before."""
    for instance, unit in units(owner):
        _check_loaded(instance, unit)


def test_the_running_incus_is_the_installed_one() -> None:
    _check_loaded(None, "incus.service")


def _check_loaded(instance: str | None, unit: str) -> None:
    stale = loaded(instance, unit)["stale"]
    assert not stale, f"{unit} still runs a file that was replaced ({stale[0]}): restart it"


def test_units_are_hardened(owner: Service | Part, notes: Notes) -> None:
    for instance, unit in units(owner):
        report = host(instance).run("systemd-analyze security --no-pager %s", unit).stdout
        level = re.search(r"Overall exposure level for \S+: ([\d.]+)", report)
        assert level, f"systemd-analyze reports no exposure of {unit}"
        exposure = float(level[1])
        ceiling = exposure_ceiling(host(instance).check_output("systemctl cat %s", unit))
        assert exposure <= ceiling, f"{unit} has exposure {exposure} of 10; its role has {ceiling}"
        notes.sample("exposure of the units", "of 10", exposure)


def test_programs_do_not_run_as_root(owner: Service | Part) -> None:
    for instance, unit in units(owner):
        user = host(instance).service(unit).systemd_properties.get("User", "")
        is_root = user in ("", "root")
        assert is_root == (owner.name == AS_ROOT), f"{unit} runs as {user or 'root'}"


def test_programs_are_sandboxed(owner: Service | Part, project: Project) -> None:
    """The living process is held to the restrictions in its unit's file."""
    vault = (str(project.vault.path), str(project.vault.password_file))
    on_machine = (*SECRETS, *vault, f"{CONTAINERS}/*/rootfs{CREDENTIALS_FOLDER}/*/*")
    found = {
        unit: sandbox(instance, unit, SECRETS if instance else on_machine)
        for instance, unit in units(owner)
    }
    assert any(found.values()), f"no process of {owner.name} runs"
    for unit, seen in found.items():
        leaks = list(_leaks(seen, root=owner.name == AS_ROOT)) if seen else []
        assert not leaks, f"{unit}: {'; '.join(leaks)}"


def _leaks(seen: dict[str, Any], *, root: bool) -> Iterator[str]:
    """Yield what a unit's process can do that it must not, and what the probe could not do."""
    tried, status, capabilities = seen["tried"], seen["status"], seen["capabilities"]
    if tried["written"][TMP] != "done":
        yield f"the probe could not write its own /tmp ({tried['written'][TMP]})"
    # Not EACCES: file permissions alone do not hold against a program with a hole.
    loose = [f"{at} ({code})" for at in READ_ONLY if (code := tried["written"][at]) != "EROFS"]
    if loose:
        yield f"not read-only: {', '.join(loose)}"
    if tried["marker_seen"]:
        yield "/tmp is shared"
    yield from (f"can list {at}" for at, code in tried["homes"].items() if code == "done")
    yield from (
        f"cannot read its own {at} ({code})" for at, code in tried["own"].items() if code != "done"
    )
    if not root:
        # Root may read its own files and see all processes.
        yield from (f"can read {at}" for at, code in tried["secrets"].items() if code == "done")
        if not tried["secrets"]:
            yield "the probe found no secret to try"
        if tried["processes"]:
            yield f"sees processes of other users: {', '.join(tried['processes'][:5])}"
    restricted = status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    if (tried["user"] == 0) != root or not restricted:
        yield f"its process is not restricted: {status}"
    if int(status["CapBnd"], 16).bit_count() != len(capabilities):
        yield f"its process may gain {status['CapBnd']}, its unit names {capabilities}"


def test_instances_are_unprivileged_and_limited(local: Service, notes: Notes) -> None:
    config = incus_config(local.instance)
    assert config.get("security.privileged", "false") == "false", "the instance is privileged"
    missing = [key for key in DEFAULT_LIMITS if not config.get(key)]
    assert not missing, f"the instance has no {', '.join(missing)}"
    if config.get(instances.NESTING_KEY, "false") != "false":
        notes.remark(
            f"{local.name}: {instances.NESTING_KEY}, because this machine's AppArmor otherwise "
            "keeps systemd from passing credentials on (docs/security.md)"
        )
    # The kernel's own value; a machine without memory controllers has no such file.
    limit = host(local.instance).file("/sys/fs/cgroup/memory.max")
    assert not limit.exists or limit.content_string.strip() != "max", "its memory has no limit"


def test_instances_share_no_users(house: House) -> None:
    ranges = []
    for service in house.services.values():
        if service.address:
            uid_map = host(service.instance).file("/proc/self/uid_map").content_string.split()
            first, count = int(uid_map[1]), int(uid_map[2])
            # 0 would be the machine's own root.
            assert first >= FIRST_FREE_USER, f"the users of {service.name} start at {first}"
            ranges.append((first, first + count, service.name))
    ranges.sort()
    for (_, end, one), (first, _, other) in pairwise(ranges):
        assert end <= first, f"{one} and {other} share users of the machine"


def test_an_instance_listens_only_where_the_catalogue_says(local: Service) -> None:
    ports = {port for port in (local.port, local.metrics_port, *local.publish_tcp) if port}
    known = {(at, port) for at in (local.address, "0.0.0.0", "::") for port in ports}
    found = set()
    for socket in host(local.instance).socket.get_listening_sockets():
        protocol, _, where = socket.partition("://")
        address, _, port = where.rpartition(":")
        address = address.partition("%")[0]
        if protocol in ("tcp", "udp") and not address.startswith(LOOPBACK):
            found.add((address, int(port)))
    more = ", ".join(f"{address} port {port}" for address, port in sorted(found - known))
    assert not more, f"{local.name} also listens on {more}"
    assert found, f"{local.name} listens nowhere"


def test_the_houses_parts_listen_only_where_the_catalogue_says(house: House) -> None:
    parts = {part.unit: part for part in house.parts.values()}
    lan, _ = facts.lan(house.machine.lan_interface)
    allowed = {
        # Every address of the LAN interface; the firewall leaves IPv6 open on that link only.
        "dnsmasq": {(a, 53) for a in (*facts.addresses(lan), house.machine.resolver_address)},
        # All addresses, since a LAN address may change; the firewall leaves only the LAN's open.
        "caddy": {("*", 80), ("*", 443)},
    }
    for one in facts.listeners():
        part = parts.get(one.holder)
        if part and not one.address.startswith(LOOPBACK):
            known = (one.address, one.port) in allowed.get(part.role, set())
            assert known, f"{part.name} listens on {one.address} port {one.port}"


def test_incus_does_not_listen_on_the_network() -> None:
    holders = {one.holder for one in facts.listeners() if not one.address.startswith(LOOPBACK)}
    assert "incus.service" not in holders


def test_the_firewall_is_loaded_and_survives_a_reboot() -> None:
    machine = host(None)
    table = json.loads(machine.check_output("nft -j list table inet hearth"))["nftables"]
    sets = {row["set"]["name"] for row in table if "set" in row}
    assert {"flows", "links", "published"} <= sets
    assert machine.service("hearth-firewall-watch.service").is_running
    marks = machine.check_output("ip rule show pref 302; ip rule show pref 303").splitlines()
    assert [line.split()[-1] for line in marks] == ["prohibit"] * 2, "no rule demands the mark"
    firewall = machine.service("hearth-firewall.service")
    assert firewall.is_enabled
    before = firewall.systemd_properties["Before"].split()
    assert "incus.service" in before, "the firewall does not start before incus.service"
