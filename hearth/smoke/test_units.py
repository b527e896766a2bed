"""Everything that should run does, is new enough and hardened, and listens nowhere else."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from packaging.version import InvalidVersion

from hearth.catalogue.house import House, MinimumVersion, Part, Service
from hearth.clients import health
from hearth.clients.endpoints import get_json
from hearth.machine import facts, instances
from hearth.machine.instances import DEFAULT_LIMITS
from hearth.machine.versions import is_older
from hearth.paths import FIREWALL_UNIT, PROGRAMS
from hearth.project import Project
from hearth.render.quadlets import QUADLETS
from hearth.render.units import CREDENTIALS_FOLDER, exposure_ceiling
from hearth.smoke.hosts import host, incus_config, inspection, needs_instances
from hearth.smoke.plugin import Notes, NotMeasured
from hearth.smoke.unit_probe import READ_ONLY, TMP

pytestmark = pytest.mark.home

LOOPBACK = ("127.", "::1")
INCUS = "incus.service"
# For this long the resolver waits for an answer to its own question.
QUESTION_S = 15
# User ids below are the machine's own users, and those that its people get.
FIRST_FREE_USER = 65536
CONTAINERS = "/var/lib/incus/storage-pools/*/containers"
# What no program may read, wherever it runs.
SECRETS = (f"{CREDENTIALS_FOLDER}/*/*", "/etc/shadow", "/etc/gshadow")


# Returns the inspection of an instance, or of the machine (None), as `unit_probe` describes it.
Inspected = Callable[[str | None], Mapping[str, Any]]


@pytest.fixture(scope="module")
def inspected(house: House, project: Project) -> Inspected:
    """The inspections of all instances and of the machine, made at once before the first test."""
    kinds = {
        kind: [one.name for one in house.minimum_versions.values() if one.kind == kind]
        for kind in ("python", "debian")
    }
    versions = {"packages": kinds["python"], "debian": kinds["debian"]}
    vault = (str(project.vault.path), str(project.vault.password_file))
    on_machine = [*SECRETS, *vault, f"{CONTAINERS}/*/rootfs{CREDENTIALS_FOLDER}/*/*"]
    local = [service for service in house.services.values() if service.address]
    requests: dict[str | None, Any] = {
        service.instance: {
            "units": [service.unit] if service.system else [],
            "others": [],
            "secrets": SECRETS,
        }
        for service in local
    }
    here = [part.unit for part in house.parts.values()]
    here += [FIREWALL_UNIT, *(service.unit for service in local if not service.system)]
    requests[None] = {"units": here, "others": [INCUS], "secrets": on_machine}
    with ThreadPoolExecutor(len(requests)) as pool:
        started = {
            instance: pool.submit(inspection, instance, request | versions)
            for instance, request in requests.items()
        }
    return lambda instance: started[instance].result()


@pytest.fixture
def units(owner: Service | Part, inspected: Inspected) -> Mapping[str, Any]:
    """The inspected units of an owner: its own and its helpers, such as its sidecar proxy."""
    helpers = owner.unit.removesuffix(".service") + "-"
    found = inspected(getattr(owner, "system", None))["units"]
    return {
        unit: seen for unit, seen in found.items() if unit == owner.unit or unit.startswith(helpers)
    }


def test_the_unit_runs(owner: Service | Part, units: Mapping[str, Any]) -> None:
    state = units[owner.unit]["properties"]
    active, sub, result = (state[name] for name in ("ActiveState", "SubState", "Result"))
    assert active == "active", f"{owner.unit} is {active} ({sub}, {result})"


def test_the_service_is_healthy(service: Service, notes: Notes) -> None:
    result = health.check(service)
    assert result.healthy, f"{service.url}{service.health.path}: {result.reason}"
    notes.figure(f"health of {service.name}", "ms", [result.seconds * 1000])


@pytest.mark.unit(None, "hearth-login.service")
def test_the_login_is_healthy(house: House) -> None:
    login = house.parts.get("login")
    if login is None:
        raise NotMeasured("this house has no login")
    # Of containers the engine asks it, at a loopback that the machine does not have.
    needs_instances()
    assert get_json(f"{login.url}/health", 5) == {"status": "ok"}


def test_no_program_is_older_than_its_minimum_version(
    minimum: MinimumVersion, house: House, inspected: Inspected, notes: Notes
) -> None:
    if minimum.oldest is None:
        raise NotMeasured(
            f"the minimum of {minimum.name} was lifted in inventory/local/minimum_versions.yml"
        )
    found = dict(_versions(minimum, house, inspected))
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
    try:
        return is_older(version, minimum)
    except InvalidVersion:
        pytest.fail(f"{minimum.name} reports {version!r}, which is not a version", pytrace=False)


def _versions(
    minimum: MinimumVersion, house: House, inspected: Inspected
) -> Iterator[tuple[str, str]]:
    """Yield each place where a program is in use, and its version there."""
    local = [service for service in house.services.values() if service.address]
    if minimum.kind == "debian":
        for instance in (None, *(service.instance for service in local)):
            if version := inspected(instance)["debian"].get(minimum.name):
                yield f"in {instance}" if instance else "on the machine", version
        return
    for service in local:
        # A service that was built from a download reports its version.
        if minimum.kind == "source" and minimum.name in service.sources:
            url = f"{service.url}{service.health.path}"
            answer = get_json(url, service.health.within_s)
            yield f"in {service.name}", str(answer.get("version", ""))
        if minimum.kind == "python":
            packages = inspected(service.system)["units"][service.unit]["packages"]
            if minimum.name in packages:
                yield f"in {service.name}", packages[minimum.name]


def test_the_running_version_is_the_installed_one(units: Mapping[str, Any]) -> None:
    """A library that was replaced stays in the memory of a process that loaded it before."""
    _check_loaded(units)


def test_the_running_incus_is_the_installed_one(inspected: Inspected) -> None:
    _check_loaded({INCUS: inspected(None)["units"][INCUS]})


def _check_loaded(units: Mapping[str, Any]) -> None:
    for unit, seen in units.items():
        stale = seen["stale"]
        assert not stale, f"{unit} still runs a file that was replaced ({stale[0]}): restart it"


def test_units_are_hardened(units: Mapping[str, Any], notes: Notes) -> None:
    for unit, seen in units.items():
        # What a container may do is tried by the next tests; its unit only starts it.
        if _contained(seen):
            continue
        level = re.search(r"Overall exposure level for \S+: ([\d.]+)", seen["security"])
        assert level, f"systemd-analyze reports no exposure of {unit}"
        exposure, ceiling = float(level[1]), exposure_ceiling(seen["text"])
        assert exposure <= ceiling, f"{unit} has exposure {exposure} of 10; its role has {ceiling}"
        notes.sample("exposure of the units", "of 10", exposure)


def _contained(seen: Mapping[str, Any]) -> bool:
    """Return whether a unit was made from a quadlet."""
    return bool(seen["properties"].get("SourcePath", "").startswith(QUADLETS))


def test_programs_do_not_run_as_root(owner: Service | Part, units: Mapping[str, Any]) -> None:
    for unit, seen in units.items():
        user = seen["properties"].get("User", "")
        is_root = user in ("", "root")
        if _contained(seen):
            if not isinstance(seen["sandbox"], dict):
                # It makes a network or a volume.
                continue
            user = seen["sandbox"]["status"]["Uid"].split()[0]
            is_root = int(user) < FIRST_FREE_USER
        assert is_root == owner.as_root, f"{unit} runs as {user or 'root'}"


def test_programs_are_sandboxed(owner: Service | Part, units: Mapping[str, Any]) -> None:
    """The living process is held to the restrictions in its unit's file."""
    living = {unit: seen for unit, seen in units.items() if seen["sandbox"]}
    assert living, f"no process of {owner.name} runs"
    for unit, seen in living.items():
        leaks = list(_leaks(seen, root=owner.as_root))
        assert not leaks, f"{unit}: {'; '.join(leaks)}"


