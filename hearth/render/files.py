"""Data for the machine's own programs: login, trust page, puller, firewall, resolver."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv4Network, collapse_addresses
from typing import Any

from hearth.catalogue.house import DEFAULT_CONTEXT_TOKENS, House, Service, Site


def login_config(house: House) -> dict[str, Any]:
    """Return what the login checks: each consumer's services, each site's service and auth.

    A service of the house calls others directly: from the LAN its key opens nothing.
    """
    return {
        "domain": house.machine.domain,
        "consumers": {
            name: {"services": [] if consumer.inside else list(consumer.services)}
            for name, consumer in house.consumers.items()
        },
        "sites": {
            s.fqdn: {
                "service": s.service,
                "auth": s.auth,
                **({"shared": [one.service for one in s.shared]} if s.shared else {}),
            }
            for s in house.sites
        },
    }


def trust_config(
    house: House, interface: str, address: str, service: str, root: str
) -> dict[str, Any]:
    """Return the trust page's data: its name, the LAN, the root, pages to open next."""
    return {
        "site": next(site.fqdn for site in house.sites if site.service == service),
        "domain": house.machine.domain,
        "interface": interface,
        # Devices were told this one; the page and `hearth status` show another as a change.
        "address": address,
        "root": root,
        # Pages for people; the other sites are for programs, with a key or without a first page.
        "pages": [
            site.fqdn
            for site in house.sites
            if site.auth in ("own", "house") and (not site.paths or "/" in site.paths)
        ],
    }


# Part of what `offers` names, and what the canary calls it.
_WORK = {"speech": "speech", "transcription": "transcription", "loaded_models": "models"}


def health_config(
    house: House, part: str, accelerators: Mapping[str, str], canary: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the house's page's data: its name, pages for people, where it reads, and its canary.

    Args:
        house: The house.
        part: The page's own part; the canary tests what it needs.
        accelerators: What the machine has for each service.
        canary: Its settings: every_s, budget_s, wakes_card.
    """
    kinds = {"chat": "chat", "speech": "speech", "transcription": "transcription"}
    offers = {name: service.offers for name, service in house.services.items()}

    def tile(site: Site) -> dict[str, str]:
        summary = (house.services.get(site.service) or house.parts[site.service]).summary
        known = [kinds[offer] for offer in offers.get(site.service, ()) if offer in kinds]
        return {
            "fqdn": site.fqdn,
            "title": site.title or "",
            "kind": "trust" if site.plain else next(iter(known), "page"),
            "service": site.service,
            "summary": summary,
        }

    scraper = next((service for service in house.services.values() if service.scrapes), None)
    own = next(site for site in house.sites if site.service == part)
    return {
        "site": own.fqdn,
        "approvals": "/approvals/*" in own.routes,
        "house": house.machine.name,
        "snapshot": "/run/hearth-watch/snapshot.json",
        "verbs": "/run/hearth-watch/verbs.sock",
        "receipt": "/var/lib/hearth/receipt",
        "prometheus": scraper.url if scraper else "",
        "tiles": [
            tile(site)
            for site in house.sites
            if site.auth != "key" and site.service != part and "/" in (site.paths or "/")
        ],
        "canary": {
            "results": "/run/hearth-health/canary.json",
            **canary,
            "targets": _canary_targets(house, part, accelerators),
        },
    }


def _canary_targets(
    house: House, part: str, accelerators: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what the canary tests, speech first: its sound is what is transcribed."""
    needed = [house.services[name] for name in house.parts[part].needs]
    embeds = {
        service.name: [
            m.id for m in house.models.values() if m.service == service.name and m.kind == "embed"
        ]
        for service in needed
    }
    return [
        {
            "kind": kind,
            "name": service.name,
            "url": service.url,
            # Speech and transcription use NVIDIA's cards only.
            "card": accelerators.get(service.name)
            in ("cuda", "vulkan" if kind == "models" else ""),
            "embeds": embeds[service.name],
        }
        for offer, kind in _WORK.items()
        for service in needed
        if offer in service.offers and service.here
    ]


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


def context_tokens(house: House, service: str) -> int:
    """Return the largest context of the models that one Ollama serves, in tokens.

    Its OpenAI interface has no parameter for it, so all its models are loaded with this one. The
    gateway applies each model's own.
    """
    own = (model.context for model in house.models.values() if model.service == service)
    return max(filter(None, own), default=DEFAULT_CONTEXT_TOKENS)


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


# https://www.iana.org/assignments/iana-ipv4-special-registry, multicast, and relays from 6to4.
NOT_PUBLIC = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
)


def not_public(house: House, lan_networks: Sequence[str] = ()) -> list[str]:
    """Return the networks that a service with egress to everywhere does not reach.

    An inventory may give the house a range that is not private, and so may a LAN.
    """
    networks = map(IPv4Network, (*NOT_PUBLIC, house.machine.instances, *lan_networks))
    return [str(network) for network in collapse_addresses(networks)]


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
