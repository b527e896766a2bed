"""Connections and names are as the catalogue says, tried from inside each instance."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import IPv4Address
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from hearth import status
from hearth.catalogue.house import Egress, House, Service, Site
from hearth.clients.endpoints import Edge
from hearth.machine import facts
from hearth.smoke.hosts import Attempt, connections, dns_answers, host, needs_instances
from hearth.smoke.plugin import NotMeasured

pytestmark = pytest.mark.home
dnsmasq = pytest.mark.unit(None, "hearth-dnsmasq.service")

# Public addresses, and one that is reserved for documentation.
OUTSIDE = [("1.1.1.1", 443), ("9.9.9.9", 53), ("192.0.2.1", 80)]
# With egress to every public address: other ports, and addresses that are not public.
NOT_THE_WEB = [("1.1.1.1", 853), ("9.9.9.9", 53), ("192.0.2.1", 80), ("169.254.169.254", 80)]
# Ports that machines usually listen on, in addition to those that this one is seen to listen on.
USUAL_PORTS = (22, 53, 80, 443, 2019, 8443, 9180)
UNPRIVILEGED = 65534
SETTLED_S = 2.0
NO_SUCH_NAME = 3
Target = tuple[str, int]


class Expected(NamedTuple):
    """Targets that an instance must not reach; one of them, `alone`, must be rejected quickly.

    "Refused" is a leak as well: the firewall answers "prohibited", so a closed port must have
    answered. The kernel limits its rejections per second, so of many attempts most meet silence.
    """

    closed: list[Target]
    alone: list[Target]
    open: Sequence[Target] = ()
    leaks: tuple[str, ...] = ("open", "refused")


Expect = Callable[[Service, House], Expected]
Problem = str | Exception
EXPECTED: dict[str, Expect] = {}
STARTED: dict[str, Future[Mapping[str, Problem]]] = {}
POOL = ThreadPoolExecutor(max_workers=16)


def closed(expect: Expect) -> Callable[[Service, House], None]:
    """Return the test that an instance reaches only what a function expects.

    The first one starts the attempts of all such tests in all instances: most of the time is spent
    waiting for silence, and the kernel limits rejections per instance.
    """
    EXPECTED[expect.__name__] = expect

    @functools.wraps(expect)
    def test(local: Service, house: House) -> None:
        if not STARTED:
            services = [service for service in house.services.values() if service.address]
            STARTED.update({s.name: POOL.submit(problems, s, house) for s in services})
        problem = STARTED[local.name].result()[expect.__name__]
        if isinstance(problem, Exception):
            raise problem
        expect_nothing(problem)

    return test


def problems(service: Service, house: House) -> Mapping[str, Problem]:
    """Try the connections of all tests inside an instance; return the problem of each, or ""."""
    found: dict[str, Problem] = {}
    wanted: dict[str, Expected] = {}
    for name, expect in EXPECTED.items():
        try:
            wanted[name] = expect(service, house)
        except Exception as error:  # the test of this name raises it
            found[name] = error
    targets = list({target for one in wanted.values() for target in (*one.closed, *one.open)})
    last = [target for one in wanted.values() for target in one.alone]
    tried = connections(service.instance, targets, last)
    by_target = dict(zip(targets, tried, strict=False))
    rejected = dict(zip(last, tried[len(targets) :], strict=True))
    for name, expected in wanted.items():
        closed = [by_target[target] for target in expected.closed]
        leaks = [str(one) for one in closed if one.outcome in expected.leaks]
        late = unexpected([rejected[target] for target in expected.alone], "rejected")
        unreached = unexpected([by_target[target] for target in expected.open], "open")
        found[name] = unreached or "; ".join(leaks) or (late and f"not rejected quickly: {late}")
    return found


def unexpected(tried: list[Attempt], wanted: str) -> str:
    """Return the attempts with another outcome, or with one that took too long."""
    return "; ".join(str(one) for one in tried if one.outcome != wanted or not one.quick)


def expect_nothing(problem: str) -> None:
    """Fail with one line for a person when there is a problem."""
    if problem:
        pytest.fail(problem, pytrace=False)


@pytest.mark.decisive
def test_instances_reach_each_other(house: House) -> None:
    if not house.flows:
        raise NotMeasured("no service needs another one")
    needs_instances()
    # Twice: a rule of another program may just be being answered.
    for _ in range(2):
        tried = status.try_needs(house)
        # Where only some fail, the tests of each service tell which.
        if not status.none_answers(house, tried):
            return
        time.sleep(SETTLED_S)
    expect_nothing(status.judge_needs(house, tried)[1])


def test_a_service_reaches_what_it_needs(caller: Service, house: House) -> None:
    flows = [flow for flow in house.flows if flow.source == caller.name]
    targets = [(flow.target_address, flow.port) for flow in flows]
    expect_nothing(unexpected(connections(caller.instance, targets), "open"))


@closed
def test_a_service_reaches_no_other_service(local: Service, house: House) -> Expected:
    # Also ports on which no service listens: "refused" would show that a packet passed.
    allowed = {
        (flow.target_address, flow.port) for flow in house.flows if flow.source == local.name
    }
    ports = {service.port for service in house.services.values() if service.port} | {22, 80, 443}
    others = [s for s in house.services.values() if s.address and s.name != local.name]
    targets = {(other.address or "", port) for other in others for port in ports}
    targets |= {(f.target_address, f.port) for f in house.forbidden if f.source == local.name}
    if not targets - allowed:
        raise NotMeasured(f"{local.name} is alone")
    return all_closed(targets - allowed)


def all_closed(targets: set[Target]) -> Expected:
    """Expect all targets to be closed, and the first one to be rejected quickly."""
    return Expected(sorted(targets), sorted(targets)[:1])


@closed
def test_the_machine_answers_an_instance_nothing_but_dns(local: Service, house: House) -> Expected:
    dns = (house.machine.resolver_address, 53)
    figures = {
        (flow.target_address, flow.port)
        for flow in house.flows
        if flow.source == local.name and flow.target in house.parts
    }
    ports = {one.port for one in facts.listeners() if one.protocol == "tcp"} | set(USUAL_PORTS)
    own = {at for at in facts.addresses() if ":" not in at and not at.startswith("127.")}
    targets = {(address, port) for address in own | {dns[0]} for port in ports}
    return all_closed(targets - {dns} - figures)._replace(open=[dns])


@closed
def test_an_instance_reaches_no_public_address(local: Service, house: House) -> Expected:
    targets = NOT_THE_WEB if local.anywhere else OUTSIDE
    return Expected(targets, targets[:1])


@closed
def test_an_instance_reaches_no_device_of_the_lan(local: Service, house: House) -> Expected:
    devices = lan_devices()
    if not devices:
        raise NotMeasured("this machine sees no other device on its LAN")
    own = [egress for egress in house.egress if egress.source == local.name]
    queries = [(egress.host, "A") for egress in own]
    answers = dns_answers(local.instance, house.machine.resolver_address, *queries) if own else []
    # A name that is open on purpose may be one of them.
    named = {
        (address, egress.port)
        for egress, (_, found) in zip(own, answers, strict=True)
        for address in found
    }
    flows = {(f.target_address, f.port) for f in house.flows if f.source == local.name}
    targets = {(device, port) for device in devices for port in (80, 443)}
    return all_closed(targets - named - flows)


def lan_devices() -> list[str]:
    """Return the router, and another device if the machine has just talked to one."""
    routes = facts.ip("-4", "route", "show", "default")
    routers = [str(route["gateway"]) for route in routes if "gateway" in route]
    links = {str(route["dev"]) for route in routes}
    seen = [
        str(row["dst"])
        for row in facts.ip("-4", "neigh", "show", "nud", "reachable")
        if row.get("dev") in links
    ]
    return list(dict.fromkeys([*routers, *seen]))[:2]


def mirrors() -> set[str]:
    """Return the mirrors of the machine's own apt: names that exist and that no service needs."""
    sites = host(None).check_output("apt-get indextargets --format '$(SITE)'").splitlines()
    found = {urlsplit(site).hostname or "" for site in sites} - {""}
    if not found:
        raise NotMeasured("this machine's apt knows no mirror by name")
    return found


