"""What runs is as new as inventory/minimum_versions.yml asks: looked at in the living processes."""

from collections.abc import Iterator

import httpx
import pytest
from packaging.version import InvalidVersion, Version

from hearth.catalogue.house import House, MinimumVersion, Part, Service
from hearth.smoke import hosts
from hearth.smoke.plugin import Notes, NotMeasured

pytestmark = pytest.mark.home


def test_no_program_is_older_than_its_minimum(
    minimum: MinimumVersion, house: House, notes: Notes
) -> None:
    if minimum.oldest is None:
        raise NotMeasured(
            f"the minimum of {minimum.name} was lifted in inventory/local/minimum_versions.yml"
        )
    found = dict(_FOUND[minimum.kind](minimum, house))
    if not found:
        raise NotMeasured(f"{minimum.name} is not in this house")
    notes.versions[minimum.name] = min(found.values())
    old = [f"{one} {at}" for at, one in found.items() if _older(one, minimum)]
    cure = "run `apt-get update && apt-get upgrade` there"
    if minimum.kind != "debian":
        cure = "take a later Hearth, and `hearth up`"
    assert not old, (
        f"{minimum.name} {', '.join(old)} is older than {minimum.oldest}: {cure} ({minimum.reason})"
    )


def _older(version: str, minimum: MinimumVersion) -> bool:
    if minimum.kind == "debian":
        host = hosts.host(None)
        return bool(host.run("dpkg --compare-versions %s lt %s", version, minimum.oldest).rc == 0)
    try:
        return Version(version) < Version(minimum.oldest or "0")
    except InvalidVersion:
        pytest.fail(
            f"{minimum.name} says that it is {version!r}, which is no version", pytrace=False
        )


def _instances(house: House) -> list[Service]:
    return [service for service in house.services.values() if service.address]


def _said(minimum: MinimumVersion, house: House) -> Iterator[tuple[str, str]]:
    """Ask the services that run a download which version they are."""
    for service in _instances(house):
        if minimum.name in service.sources:
            url = f"{service.url}{service.health.path}"
            answer = httpx.get(url, timeout=service.health.within_s, trust_env=False).json()
            yield f"in {service.name}", str(answer.get("version", ""))


def _loaded(minimum: MinimumVersion, house: House) -> Iterator[tuple[str, str]]:
    """Look which version of a Python package the services have loaded."""
    for service in _instances(house):
        seen = hosts.loaded(service.instance, service.unit, [minimum.name])
        if minimum.name in seen.packages:
            yield f"in {service.name}", seen.packages[minimum.name]


def _installed(minimum: MinimumVersion, house: House) -> Iterator[tuple[str, str]]:
    """Read which version of Debian's package is installed, on the machine and in instances."""
    for instance in (None, *(service.instance for service in _instances(house))):
        argv = "dpkg-query --show --showformat='${db:Status-Status} ${Version}' %s"
        status, _, version = hosts.host(instance).run(argv, minimum.name).stdout.partition(" ")
        if status == "installed":
            yield f"in {instance}" if instance else "on the machine", version.strip()


_FOUND = {"source": _said, "python": _loaded, "debian": _installed}


def test_what_runs_is_what_is_installed(owner: Service | Part) -> None:
    """A library that was replaced is still in the memory of who has loaded it, holes and all."""
    instance = getattr(owner, "instance", None)
    for unit in hosts.units(instance, owner.unit):
        stale = hosts.loaded(instance, unit, []).stale
        assert not stale, f"{unit} still runs what was replaced ({stale[0]}): restart it"


def test_incus_runs_as_it_is_installed() -> None:
    stale = hosts.loaded(None, "incus.service", []).stale
    assert not stale, f"incus.service still runs what was replaced ({stale[0]}): restart it"
