"""The wires carry what the catalogue says and nothing else, tried from inside each instance."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from hearth.catalogue.house import Egress, House, Service
from hearth.machine import facts
from hearth.smoke import hosts
from hearth.smoke.plugin import NotMeasured

pytestmark = pytest.mark.home

# Addresses that always mean the world outside; nothing of ours may answer for them.
OUTSIDE = [("1.1.1.1", 443), ("9.9.9.9", 53), ("192.0.2.1", 80)]
# What machines usually listen on, beside what this one is seen to listen on.
USUAL = (22, 53, 80, 443, 2019, 8443, 9180)
NOBODY = 65534
# The kernel's stock of refusals fills by one in a second.
PATIENCE = 8
# What is tried from inside an instance; it gives the trouble that it met, in words.
Question = Callable[[Service, House], str]
Everywhere = Callable[[Question, Service], str]


@pytest.fixture(scope="session")
def everywhere(house: House) -> Iterator[Everywhere]:
    """Give what a question meets in an instance; with the first one it is asked in all at once.

    Most of the time goes by in waiting for silence, and the kernel counts its refusals by whom they
    go to.
    """
    with ThreadPoolExecutor(max_workers=8) as pool:

        @functools.cache
        def asked(question: Question) -> Mapping[str, Future[str]]:
            there = [service for service in house.services.values() if service.address]
            return {one.name: pool.submit(question, one, house) for one in there}

        yield lambda question, inside: asked(question)[inside.name].result()


def wrong(tried: list[hosts.Attempt], wanted: set[str]) -> str:
    """Say which attempts met something else, or made somebody wait."""
    return "; ".join(str(one) for one in tried if one.outcome not in wanted or not one.quick)


def none(trouble: str) -> None:
    """Fail with a line for a person when there is trouble."""
    if trouble:
        pytest.fail(trouble, pytrace=False)


def leaks(instance: str | None, targets: list[tuple[str, int]]) -> str:
    """Say which of the targets a packet reached, or that no refusal comes soon.

    "Refused" is a leak, too: the firewall says "prohibited", so an unused port answered. The kernel
    limits how many refusals it sends in a second, so of many attempts most meet silence, and only
    one, tried by itself, is asked to be refused quickly.
    """
    tried = hosts.connections(instance, targets)
    reached = [str(one) for one in tried if one.outcome in ("open", "refused")]
    if reached:
        return "; ".join(reached)
    for _ in range(PATIENCE):
        (one,) = hosts.connections(instance, targets[:1])
        if one.outcome == "rejected" and one.quick:
            return ""
        time.sleep(1.1)
    return f"no quick refusal: {one}"


def test_needs_are_reached(caller: Service, house: House) -> None:
    flows = [flow for flow in house.flows if flow.source == caller.name]
    targets = [(flow.target_address, flow.port) for flow in flows]
    none(wrong(hosts.connections(caller.instance, targets), {"open"}))


def test_nobody_else_is_reached(inside: Service, everywhere: Everywhere) -> None:
    none(everywhere(_others, inside))


def _others(inside: Service, house: House) -> str:
    pairs = [flow for flow in house.forbidden if flow.source == inside.name]
    # Ports of others, also where nobody listens: "refused" would mean that a packet got through.
    allowed = {
        (flow.target_address, flow.port) for flow in house.flows if flow.source == inside.name
    }
    ports = {service.port for service in house.services.values() if service.port} | {22, 80, 443}
    others = [s for s in house.services.values() if s.address and s.name != inside.name]
    targets = {(pair.target_address, pair.port) for pair in pairs}
    targets |= {(other.address or "", port) for other in others for port in ports}
    if not targets - allowed:
        raise NotMeasured(f"{inside.name} is alone")
    return leaks(inside.instance, sorted(targets - allowed))


def test_the_machine_answers_names_and_nothing_else(
    inside: Service, everywhere: Everywhere
) -> None:
    none(everywhere(_machine, inside))


def _machine(inside: Service, house: House) -> str:
    resolver = house.machine.resolver_address
    ports = {one.port for one in facts.listeners() if one.protocol == "tcp"} | set(USUAL)
    own = {address for name in hosts.host(None).interface.names() for address in _addresses(name)}
    targets = {(address, port) for address in own | {resolver} for port in ports}
    names = wrong(hosts.connections(inside.instance, [(resolver, 53)]), {"open"})
    return names or leaks(inside.instance, sorted(targets - {(resolver, 53)}))


def _addresses(interface: str) -> list[str]:
    found: list[str] = hosts.host(None).interface(interface, family="inet").addresses
    return [address for address in found if not address.startswith("127.")]


def test_the_outside_is_closed(inside: Service, everywhere: Everywhere) -> None:
    none(everywhere(_outside, inside))


def _outside(inside: Service, house: House) -> str:
    return leaks(inside.instance, OUTSIDE)


def test_a_name_that_is_not_in_egress_is_closed(inside: Service, everywhere: Everywhere) -> None:
    none(everywhere(_strange_name, inside))


def _strange_name(inside: Service, house: House) -> str:
    allowed = {way.host for way in house.egress if way.source == inside.name}
    name = next((one for one in _mirrors() if one not in allowed), None)
    if name is None:
        raise NotMeasured("this machine's apt knows no mirror by name")
    ((_, addresses),) = hosts.dns_answers(
        inside.instance, house.machine.resolver_address, (name, "A")
    )
    if not addresses:
        raise NotMeasured(f"{name} has no address here")
    shared = _shared(inside, house, allowed)
    targets = [(address, 443) for address in addresses if address not in shared]
    if not targets:
        raise NotMeasured(f"{name} stands on the same address as what {inside.name} may reach")
    return leaks(inside.instance, targets)


def _mirrors() -> list[str]:
    """Return where the machine's own apt goes: names that exist, and that no service needs."""
    said = hosts.host(None).check_output("apt-get indextargets --format '$(SITE)'")
    names = {urlsplit(line).hostname for line in said.splitlines()}
    return sorted(name for name in names if name)


