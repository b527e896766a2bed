"""The house's resolver knows the house's names, for devices and for instances."""

import pytest

from hearth.catalogue.house import House, Service, Site
from hearth.verify import inside as look

pytestmark = [pytest.mark.home, pytest.mark.unit(None, "hearth-dnsmasq.service")]

NO_SUCH_NAME = 3


def test_a_site_has_the_machines_address(site: Site, house: House, lan_address: str) -> None:
    for server in (house.machine.resolver_address, lan_address):
        said = look.answers(None, server, (site.fqdn, "A"), (site.fqdn, "AAAA"))
        assert said == [(0, [lan_address]), (0, [])], f"{server} says {said} of {site.fqdn}"


def test_instances_are_answered(inside: Service, house: House, lan_address: str) -> None:
    name = house.sites[0].fqdn
    said = look.answers(inside.instance, house.machine.resolver_address, (name, "A"))
    assert said == [(0, [lan_address])]


def test_an_unknown_name_of_the_domain_stays_in_the_house(house: House) -> None:
    name = f"hearth-no-such-name.{house.machine.domain}"
    said = look.answers(None, house.machine.resolver_address, (name, "A"))
    assert said == [(NO_SUCH_NAME, [])], f"the resolver says {said} of {name}"