def _leaks(seen: dict[str, Any], *, root: bool) -> Iterator[str]:
    """Yield what a unit's process can do that it must not, and what the probe could not do."""
    if isinstance(seen["sandbox"], str):
        yield f"the probe failed: {seen['sandbox']}"
        return
    tried, status = seen["sandbox"]["tried"], seen["sandbox"]["status"]
    # No container has any.
    named = "" if _contained(seen) else seen["properties"]["CapabilityBoundingSet"]
    capabilities = named.split()
    if tried["written"][TMP] != "done":
        yield f"the probe could not write its own /tmp ({tried['written'][TMP]})"
    # Not EACCES: file permissions alone do not hold against a program with a hole.
    loose = [f"{at} ({code})" for at in READ_ONLY if (code := tried["written"][at]) != "EROFS"]
    if loose:
        yield f"not read-only: {', '.join(loose)}"
    if tried["marker_seen"]:
        yield "/tmp is shared"
    # Its unit says why it may: the project can be in a home.
    if not root or "ProtectHome=read-only" not in seen["text"]:
        yield from (f"can list {at}" for at, code in tried["homes"].items() if code == "done")
    yield from (
        f"cannot read its own {at} ({code})" for at, code in tried["own"].items() if code != "done"
    )
    if not root:
        # Root may read its own files and see all processes.
        yield from (f"can read {at}" for at, code in tried["secrets"].items() if code == "done")
        if not tried["secrets"]:
            yield "the probe found no secret to try"
        # In a container they are its own, and those of the other tests that run in it just now.
        if tried["processes"] and not _contained(seen):
            yield f"sees processes of other users: {', '.join(tried['processes'][:5])}"
    restricted = status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    if (tried["user"] == 0) != root or not restricted:
        yield f"its process is not restricted: {status}"
    if int(status["CapBnd"], 16).bit_count() != len(capabilities):
        yield f"its process may gain {status['CapBnd']}, its unit names {capabilities}"


