"""Data for the machine's own programs: login, trust page, puller, firewall, resolver."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

from hearth.catalogue.house import House, Service


def login_config(house: House) -> dict[str, Any]:
    """Return what the login checks: each consumer's services, each site's service and auth."""
    return {
        "domain": house.machine.domain,
        "consumers": {
            name: {"services": list(consumer.services)}
            for name, consumer in house.consumers.items()
        },
        "sites": {s.fqdn: {"service": s.service, "auth": s.auth} for s in house.sites},
    }


def trust_config(house: House, interface: str, service: str, root: str) -> dict[str, Any]:
    """Return the trust page's data: its name, the LAN interface, the root, pages to open next."""
    return {
        "site": next(site.fqdn for site in house.sites if site.service == service),
        "domain": house.machine.domain,
        "interface": interface,
        "root": root,
        # Pages for people; the other sites are for programs with a key.
        "pages": [site.fqdn for site in house.sites if site.auth in ("own", "house")],
    }


def puller_models(house: House, service: str) -> dict[str, Any]:
    """Return the models that one Ollama must have; those of the default alias are pulled first."""
    pulled = {n: m for n, m in house.models.items() if m.service == service and m.pulled}
    # A new house is judged by its first answer; without an alias the smallest model comes first.
    first = house.default_alias.members if house.default_alias else ()
    fields = ("name", "id", "download_bytes", "memory_bytes", "digest")
    return {
        "models": [{key: getattr(model, key) for key in fields} for model in pulled.values()],
        "first": [pulled[name].id for name in first if name in pulled],
    }


def consumer_secrets(house: House, service: str | None = None) -> dict[str, str]:
    """Return the name of each consumer's key; with `service`, only of those who may call it."""
    return {
        name: consumer.secret
        for name, consumer in house.consumers.items()
        if service is None or service in consumer.services
    }


def health_at(service: Service, address: str = "") -> dict[str, Any]:
    """Return how to check a service's health, at its own address or another of its instance."""
    health = service.health
    return {
        "url": f"http://{address or service.address}:{service.port}{health.path}",
        "contains": health.contains,
        "within_s": health.within_s,
        "ready_s": health.ready_s,
    }


def egress_sets(house: House) -> list[dict[str, Any]]:
    """Return the firewall's sets of addresses outside: one per service and port.

    The resolver fills each as it answers for `hosts`.
    """
    sets: dict[str, dict[str, Any]] = {}
    for egress in house.egress:
        name = f"egress_{egress.source}_{egress.port}"
        fields = {"name": name, "address": egress.source_address, "port": egress.port}
        fields |= {"source": egress.source, "hosts": []}
        sets.setdefault(name, fields)["hosts"].append(egress.host)
    return list(sets.values())


def forwarded_ports(house: House) -> list[dict[str, Any]]:
    """Return each port of the LAN that leads into an instance, with its callers' addresses."""
    return [
        {"address": service.address, "port": port, "callers": list(callers)}
        for service in house.services.values()
        for port, callers in service.publish_tcp.items()
        if callers and service.address
    ]


def style_hash(style: str) -> str:
    """Return the source by which a page's Content-Security-Policy allows this one style."""
    return f"sha256-{b64encode(sha256(style.encode()).digest()).decode()}"
