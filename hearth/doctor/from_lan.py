"""What a phone on the LAN sees of the house: names, certificates and ports.

It runs on the house itself, through its LAN address, or on another computer with this project.
"""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from hearth.catalogue.house import House
from hearth.clients import ClientError
from hearth.clients.endpoints import lan_address, one_line
from hearth.machine import facts, probe
from hearth.machine.secrets import SecretsError
from hearth.paths import ROOT_CERTIFICATE, TRUST_CONFIG
from hearth.project import Project

_WITHIN_S = 3.0
_PORTS = (80, 443, 53)
_HTTPS = 443
_REFUSED = {0: "no address", 3: "no such name", -1: "nothing at all"}


@dataclass(frozen=True, slots=True)
class LanRow:
    """One thing that a device needs, and what it gets."""

    what: str
    good: bool
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was seen, and from where."""

    place: str
    rows: tuple[LanRow, ...]

    @property
    def good(self) -> bool:
        """Whether a device gets everything that it needs."""
        return all(row.good for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {"good": self.good, **asdict(self)}


def look(project: Project) -> Seen:
    """Look at the house as a device on its LAN does; takes some seconds."""
    house = project.house()
    here = TRUST_CONFIG.exists()
    servers = facts.nameservers()
    address = _address(house, here, servers)
    if here:
        # Its own packets pass no rule for those that come in.
        place = (
            f"the house itself, through its LAN address {address or '(none)'}; to test a firewall "
            "on it, run this on another computer"
        )
        servers = [*dict.fromkeys([address, *servers])] if address else servers
    else:
        place = f"this computer ({socket.gethostname()})"
    rows = [*_names(house, servers, address, here)]
    if address is None:
        rows.append(LanRow("address", False, "no DNS server knows the house: see docs/dns.md"))
    else:
        rows += _ports(address)
        rows += _certificates(project, house, address, here)
    return Seen(place, tuple(rows))


def _address(house: House, here: bool, servers: list[str]) -> str | None:
    """Return the house's address: its own, that of its record, or what a DNS server says."""
    if here:
        return lan_address(house)
    if house.machine.lan_address != "auto":
        return house.machine.lan_address
    if house.machine.reach != "local":
        try:
            return socket.gethostbyname(urlsplit(house.machine.reach).hostname or "")
        except OSError:
            return None
    name = house.sites[0].fqdn
    answers = (probe.resolve(server, name, "A")[1] for server in servers)
    return next((found[0] for found in answers if found), None)


def _names(house: House, servers: list[str], address: str | None, here: bool) -> Iterator[LanRow]:
    """Yield what each DNS server answers for a name of the house."""
    name = house.sites[0].fqdn
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda server: probe.resolve(server, name, "A"), servers)
        for server, (code, found) in zip(servers, answers, strict=True):
            what = f"DNS server {server}"
            if found:
                right = address in found
                end = "" if right else f", and the house is {address}"
                yield LanRow(what, right, f"answers {name} with {', '.join(found)}{end}")
                continue
            got = _REFUSED.get(code, f"error {code}")
            # On the house, the others are servers for names outside; devices ask the house.
            outside = here and server != address
            end = ": a device that asks it does not find the house"
            yield LanRow(what, outside, f"answers {name} with {got}{end}")
    if not servers:
        yield LanRow("DNS server", False, "this computer has none")


def _ports(address: str) -> Iterator[LanRow]:
    """Yield whether the ports that devices use are open."""
    with ThreadPoolExecutor(len(_PORTS)) as pool:
        found = pool.map(lambda port: probe.connect(address, port), _PORTS)
        for port, (outcome, seconds) in zip(_PORTS, found, strict=True):
            text = f"{outcome} after {seconds * 1000:.0f} ms"
            yield LanRow(f"{address} port {port}", outcome == "open", text)


def _certificates(project: Project, house: House, address: str, here: bool) -> Iterator[LanRow]:
    """Yield whether each site presents a chain that the house's root confirms."""
    try:
        context, whose = _trust(project, here)
    except (ClientError, OSError, ssl.SSLError) as error:
        yield LanRow("certificates", False, one_line(error))
        return

    def try_site(fqdn: str) -> str:
        try:
            with (
                socket.create_connection((address, _HTTPS), _WITHIN_S) as plain,
                context.wrap_socket(plain, server_hostname=fqdn),
            ):
                return ""
        except ssl.SSLCertVerificationError as error:
            return f"{whose} does not confirm it: {error.verify_message}"
        except OSError as error:
            return one_line(error)

    with ThreadPoolExecutor(8) as pool:
        names = [site.fqdn for site in house.sites]
        for fqdn, why in zip(names, pool.map(try_site, names), strict=True):
            yield LanRow(f"https://{fqdn}", not why, why or f"{whose} confirms its certificate")


def _trust(project: Project, here: bool) -> tuple[ssl.SSLContext, str]:
    """Return what verifies certificates: the house's root if it is known, or this computer."""
    if here:
        return ssl.create_default_context(cafile=str(ROOT_CERTIFICATE)), "the house's root"
    try:
        root = project.vault.values().get("house_root_cert")
    except SecretsError:
        root = None
    if root:
        return ssl.create_default_context(cadata=root), "the house's root"
    # As a browser on this computer.
    return ssl.create_default_context(), "this computer"
