"""Everything that should run does, answers as its record demands, and is new enough."""

from collections.abc import Iterator

import httpx
import pytest
from packaging.version import InvalidVersion, Version

from hearth.catalogue.house import House, MinimumVersion, Part, Service
from hearth.clients import health
from hearth.machine import systemd
from hearth.smoke.hosts import host, loaded, units
from hearth.smoke.plugin import Notes, NotMeasured

pytestmark = pytest.mark.home


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
