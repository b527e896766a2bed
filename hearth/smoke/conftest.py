"""What the smoke tests share: the house as the catalogue derives it, and the ways to look at it."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from hearth.catalogue.house import Alias, House, Part, Service, Site
from hearth.clients.edge import Edge, house_edge
from hearth.machine.secrets import Vault
from hearth.paths import FIREWALL_UNIT
from hearth.project import VERIFIER, Project, current

HOUSE = current().house()
# No part of the catalogue, since it publishes nothing; its watch counts as its helper.
FIREWALL = Part(
    name="firewall",
    role="firewall",
    summary="Loads the rules and watches over them",
    unit=FIREWALL_UNIT,
    url=None,
    port=None,
    metrics_port=None,
    publish=(),
    secrets={},
)


def instances(house: House) -> list[Service]:
    """Return the services that run in an instance here."""
    return [service for service in house.services.values() if service.address]


def owners(house: House) -> list[Service | Part]:
    """Return everything that runs here as a unit: services, the machine's parts, its rules."""
    return [*instances(house), *house.parts.values(), FIREWALL]


# What a test may take as an argument, to be run once for each.
ROWS: Mapping[str, list[Any]] = {
    "service": list(HOUSE.services.values()),
    "inside": instances(HOUSE),
    "owner": owners(HOUSE),
    "minimum": list(HOUSE.minimum_versions.values()),
    "site": list(HOUSE.sites),
    "keyed_site": [site for site in HOUSE.sites if site.auth == "key"],
    "plain_site": [site for site in HOUSE.sites if site.plain],
    "house_site": [site for site in HOUSE.sites if site.auth == "house"],
    "caller": [s for s in instances(HOUSE) if any(f.source == s.name for f in HOUSE.flows)],
    "alias": [a for a in HOUSE.aliases.values() if a.offered and a.kind != "transcribe"],
    "speaker": [
        a for a in HOUSE.aliases.values() if a.offered and a.kind not in ("embed", "transcribe")
    ],
    "offered": [a for a in HOUSE.aliases.values() if a.offered],
    "fallback": [a for a in HOUSE.aliases.values() if a.offered and len(a.members) > 1],
    "speech_server": [s for s in HOUSE.services.values() if s.role == "kokoro" and s.publish],
    "chat": [s for s in HOUSE.services.values() if s.role == "open_webui" and s.publish],
    "listener": [s for s in HOUSE.services.values() if s.role == "whisper" and s.publish],
    "pipes": [s for s in instances(HOUSE) if s.role == "pipelines"],
    "transcriber": [a for a in HOUSE.aliases.values() if a.offered and a.kind == "transcribe"],
    "way_out": list(HOUSE.egress),
    "limited_consumer": [c for c in HOUSE.consumers.values() if c.models != "all"],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each row of what it asks for."""
    for name in ROWS.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, ROWS[name], ids=_id)


def _id(row: Any) -> str:
    if hasattr(row, "host"):
        return f"{row.source} to {row.host}"
    return str(getattr(row, "fqdn", row.name))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the units whose journals explain a failure, where a row is none itself."""
    callspec = getattr(item, "callspec", None)
    asked = [behind(row) for row in callspec.params.values()] if callspec else []
    if {"gateway", "model"} & set(getattr(item, "fixturenames", ())):
        asked.append(answering(HOUSE.aliases.values()))
    for owner in {owner.name: owner for owners in asked for owner in owners}.values():
        item.add_marker(pytest.mark.unit(getattr(owner, "instance", None), owner.unit))


def behind(row: Any) -> list[Service | Part]:
    """Return who answers for a site or an alias."""
    if isinstance(row, Alias):
        return answering([row])
    if isinstance(row, Site):
        known: dict[str, Service | Part] = {s.name: s for s in instances(HOUSE)} | dict(HOUSE.parts)
        names = ["login", row.service] if row.auth in ("key", "house") else [row.service]
        return [known[name] for name in names if name in known]
    return []


def answering(aliases: Iterable[Alias]) -> list[Service | Part]:
    """Return who carries requests to models, and who runs those of the aliases."""
    runs = {HOUSE.models[name].service for alias in aliases for name in alias.members}
    return [s for s in instances(HOUSE) if "models" in s.offers or s.name in runs]


@pytest.fixture(scope="session")
def project() -> Project:
    return current()


@pytest.fixture(scope="session")
def house() -> House:
    return HOUSE


@pytest.fixture(scope="session")
def vault(project: Project) -> Vault:
    return project.vault


@pytest.fixture(scope="session")
def edge(house: House) -> Edge:
    return house_edge(house)


@pytest.fixture(scope="session")
def lan_address(edge: Edge) -> str:
    """The address by which devices know the machine."""
    return edge.address


@pytest.fixture(scope="session")
def key(vault: Vault) -> str:
    """The key of the tests themselves."""
    return vault.get(VERIFIER)


@pytest.fixture(scope="session")
def gateway(house: House) -> str:
    """The name of the site behind which models answer."""
    for service in house.services.values():
        for site in service.publish:
            if "models" in service.offers:
                return site.fqdn
    pytest.skip("this house publishes no models")
