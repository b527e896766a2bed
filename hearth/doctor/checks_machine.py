"""Findings about the machine: disks, clocks, certificates, names, addresses, ports, firewalls."""

import socket
import ssl
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address

import httpx

from hearth.catalogue.house import Service, Site
from hearth.clients.endpoints import lan_address, needs_authorities, one_line
from hearth.doctor.finding import Context, Finding, check
from hearth.doctor.kinds import (
    ADDRESS_CHANGED,
    CERTIFICATE_ENDING,
    CLOCK_WRONG,
    DISK_FULL,
    DISK_LOW,
    DNS_OTHER_SERVER,
    DOCKER_BLOCKS,
    FIREWALL_BLOCKS,
    FIREWALL_GONE,
    PORT_TAKEN,
)
from hearth.machine import environment, facts, other_firewalls, pki, preflight
from hearth.paths import ROOT_CERTIFICATE
from hearth.status import FULL_BYTES, LITTLE_BYTES, certificate_validity, free_space, moved

_EVERYTHING = ("*",)
# More than a request takes, and less than a certificate or a session forgives.
_OFF_S = 120
_REQUEST_S = 2.0
# Caddy renews a site's certificate once a third of its life is left.
_LEFT = 1 / 6
_HTTP, _HTTPS = 80, 443


@check(every_s=10)
def disk(context: Context) -> Iterator[Finding]:
    """Find disks with data of the house that are full, or nearly so."""
    for folder, free in free_space(context.house).items():
        if free < LITTLE_BYTES:
            kind = DISK_FULL if free < FULL_BYTES else DISK_LOW
            text = f"{free / 2**30:.2f} GiB free on the disk of {folder}"
            yield Finding(kind, folder, text, _EVERYTHING)


@check(every_s=60)
def clock(context: Context) -> Iterator[Finding]:
    """Find a clock that is wrong: the machine's, or that of one program."""
    if environment.clock(context.root) == "early":
        shown = f"{datetime.fromtimestamp(context.now, UTC):%Y-%m-%d}"
        why = f"the machine shows {shown}, before the release of this Debian"
        yield Finding(CLOCK_WRONG, "", why, _EVERYTHING)
        return
    services = context.house.services
    with ThreadPoolExecutor(8) as pool:
        ahead = dict(zip(services, pool.map(seconds_ahead, services.values()), strict=True))
    known = {name: seconds for name, seconds in ahead.items() if seconds is not None}
    off = {name: seconds for name, seconds in known.items() if abs(seconds) > _OFF_S}
    # All programs share the machine's clock: if most differ from it, the reader's own is wrong.
    if len(off) > 1 and 2 * len(off) > len(known):
        seconds = statistics.median(off.values())
        why = f"it is {_days(-seconds)} the clocks of {len(off)} of {len(known)} programs"
        yield Finding(CLOCK_WRONG, "", why, _EVERYTHING)
        return
    for name, seconds in off.items():
        yield Finding(CLOCK_WRONG, name, f"its clock is {_days(seconds)} the machine's")


def seconds_ahead(service: Service) -> float | None:
    """Return by how much the clock of a program is ahead of this process's; None if unknown."""
    url = service.url + service.health.path
    try:
        answer = httpx.get(url, timeout=_REQUEST_S, trust_env=False, verify=needs_authorities(url))
        there = parsedate_to_datetime(answer.headers["Date"])
    except (httpx.HTTPError, KeyError, ValueError):
        return None
    return (there - datetime.now(UTC)).total_seconds()


def _days(seconds: float) -> str:
    size = abs(seconds)
    text = f"{size / 86400:.1f} days" if size > 86400 else f"{size:.0f} s"
    return f"{text} {'ahead of' if seconds > 0 else 'behind'}"


