"""Allowed and forbidden connections: between services, to the internet, and from Caddy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from hearth.catalogue.house import Egress, Flow, Service

Services = Mapping[str, Service]
HTTPS_PORT = 443


def flows(services: Services) -> tuple[Flow, ...]:
    """List every allowed connection between services: needs, and metrics for the scraper."""
    found: dict[Flow, None] = {}
    for source in services.values():
        if not source.address:
            continue
        for name in source.needs:
            if flow := _to(source, services[name], _port(services[name])):
                found[flow] = None
        for target in services.values() if source.scrapes else ():
            if target is not source and (flow := _to(source, target, target.metrics_port)):
                found[flow] = None
    return tuple(found)


def forbidden(services: Services, allowed: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """List every other connection between instances; tests check that it is rejected."""
    pairs = (
        flow
        for source in services.values()
        for target in services.values()
        if source is not target and target.address
        for port in sorted(
            {p for p in (target.port, target.metrics_port, *target.publish_tcp) if p}
        )
        if (flow := _to(source, target, port))
    )
    return tuple(flow for flow in pairs if flow not in allowed)


def egress(services: Services) -> tuple[Egress, ...]:
    """List all allowed egress: the record's hosts on port 443, and external services by name."""
    found: dict[Egress, None] = {}
    for source in services.values():
        if not source.address:
            continue
        for host in source.egress:
            found[Egress(source.name, source.address, host, HTTPS_PORT)] = None
        for need in source.needs:
            target = services[need]
            host = urlsplit(target.url).hostname or ""
            if target.runtime == "external" and not _is_address(host):
                found[Egress(source.name, source.address, host, _port(target) or HTTPS_PORT)] = None
    return tuple(found)


def published_ports(services: Services) -> tuple[tuple[str, int], ...]:
    """List the address and port of each instance that Caddy may connect to."""
    return tuple(
        (service.address, service.port)
        for service in services.values()
        if service.address
        and service.port
        and any(site.upstream is not None for site in service.publish)
    )


def _to(source: Service, target: Service, port: int | None) -> Flow | None:
    """Return a flow where both ends have an address and the port is known."""
    address = target.address or urlsplit(target.url).hostname or ""
    if not source.address or not port or not _is_address(address):
        return None
    return Flow(source.name, target.name, source.address, address, port)


def _port(service: Service) -> int | None:
    if service.port:
        return service.port
    parts = urlsplit(service.url)
    return parts.port or (HTTPS_PORT if parts.scheme == "https" else 80)


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