def test_instances_are_unprivileged_and_limited(
    local: Service, inspected: Inspected, notes: Notes
) -> None:
    if local.system is None:
        # What it may do is tried above; its users are its own (the next test).
        limit = host(None).file(f"/sys/fs/cgroup/system.slice/{local.unit}/memory.max")
        assert not limit.exists or limit.content_string.strip() != "max", "its memory has no limit"
        return
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
    assert inspected(local.instance)["memory_max"].strip() != "max", "its memory has no limit"


def test_instances_share_no_users(house: House, inspected: Inspected) -> None:
    ranges = []
    for service in house.services.values():
        if service.address:
            _, first, count, *_ = map(int, inspected(service.instance)["uid_map"])
            # 0 would be the machine's own root.
            assert first >= FIRST_FREE_USER, f"the users of {service.name} start at {first}"
            ranges.append((first, first + count, service.name))
    ranges.sort()
    for (_, end, one), (first, _, other) in pairwise(ranges):
        assert end <= first, f"{one} and {other} share users of the machine"


def test_an_instance_sees_only_its_own_programs(local: Service, inspected: Inspected) -> None:
    own = {path.parent.name for path in PROGRAMS.glob("*/*")} & {*local.programs}
    seen = {*inspected(local.instance)["programs"]}
    assert not seen - own, f"{local.name} can also read {', '.join(sorted(seen - own))}"
    assert not own - seen, f"{local.name} does not see {', '.join(sorted(own - seen))}"


def test_an_instance_listens_only_where_the_catalogue_says(
    local: Service, inspected: Inspected
) -> None:
    ports = {port for port in (local.port, local.metrics_port, *local.publish_tcp) if port}
    known = {(at, port) for at in (local.address, "0.0.0.0", "::", "*") for port in ports}
    found = {
        (address, port)
        for _, address, port in inspected(local.instance)["listening"]
        if not address.startswith(LOOPBACK)
    }
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

    def unknown(one: facts.Listener) -> str:
        part = parts.get(one.holder)
        if part is None or one.address.startswith(LOOPBACK):
            return ""
        # For instances: its figures, and a part that serves them.
        inside = {
            (house.machine.resolver_address, part.metrics_port),
            (part.address, part.port),
        }
        known = (one.address, one.port) in allowed.get(part.role, inside)
        return "" if known else f"{part.name} listens on {one.address} port {one.port}"

    end, left = time.monotonic() + QUESTION_S, {*facts.listeners()}
    while found := sorted(filter(None, map(unknown, left))):
        assert time.monotonic() < end, found[0]
        time.sleep(1)
        # The resolver's questions to its own server come from ports that are closed again.
        left &= {*facts.listeners()}


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
