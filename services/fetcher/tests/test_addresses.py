"""Only public addresses are used, and none of the house or its LAN."""

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.render import files
from hearth_fetcher.addresses import NOT_PUBLIC, Guard
from hearth_serving.errors import ServiceError

HOUSE = (IPv4Network("10.140.30.0/24"), IPv4Network("8.8.8.0/24"))


def guard(*answers: str, **more: frozenset[str]) -> Guard:
    async def resolve(host: str) -> tuple[str, ...]:
        assert host == "x.example.org"
        return answers

    return Guard(resolve, HOUSE, **more)


def test_the_firewall_closes_the_same_networks() -> None:
    assert [str(network) for network in NOT_PUBLIC] == list(files.NOT_PUBLIC)


@pytest.mark.parametrize("network", [*NOT_PUBLIC, *HOUSE])
async def test_both_ends_of_every_closed_network_are_rejected(network: IPv4Network) -> None:
    for address in (network[0], network[-1]):
        with pytest.raises(ServiceError, match="is not on the internet") as caught:
            await guard(str(address)).addresses("x.example.org")
        assert caught.value.status == 403
        # The address itself is nothing that an agent needs to know.
        assert str(address) not in str(caught.value)
        with pytest.raises(ServiceError, match="is not on the internet"):
            await guard().addresses(str(address))


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1).map(IPv4Address))
async def test_whatever_is_accepted_is_global_for_python_as_well(address: IPv4Address) -> None:
    try:
        await guard().addresses(str(address))
    except ServiceError:
        return
    assert address.is_global
    assert not address.is_multicast


async def test_one_private_address_rejects_all() -> None:
    with pytest.raises(ServiceError, match="is not on the internet"):
        await guard("9.9.9.9", "192.168.1.1").addresses("x.example.org")
    assert await guard("9.9.9.9", "1.1.1.1").addresses("x.example.org") == ("9.9.9.9", "1.1.1.1")


async def test_a_name_without_an_address_says_so() -> None:
    with pytest.raises(ServiceError, match="no IPv4 address"):
        await guard().addresses("x.example.org")


async def test_an_open_name_may_have_any_address_and_no_other_name_gains() -> None:
    opened = frozenset({"x.example.org"})
    assert await guard("10.99.1.1", open_names=opened).addresses("x.example.org") == ("10.99.1.1",)
    with pytest.raises(ServiceError):
        await guard(open_names=opened).addresses("10.99.1.1")
