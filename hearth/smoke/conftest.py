"""Fixtures of the smoke tests: the house as the catalogue derives it, and access to it."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hearth import status
from hearth.catalogue.house import Alias, House, Part, Service, Site
from hearth.clients.endpoints import Edge, house_edge
from hearth.clients.models import Overview
from hearth.machine.secrets import Vault
from hearth.paths import FIREWALL_UNIT
from hearth.project import VERIFIER, Project, current
from hearth.smoke.plugin import wait_for

HOUSE = current().house()
# Not a part of the catalogue, since it publishes nothing; its watch counts as its helper.
FIREWALL = SimpleNamespace(name="firewall", unit=FIREWALL_UNIT, as_root=True)
SERVICES = list(HOUSE.services.values())
LOCAL = [service for service in SERVICES if service.address]
OFFERED = [alias for alias in HOUSE.aliases.values() if alias.offered]


def offering(capability: str) -> list[Service]:
    """Return the published services with a capability."""
    return [service for service in HOUSE.offering(capability) if service.sites]


SCRAPERS = [service for service in LOCAL if service.scrapes]
# A scraper needs what sends alerts, and that what brings them to phones.
SENDERS = [HOUSE.services[need] for service in SCRAPERS for need in service.needs]
PUSH = {need for sender in SENDERS for need in sender.needs}
# The argument names of tests that run once per row.
ROWS: Mapping[str, list[Any]] = {
    "service": SERVICES,
    "local": LOCAL,
    # Everything that runs here as a unit.
    "owner": [*LOCAL, *HOUSE.parts.values(), FIREWALL],
    "minimum": list(HOUSE.minimum_versions.values()),
    "site": list(HOUSE.sites),
    "keyed_site": [site for site in HOUSE.sites if site.auth == "key"],
    "plain_site": [site for site in HOUSE.sites if site.plain],
    "house_site": [site for site in HOUSE.sites if site.auth == "house"],
    "caller": [s for s in LOCAL if any(flow.source == s.name for flow in HOUSE.flows)],
    "alias": [alias for alias in OFFERED if alias.kind != "transcribe"],
    "speaker": [alias for alias in OFFERED if alias.kind not in ("embed", "transcribe")],
    "unthinking": [alias for alias in OFFERED if alias.thinking == "off"],
    "tool_user": [
        alias
        for alias in OFFERED
        if any("tools" in HOUSE.models[name].capabilities for name in alias.members)
    ],
    "offered": OFFERED,
    "fallback": [alias for alias in OFFERED if len(alias.members) > 1],
    "speech_server": offering("speech_stream"),
    "chat": offering("chat"),
    "listener": offering("transcription"),
    "team": offering("agents"),
    "answerer": offering("calls"),
    "pipes": [service for service in LOCAL if "pipelines" in service.offers],
    "transcriber": [alias for alias in OFFERED if alias.kind == "transcribe"],
    "egress": list(HOUSE.egress),
    "anywhere": [service for service in LOCAL if service.anywhere],
    "scraper": SCRAPERS,
    "push_site": [site for site in HOUSE.sites if site.service in PUSH],
    "limited_consumer": [c for c in HOUSE.consumers.values() if c.models != "all"],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each row of its argument."""
    for name in ROWS.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(name, ROWS[name], ids=_id)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of an alias side by side: a small machine keeps only one model loaded.

    First of all comes what the others depend on.
    """
    places: dict[str, int] = {}

    def place(number: int) -> int:
        if items[number].get_closest_marker("decisive"):
            return -1
        callspec = getattr(items[number], "callspec", None)
        params = callspec.params if callspec else {}
        names = ("alias", "speaker", "unthinking", "tool_user")
        row = next((params[name] for name in names if name in params), None)
        return places.setdefault(row.name, number) if row else number

    items[:] = [items[number] for number in sorted(range(len(items)), key=place)]


def _id(row: Any) -> str:
    if hasattr(row, "host"):
        return f"{row.source} to {row.host}"
    return str(getattr(row, "fqdn", row.name))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the units whose journals explain a failure."""
    callspec = getattr(item, "callspec", None)
    owners = [o for row in callspec.params.values() for o in serving(row)] if callspec else []
    if {"gateway", "default_model"} & set(getattr(item, "fixturenames", ())):
        owners += answering(HOUSE.aliases.values())
    for owner in {owner.name: owner for owner in owners}.values():
        item.add_marker(pytest.mark.unit(getattr(owner, "system", None), owner.unit))


def serving(row: Any) -> list[Service | Part]:
    """Return the services and parts behind a site or an alias, or the row itself."""
    if isinstance(row, Alias):
        return answering([row])
    if isinstance(row, Site):
        known: dict[str, Service | Part] = {s.name: s for s in LOCAL} | dict(HOUSE.parts)
        names = ["login", row.service] if row.auth in ("key", "house") else [row.service]
        return [known[name] for name in names if name in known]
    return [row] if hasattr(row, "unit") else []


def answering(aliases: Iterable[Alias]) -> list[Service | Part]:
    """Return the gateway, and the services that run the models of the aliases."""
    runs = {HOUSE.models[name].service for alias in aliases for name in alias.members}
    return [s for s in LOCAL if "models" in s.offers or s.name in runs]


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
def overview(house: House) -> Overview:
    """The state of every model and alias."""
    return status.models(house)


@pytest.fixture(scope="session")
def default_alias(house: House) -> str:
    """The alias that the chat uses unless told otherwise."""
    assert house.default_alias, "no alias for chats is offered: see `hearth models`"
    return house.default_alias.name


@pytest.fixture(scope="session")
def default_model(overview: Overview, default_alias: str) -> str:
    """The model that answers the default alias, once there is one."""
    state = overview.aliases[default_alias]
    if state.answered_by is None:
        wait_for(state)
    return state.answered_by


@pytest.fixture(scope="session")
def key(vault: Vault) -> str:
    """The key of the tests themselves."""
    return vault.get(VERIFIER)


@pytest.fixture(scope="session")
def gateway() -> str:
    """The name of the site that offers the models."""
    sites = [site.fqdn for service in offering("models") for site in service.sites]
    if not sites:
        pytest.skip("this house publishes no models")
    return sites[0]