@closed
def test_an_instance_reaches_no_name_outside_its_egress(local: Service, house: House) -> Expected:
    allowed = sorted(egress.host for egress in house.egress if egress.source == local.name)
    others = mirrors() - set(allowed)
    if not others:
        raise NotMeasured("this machine's apt knows no mirror by name")
    queries = [(name, "A") for name in (min(others), *allowed)]
    resolver = house.machine.resolver_address
    (_, addresses), *shared = dns_answers(local.instance, resolver, *queries)
    if not addresses:
        raise NotMeasured(f"{min(others)} has no address here")
    # One server may have many names, and some of them are open on purpose.
    open_addresses = {address for _, found in shared for address in found}
    # Where every name is open, only its web server is.
    port = 22 if local.anywhere else 443
    targets = {(address, port) for address in addresses if address not in open_addresses}
    if not targets:
        raise NotMeasured(f"{min(others)} has the same address as the egress of {local.name}")
    return all_closed(targets)


def test_egress_is_open(egress: Egress, house: House) -> None:
    instance = house.services[egress.source].instance
    resolver = house.machine.resolver_address
    ((code, addresses),) = dns_answers(instance, resolver, (egress.host, "A"))
    if not addresses:
        raise NotMeasured(f"{egress.host} has no address here (DNS code {code})")
    targets = [(address, egress.port) for address in addresses]
    if not any(one.outcome == "open" for one in connections(None, targets)):
        raise NotMeasured(f"this machine itself does not reach {egress.host}")
    tried = connections(instance, targets)
    assert any(one.outcome == "open" for one in tried), unexpected(tried, "open")


