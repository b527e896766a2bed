"""Derive one service or part: its names, URL, limits, volumes and sites."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from hearth.catalogue import house, naming, schema

LOOPBACK = "127.0.0.1"


def _limits(record: schema.LimitsRecord) -> house.Limits:
    percent = naming.PERCENT.fullmatch(record.memory or "")
    exact = record.memory is not None and percent is None
    return house.Limits(
        memory=record.memory,
        memory_bytes=naming.size_bytes(record.memory) if exact and record.memory else None,
        memory_percent=int(percent[1]) if percent else None,
        cpus=record.cpus,
        tasks=record.tasks,
    )


def _volumes(instance: str, record: schema.ServiceRecord) -> tuple[house.Volume, ...]:
    return tuple(
        house.Volume(
            name=instance + item.path.replace("/", "-"),
            path=item.path,
            copy=item.copy_as,
            from_folder=item.from_folder,
        )
        for item in record.data
    )


def _sites(
    machine: house.Machine,
    owner: str,
    url: str | None,
    record: schema.ServiceRecord | schema.PartRecord,
) -> tuple[house.Site, ...]:
    return tuple(
        house.Site(
            name=label,
            fqdn=f"{label}.{machine.domain}",
            auth=site.auth,
            paths=tuple(site.paths),
            uploads_bytes=naming.size_bytes(site.uploads) if site.uploads else None,
            policy=" ".join(site.policy.split()) if site.policy else None,
            service=owner,
            upstream=None if site.files or not url else upstream(url),
            upstream_url=None if site.files else url,
            files=site.files,
            plain=site.plain,
        )
        for label, site in record.publish.items()
    )


def upstream(url: str) -> str:
    """Return host:port of a URL, with the scheme's port where none is written."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def derive_service(
    machine: house.Machine,
    name: str,
    record: schema.ServiceRecord,
    needs: tuple[str, ...],
    order: int,
) -> house.Service:
    """Derive one service; an external one has only the fields of a server outside."""
    here = record.runtime != "external"
    url = f"http://{record.address}:{record.port}" if here else record.url or ""
    instance = naming.hyphens(name)
    return house.Service(
        name=name,
        role=record.role or name,
        summary=record.summary,
        enabled=record.enabled,
        on=record.on or machine.name,
        runtime=record.runtime,
        instance=instance,
        unit=f"{instance}.service",
        host_name=naming.link(instance),
        image=record.image,
        packages=tuple(record.packages) if here else (),
        sources=tuple(record.sources) if here else (),
        address=record.address if here else None,
        port=record.port if here else None,
        metrics_port=record.metrics_port if here else None,
        url=url,
        paths=tuple(record.paths) if here else (),
        needs=needs if here else (),
        egress=tuple(record.egress) if here else (),
        publish=_sites(machine, name, url, record),
        publish_tcp={int(p): tuple(v) for p, v in record.publish_tcp.items()} if here else {},
        health=house.Health(
            record.health.path,
            record.health.contains,
            record.health.within_s,
            record.health.ready_s,
        ),
        gpu=record.gpu if here else "none",
        limits=_limits(record.limits if here else schema.LimitsRecord()),
        volumes=_volumes(instance, record) if here else (),
        secrets=dict(record.secrets),
        scrapes=record.scrapes and here,
        settings=dict(record.settings),
        # An external server has no links to the services that serve models.
        offers=tuple(offer for offer in record.offers if here or offer != "models"),
        weights=(),  # known once the models are
        start_order=order,
    )


def derive_part(machine: house.Machine, name: str, record: schema.PartRecord) -> house.Part:
    """Derive one part of the machine."""
    url = f"http://{LOOPBACK}:{record.port}" if record.port else None
    return house.Part(
        name=name,
        role=record.role or name,
        summary=record.summary,
        # Debian's packages have units without the prefix.
        unit=f"hearth-{naming.hyphens(name)}.service",
        url=url,
        port=record.port,
        metrics_port=record.metrics_port,
        publish=_sites(machine, name, url, record),
        secrets=dict(record.secrets),
        settings=dict(record.settings),
    )


def memory_shortage(services: Iterable[house.Service], machine_bytes: int) -> str | None:
    """Return one line if the memory limits add up to more than the machine has, else None."""
    asked = {
        service.name: service.limits.memory_bytes
        or machine_bytes * (service.limits.memory_percent or 0) // 100
        for service in services
    }
    if sum(asked.values()) <= machine_bytes:
        return None
    gib = 2**30
    parts = " + ".join(f"{name} {size / gib:.1f}" for name, size in asked.items() if size)
    return (
        f"limits.memory adds up to {sum(asked.values()) / gib:.1f} GiB ({parts}), and this machine "
        f"has {machine_bytes / gib:.1f} GiB; lower one in inventory/local/services.yml"
    )