@check(every_s=600)
def certificates(context: Context) -> Iterator[Finding]:
    """Find certificates that were not renewed in time: the authority's, and those of the sites."""
    now = datetime.fromtimestamp(context.now, UTC)
    folder = context.root / ROOT_CERTIFICATE.parent.relative_to("/")
    good, text = certificate_validity(now, folder)
    if not good:
        yield Finding(CERTIFICATE_ENDING, "", one_line(text))
    address = lan_address(context.house)
    sites = [site for site in context.house.sites if address]
    with ThreadPoolExecutor(8) as pool:
        presented = pool.map(lambda site: certificate_of(address or "", site.fqdn), sites)
        for site, pem in zip(sites, presented, strict=True):
            if pem and pki.life_left(pem, now) < _LEFT:
                yield _ending(site, pem, now)


def _ending(site: Site, pem: str, now: datetime) -> Finding:
    hours = (pki.not_after(pem) - now).total_seconds() / 3600
    when = f"ends in {hours:.1f} h" if hours > 0 else f"ended {-hours:.1f} h ago"
    return Finding(CERTIFICATE_ENDING, site.fqdn, f"the certificate of {site.fqdn} {when}")


def certificate_of(address: str, fqdn: str) -> str:
    """Return the certificate that a site presents, as PEM; empty where nothing answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Also one that has ended is read; devices verify it, and the smoke tests.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address, _HTTPS), _REQUEST_S) as plain,
            context.wrap_socket(plain, server_hostname=fqdn) as connection,
        ):
            return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")
    except OSError:
        return ""


@check(every_s=600)
def names(context: Context) -> Iterator[Finding]:
    """Find other DNS servers that answer for the house's names with another address."""
    own = lan_address(context.house)
    ours = [*facts.addresses(), context.house.machine.resolver_address]
    known = [*facts.configured_upstream(context.root), *facts.nameservers(context.root)]
    # A server outside of the home is told none of its names.
    near = (one for one in known if not ip_address(one.partition("%")[0]).is_global)
    servers = tuple(dict.fromkeys(facts.without_own(near, ours)))
    if own:
        # A device asks the house at this address; another program may answer there.
        servers = (own, *servers)
    found = environment.foreign_answers(context.house, servers, own or "")
    for server, (name, address) in found.items():
        yield Finding(
            DNS_OTHER_SERVER,
            server,
            f"{server} answers {name} with {address}, and the house is {own or 'not on the LAN'}",
        )


@check(every_s=60)
def address(context: Context) -> Iterator[Finding]:
    """Find an address on the LAN that is not the one that devices were told."""
    for line in moved(context.house):
        yield Finding(ADDRESS_CHANGED, "", line, _EVERYTHING)


@check(every_s=60)
def ports(context: Context) -> Iterator[Finding]:
    """Find programs that hold a port of the house."""
    parts = context.house.parts.values()
    own = lan_address(context.house) or ""
    for port, line in preflight.taken_ports(context.house, own, facts.listeners()):
        # The reverse proxy has one port in its record, and holds 80 as well.
        hits = tuple(one.name for one in parts if one.port == (_HTTPS if port == _HTTP else port))
        yield Finding(PORT_TAKEN, str(port), line, hits)


@check(every_s=10, within_s=7)
def firewalls(context: Context) -> Iterator[Finding]:
    """Find a firewall of the house that is not loaded, and others that drop its packets."""
    row = context.row("firewall")
    if row and not row.up:
        yield Finding(FIREWALL_GONE, "", one_line(row.text), _EVERYTHING)
    instances, rules = context.house.machine.instances, other_firewalls.ruleset()
    for line in other_firewalls.find(rules, instances):
        yield Finding(FIREWALL_BLOCKS, "", line, _EVERYTHING)
    for line in other_firewalls.legacy(context.root):
        yield Finding(FIREWALL_BLOCKS, "", line, _EVERYTHING)
    if other_firewalls.docker_drops(rules, instances):
        why = "its chain FORWARD drops, and DOCKER-USER has no exception for the links `to-*`"
        yield Finding(DOCKER_BLOCKS, "", why, _EVERYTHING)
