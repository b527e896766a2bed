"""The house's resolver knows the house's names, for devices and for instances."""

from urllib.parse import urlsplit

import pytest

from hearth.catalogue.house import House, Service, Site
from hearth.machine import facts
from hearth.smoke import hosts
from hearth.smoke.plugin import NotMeasured

pytestmark = [pytest.mark.home, pytest.mark.unit(None, "hearth-dnsmasq.service")]

NO_SUCH_NAME = 3


def test_a_site_has_the_machines_address(site: Site, house: House, lan_address: str) -> None:
    for server in (house.machine.resolver_address, lan_address):
        said = hosts.dns_answers(None, server, (site.fqdn, "A"), (site.fqdn, "AAAA"))
        assert said == [(0, [lan_address]), (0, [])], f"{server} says {said} of {site.fqdn}"


def test_instances_are_answered(inside: Service, house: House, lan_address: str) -> None:
    name = house.sites[0].fqdn
    said = hosts.dns_answers(inside.instance, house.machine.resolver_address, (name, "A"))
    assert said == [(0, [lan_address])]


def test_an_unknown_name_of_the_domain_stays_in_the_house(house: House) -> None:
    name = f"hearth-no-such-name.{house.machine.domain}"
    said = hosts.dns_answers(None, house.machine.resolver_address, (name, "A"))
    assert said == [(NO_SUCH_NAME, [])], f"the resolver says {said} of {name}"


def test_firefox_is_told_to_stay_with_the_house(house: House, lan_address: str) -> None:
    for server in (house.machine.resolver_address, lan_address):
        said = hosts.dns_answers(None, server, ("use-application-dns.net", "A"))
        assert said == [(NO_SUCH_NAME, [])], f"{server} says {said} of Firefox's question"


def test_names_of_the_world_are_answered(house: House, lan_address: str) -> None:
    servers = facts.configured_upstream()
    if not servers:
        raise NotMeasured("this house knows nobody who knows the world: write upstream_dns")
    others = facts.without_own(servers, [*facts.addresses(), house.machine.resolver_address])
    assert list(others) == servers, f"the resolver is told to ask itself: {servers}"
    # Names that this house has a use for; whoever is asked shows which of them there are.
    known = {urlsplit(source.url).hostname for source in house.sources.values()}
    asked = [(name, "A") for name in known | {way.host for way in house.egress} if name]
    said = [hosts.dns_answers(None, server, *asked) for server in servers]
    there = {ask for rows in said for ask, (_, found) in zip(asked, rows, strict=True) if found}
    if not there:
        heard = any(code >= 0 for rows in said for code, _ in rows)
        what = "know none of these names" if heard else "do not answer"
        raise NotMeasured(f"{', '.join(servers)} {what}: no internet")
    name = min(there)
    for server in (house.machine.resolver_address, lan_address):
        ((code, addresses),) = hosts.dns_answers(None, server, name)
        assert addresses, f"{server} does not know {name[0]} (DNS code {code}), {servers} do"