def test_egress_to_every_public_address_is_open(anywhere: Service, house: House) -> None:
    name, resolver = min(mirrors()), house.machine.resolver_address
    ((_, addresses),) = dns_answers(anywhere.instance, resolver, (name, "A"))
    targets = [(address, port) for address in addresses for port in (80, 443)]
    if not any(one.outcome == "open" for one in connections(None, targets)):
        raise NotMeasured(f"this machine itself does not reach {name}")
    if not any(IPv4Address(address).is_global for address in addresses):
        raise NotMeasured(f"{name} has no public address here")
    tried = connections(anywhere.instance, targets)
    assert any(one.outcome == "open" for one in tried), unexpected(tried, "open")


@closed
def test_ipv6_is_closed(local: Service, house: House) -> Expected:
    links = host(local.instance).check_output("cat /proc/net/if_inet6 || true").splitlines()
    scopes = {line.split()[3] for line in links if line.split()[5] != "lo"}
    assert scopes <= {"20"}, f"{local.name} has an IPv6 address that is not link-local"
    line = host(None).run("ip -6 -o addr show dev %s scope link", local.host_name).stdout
    if not scopes or "inet6" not in line:
        return Expected([], [])
    address = line.split("inet6")[1].split("/")[0].strip()
    # A refusal is as good as silence: no program waits for IPv6 without an address.
    return Expected([(f"{address}%eth0", port) for port in USUAL_PORTS], [], leaks=("open",))


def test_only_root_and_the_reverse_proxy_reach_an_instance(local: Service) -> None:
    target = (local.address or "", local.port or 0)
    expect_nothing(unexpected(connections(None, [target], user=UNPRIVILEGED), "rejected"))


def test_only_root_and_the_reverse_proxy_reach_the_login(house: House) -> None:
    target = ("127.0.0.1", house.parts["login"].port or 0)
    expect_nothing(unexpected(connections(None, [target], user=UNPRIVILEGED), "rejected"))


@dnsmasq
def test_a_site_resolves_to_the_machine(site: Site, house: House, edge: Edge) -> None:
    for server in (house.machine.resolver_address, edge.address):
        found = dns_answers(None, server, (site.fqdn, "A"), (site.fqdn, "AAAA"))
        assert found == [(0, [edge.address]), (0, [])], f"{server} returns {found} for {site.fqdn}"


@dnsmasq
def test_an_instance_resolves_names(local: Service, house: House, edge: Edge) -> None:
    resolver, name = house.machine.resolver_address, house.sites[0].fqdn
    assert dns_answers(local.instance, resolver, (name, "A")) == [(0, [edge.address])]


@dnsmasq
def test_an_unknown_name_of_the_domain_is_not_resolved(house: House) -> None:
    name = f"hearth-no-such-name.{house.machine.domain}"
    found = dns_answers(None, house.machine.resolver_address, (name, "A"))
    assert found == [(NO_SUCH_NAME, [])], f"the resolver returns {found} for {name}"


@dnsmasq
def test_firefox_is_told_to_use_the_houses_resolver(house: House, edge: Edge) -> None:
    for server in (house.machine.resolver_address, edge.address):
        found = dns_answers(None, server, ("use-application-dns.net", "A"))
        assert found == [(NO_SUCH_NAME, [])], f"{server} returns {found} for Firefox's query"


@dnsmasq
def test_public_names_are_resolved(house: House, edge: Edge) -> None:
    servers = facts.configured_upstream()
    if not servers:
        raise NotMeasured("this house has no upstream resolver: write upstream_dns")
    others = facts.without_own(servers, [*facts.addresses(), house.machine.resolver_address])
    assert list(others) == servers, f"the resolver forwards to itself: {servers}"
    # Names that this house uses; the upstream resolvers show which of them exist.
    names = {urlsplit(source.url).hostname for source in house.sources.values()}
    queries = [(name, "A") for name in names | {egress.host for egress in house.egress} if name]
    answers = [dns_answers(None, server, *queries) for server in servers]
    known = {q for rows in answers for q, (_, found) in zip(queries, rows, strict=True) if found}
    if not known:
        answered = any(code >= 0 for rows in answers for code, _ in rows)
        what = "know none of these names" if answered else "do not answer"
        raise NotMeasured(f"{', '.join(servers)} {what}: no internet")
    name = min(known)
    for server in (house.machine.resolver_address, edge.address):
        ((code, addresses),) = dns_answers(None, server, name)
        assert addresses, f"{server} does not know {name[0]} (DNS code {code}), {servers} do"