def _shared(inside: Service, house: House, allowed: set[str]) -> set[str]:
    """Return the addresses that are open on purpose: one server may bear many names."""
    asked = [(name, "A") for name in sorted(allowed)]
    said = hosts.dns_answers(inside.instance, house.machine.resolver_address, *asked)
    return {address for _, addresses in said for address in addresses}


def test_egress_is_open(way_out: Egress, house: House) -> None:
    instance = house.services[way_out.source].instance
    resolver = house.machine.resolver_address
    ((code, addresses),) = hosts.dns_answers(instance, resolver, (way_out.host, "A"))
    if not addresses:
        raise NotMeasured(f"{way_out.host} has no address here (DNS code {code})")
    targets = [(address, way_out.port) for address in addresses]
    if not any(one.outcome == "open" for one in hosts.connections(None, targets)):
        raise NotMeasured(f"this machine itself does not reach {way_out.host}")
    tried = hosts.connections(instance, targets)
    assert any(one.outcome == "open" for one in tried), wrong(tried, {"open"})


def test_ipv6_is_closed(inside: Service, everywhere: Everywhere) -> None:
    none(everywhere(_ipv6, inside))


def _ipv6(inside: Service, house: House) -> str:
    links = hosts.host(inside.instance).check_output("cat /proc/net/if_inet6 || true").splitlines()
    scopes = {line.split()[3] for line in links if line.split()[5] != "lo"}
    if not scopes <= {"20"}:
        return f"{inside.name} has an IPv6 address that is not link-local"
    line = hosts.host(None).run("ip -6 -o addr show dev %s scope link", inside.host_name).stdout
    if not scopes or "inet6" not in line:
        return ""
    address = line.split("inet6")[1].split("/")[0].strip()
    tried = hosts.connections(inside.instance, [(f"{address}%eth0", port) for port in USUAL])
    # Silence is as good as a refusal: without an IPv6 address nobody ever waits for it.
    return "; ".join(str(one) for one in tried if one.outcome == "open")


def test_only_root_and_the_front_door_reach_instances(inside: Service, house: House) -> None:
    assert inside.address
    assert inside.port
    tried = hosts.connections(None, [(inside.address, inside.port)], user=NOBODY)
    none(wrong(tried, {"rejected"}))


def test_only_root_and_the_front_door_reach_the_login(house: House) -> None:
    port = house.parts["login"].port
    assert port
    tried = hosts.connections(None, [("127.0.0.1", port)], user=NOBODY)
    none(wrong(tried, {"rejected"}))
