"""Derive the house from the catalogue: the only place that makes names, URLs and flows."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hearth.catalogue import house, naming, schema
from hearth.catalogue.flows import egress, flows, forbidden, published_ports
from hearth.catalogue.models import (
    cloud_hosts,
    derive_aliases,
    derive_models,
    derive_weights,
    provider_secrets,
)
from hearth.catalogue.records import Catalogue
from hearth.catalogue.services import derive_part, derive_service


def derive(
    catalogue: Catalogue,
    given_secrets: frozenset[str] = frozenset(),
    absent: frozenset[str] = frozenset(),
) -> house.House:
    """Derive the house from a checked catalogue.

    `given_secrets` are the names of the given secrets that have a value; `absent` are the
    services with `enabled: auto` whose GPU is missing on this machine.
    """
    ((machine_name, machine_record),) = catalogue.machines.items()
    machine = _machine(machine_name, machine_record)
    on = {
        name: record
        for name, record in catalogue.services.items()
        if record.present and record.enabled and not (record.enabled == "auto" and name in absent)
    }
    needs = {name: resolve_needs(record, on) for name, record in on.items()}
    order = _order(needs)
    services = {
        name: derive_service(machine, name, on[name], needs[name], order[name])
        for name in sorted(on, key=lambda name: (order[name], list(on).index(name)))
    }
    models = derive_models(catalogue, {n: s.url for n, s in services.items()}, given_secrets)
    aliases = derive_aliases(catalogue, models)
    services = {
        name: replace(
            _with_models(service, models), weights=derive_weights(catalogue, name, models)
        )
        for name, service in services.items()
    }
    parts = {name: derive_part(machine, name, record) for name, record in catalogue.parts.items()}
    allowed = flows(services)
    owners: list[house.Service | house.Part] = [*services.values(), *parts.values()]
    return house.House(
        machine=machine,
        services=services,
        parts=parts,
        flows=allowed,
        forbidden=forbidden(services, allowed),
        egress=egress(services),
        published_ports=published_ports(services),
        sites=tuple(site for owner in owners for site in owner.publish),
        models=models,
        aliases=aliases,
        consumers=_consumers(catalogue),
        secrets=_secrets(catalogue, owners),
        sources=_sources(catalogue),
        minimum_versions={
            name: house.MinimumVersion(name, record.kind, record.oldest, record.reason)
            for name, record in catalogue.minimum_versions.items()
        },
        mirrors=dict(catalogue.mirrors),
        removed={
            name: derive_service(machine, name, record, (), 0)
            for name, record in catalogue.services.items()
            if not record.present
        },
    )


def resolver_address(instances: str) -> str:
    """Return the machine's own address in the range: the first one, the resolver's."""
    return str(next(ipaddress.IPv4Network(instances).hosts()))


def resolve_needs(record: schema.ServiceRecord, on: Iterable[str]) -> tuple[str, ...]:
    """Return the first enabled alternative of every need."""
    running = set(on)
    chosen = []
    for need in record.needs:
        chosen += [name for name in naming.alternatives(need) if name in running][:1]
    return tuple(chosen)


def _order(needs: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Number the services: needed ones have lower numbers, equal ones may start together."""
    order: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in order:
            order[name] = 1 + max((level(need) for need in needs[name]), default=0)
        return order[name]

    for name in needs:
        level(name)
    return order


def _machine(name: str, record: schema.MachineRecord) -> house.Machine:
    dns = record.upstream_dns
    return house.Machine(
        name=name,
        lan_interface=record.lan_interface,
        lan_address=record.lan_address,
        instances=record.instances,
        resolver_address=resolver_address(record.instances),
        domain=record.domain,
        upstream_dns=dns if isinstance(dns, str) else tuple(dns),
        reach=record.reach,
        sleep=record.sleep,
        host_firewall=record.host_firewall,
        backup=house.Backup(
            recipient=record.backup.recipient,
            to=record.backup.to,
            # Without a recipient nothing can be encrypted.
            at=record.backup.at if record.backup.recipient and record.backup.at != "off" else None,
            keep=record.backup.keep,
        ),
    )


def _with_models(service: house.Service, models: Mapping[str, house.Model]) -> house.Service:
    """Add egress and keys of usable cloud models to the service that offers all models."""
    if "models" not in service.offers:
        return service
    return replace(
        service,
        egress=tuple(dict.fromkeys((*service.egress, *cloud_hosts(models)))),
        secrets={**service.secrets, **dict.fromkeys(provider_secrets(models), "given")},
    )


def _consumers(catalogue: Catalogue) -> dict[str, house.Consumer]:
    """Derive the consumers; a removed service has no key, and no key opens it."""
    gone = {name for name, record in catalogue.services.items() if not record.present}
    return {
        name: house.Consumer(
            name=name,
            summary=record.summary,
            services=tuple(name for name in record.services if name not in gone),
            models=record.models if record.models == "all" else tuple(record.models),
            secret=f"consumer_{name}",
        )
        for name, record in catalogue.consumers.items()
        if name not in gone
    }


def _secrets(catalogue: Catalogue, owners: Iterable[house.Service | house.Part]) -> dict[str, str]:
    """Return every secret of the house: random ones are generated, given ones set by hand."""
    found: dict[str, str] = {}
    for owner in owners:
        found.update(owner.secrets)
    found.update({consumer.secret: "random" for consumer in _consumers(catalogue).values()})
    found.update({p.secret: "given" for p in catalogue.providers.values() if p.secret})
    return found


def _sources(catalogue: Catalogue) -> dict[str, house.Source]:
    return {
        name: house.Source(
            name=name,
            version=record.version,
            url=record.url,
            sha256=None if record.sha256 == "unverified" else record.sha256,
            size=record.size,
        )
        for name, record in catalogue.sources.items()
    }
