"""Derive the house from the catalogue: the only place that makes names, URLs and flows."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import fields, replace
from urllib.parse import urlsplit

from hearth.catalogue import house, naming, rules_agents, rules_models, rules_net, schema
from hearth.catalogue.records import Catalogue
from hearth.catalogue.values import ANY

_HTTPS_PORT = 443
_LOOPBACK = "127.0.0.1"
# A loaded model needs its weights and room for about 8 k of context.
_MEMORY_PER_DOWNLOAD = 1.2
# An external server has none of these, and no links to the services that serve models.
_OF_INSTANCES = (
    *("packages", "sources", "programs", "address", "port", "metrics_port", "paths", "needs"),
    *("uses", "egress", "publish_tcp", "gpu", "limits", "data", "scrapes"),
)


def derive(
    catalogue: Catalogue,
    given_secrets: frozenset[str] = frozenset(),
    has: Callable[[str], bool] = lambda _gpu: True,
) -> house.House:
    """Derive the house from a checked catalogue.

    `given_secrets` are the names of the given secrets that have a value; `has` returns whether
    this machine has the GPU of a record.
    """
    ((machine_name, machine_record),) = catalogue.machines.items()
    machine = _machine(machine_name, machine_record)
    on = {
        name: record
        for name, record in catalogue.services.items()
        if record.runs and not (record.enabled == "auto" and not has(record.gpu))
    }
    made = _made_parts(catalogue, on)
    needs = {name: _resolved_needs(record, on) for name, record in on.items()}
    order = _order(needs)
    urls = {name: _url(record) for name, record in on.items()}
    models = {name: _model(catalogue, name, urls, given_secrets, has) for name in catalogue.models}
    services = {
        name: _with_models(
            replace(
                _service(machine, name, on[name], needs[name], order[name]),
                calls=_resolved_needs(on[name], made),
            ),
            catalogue,
            models,
        )
        for name in sorted(on, key=order.__getitem__)
    }
    parts = {name: _part(machine, name, record, on) for name, record in made.items()}
    consumers = _consumers(catalogue)
    # Where a part's metrics are: instances reach the resolver's address over their own links.
    metrics = [
        (name, machine.resolver_address, part.metrics_port)
        for name, part in parts.items()
        if part.metrics_port
    ]
    serving = {name: part for name, part in parts.items() if part.serves}
    flows = _flows(services, metrics, serving)
    owners: list[house.Service | house.Part] = [*services.values(), *parts.values()]
    sites = _shared(site for owner in owners for site in owner.sites)
    parts |= {
        name: replace(part, health_url=f"dns://{machine.resolver_address}/{sites[0].fqdn}")
        for name, part in parts.items()
        if part.resolves and sites
    }
    at = {owner.name: owner.url for owner in owners if owner.url}
    whole = house.House(
        machine=machine,
        services=services,
        parts=parts,
        flows=flows,
        forbidden=_forbidden(services, [*metrics, *map(_target, serving.values())], flows),
        egress=_egress(services),
        published_ports=tuple(
            (service.address, service.port)
            for service in services.values()
            if service.address and service.port and any(site.upstream for site in service.sites)
        ),
        sites=tuple(_with_routes(site, at) for site in sites),
        models=models,
        aliases={name: _alias(name, r, models, services) for name, r in catalogue.aliases.items()},
        agents={
            name: house.Agent(
                **(house.values_of(record) | {"title": record.title or _title(name)}), name=name
            )
            for name, record in catalogue.agents.items()
        },
        agent_limits=catalogue.agent_limits.get("agent_limits", schema.AgentLimitsRecord()),
        consumers=consumers,
        secrets={
            **{name: kind for owner in owners for name, kind in owner.secrets.items()},
            **{consumer.secret: "random" for consumer in consumers.values()},
            **{p.secret: "given" for p in catalogue.providers.values() if p.secret},
        },
        sources={
            name: house.Source(name=name, **house.values_of(record))
            for name, record in catalogue.sources.items()
        },
        minimum_versions={
            name: house.MinimumVersion(name=name, **house.values_of(record))
            for name, record in catalogue.minimum_versions.items()
        },
        mirrors=dict(catalogue.mirrors),
        removed={
            name: _service(machine, name, record, (), 0)
            for name, record in catalogue.services.items()
            if not record.present
        },
        unused_parts={
            name: _part(machine, name, record, on)
            for name, record in catalogue.parts.items()
            if name not in made
        },
    )
    first = _needed_first(whole)
    return replace(
        whole, services={n: replace(s, background=n not in first) for n, s in services.items()}
    )


def _needed_first(whole: house.House) -> set[str]:
    """Return the services that answer a request to the default alias."""
    members = whole.default_alias.members if whole.default_alias else ()
    serving = {whole.models[name].service or "" for name in members}
    return serving | {service.name for service in whole.offering("models")}


def _made_parts(
    catalogue: Catalogue, on: Mapping[str, schema.ServiceRecord]
) -> dict[str, schema.PartRecord]:
    """Return the parts of this house: one that serves others only where one of them is there."""
    wanted = {
        name for record in on.values() for n in record.needs for name in naming.alternatives(n)
    }
    for name, consumer in catalogue.consumers.items():
        if name not in catalogue.services:
            wanted |= {*consumer.named}
    return {n: part for n, part in catalogue.parts.items() if not part.serves or n in wanted}


def _title(name: str) -> str:
    """Write a name as people would."""
    return name.replace("_", " ").capitalize()


def _resolved_needs(record: schema.PartRecord, on: Iterable[str]) -> tuple[str, ...]:
    """Return the first enabled alternative of every need, and what a service uses."""
    wanted = (*record.needs, *(record.uses if isinstance(record, schema.ServiceRecord) else ()))
    enabled = [[name for name in naming.alternatives(need) if name in on] for need in wanted]
    return tuple(names[0] for names in enabled if names)


def _order(needs: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Number the services: needed ones have lower numbers, equal ones may start together."""
    order: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in order:
            order[name] = 1 + max((level(need) for need in needs[name]), default=0)
        return order[name]

    return {name: level(name) for name in needs}


def _machine(name: str, record: schema.MachineRecord) -> house.Machine:
    if not record.backup.recipient:
        # Nothing can be encrypted.
        record = replace(record, backup=replace(record.backup, at=None))
    # The machine has the first address of the range.
    resolver = next(ipaddress.IPv4Network(record.instances).hosts())
    return house.Machine(name=name, resolver_address=str(resolver), **house.values_of(record))


def _url(record: schema.ServiceRecord) -> str:
    return f"http://{record.address}:{record.port}" if record.here else record.url or ""


def _service(
    machine: house.Machine,
    name: str,
    record: schema.ServiceRecord,
    needs: tuple[str, ...],
    order: int,
) -> house.Service:
    url, instance = _url(record), naming.hyphens(name)
    values = house.values_of(record)
    if not record.here:
        values |= {item.name: item.default for item in fields(record) if item.name in _OF_INSTANCES}
        values["publish_tcp"] = {}
        needs, values["offers"] = (), tuple(o for o in record.offers if o != "models")
    derived = {
        "role": record.role or name,
        "on": record.on or machine.name,
        "url": url,
        "needs": needs,
        "anywhere": ANY in values["egress"],
    }
    return house.Service(
        **(values | derived),
        name=name,
        instance=instance,
        # A container's unit is one of the machine's own, where others may have such a name already.
        unit=f"{'hearth-' if record.runtime == 'podman' else ''}{instance}.service",
        host_name=naming.link(instance),
        sites=_sites(machine, name, url, record),
        volumes=tuple(
            house.Volume(name=instance + item.path.replace("/", "-"), **house.values_of(item))
            for item in values["data"]
        ),
        start_order=order,
    )


def _with_models(
    service: house.Service, catalogue: Catalogue, models: Mapping[str, house.Model]
) -> house.Service:
    """Add its models and programs; the service that offers all models gets egress and keys."""
    weights = _weights(catalogue, service.name, models)
    programs = _programs(catalogue, service, weights)
    service = replace(service, weights=weights, programs=programs)
    if "models" not in service.offers:
        return service
    usable = [model for model in models.values() if model.usable]
    hosts = sorted({model.host for model in usable if model.host})
    secrets = sorted({model.secret for model in usable if model.secret})
    return replace(
        service,
        egress=tuple(dict.fromkeys((*service.egress, *hosts))),
        secrets={**service.secrets, **dict.fromkeys(secrets, "given")},
    )


def _model(
    catalogue: Catalogue,
    name: str,
    urls: Mapping[str, str],
    given_secrets: frozenset[str],
    has: Callable[[str], bool],
) -> house.Model:
    record = catalogue.models[name]
    provider = catalogue.providers[record.provider]
    service = catalogue.services.get(provider.service or "")
    ours = service is not None and service.here
    program = naming.program(provider.service or "", name) if ours and record.files else None
    gpu_missing = ours and not _has_gpu(service, record, has)
    within = [alias for alias in catalogue.aliases.values() if name in alias.members]
    reason = None
    if provider.service and provider.service not in urls:
        reason = f"service {provider.service} is off"
    elif provider.secret and provider.secret not in given_secrets:
        reason = f"no key; set it with: hearth secret set {provider.secret}"
    elif not provider.service and not any(alias.cloud for alias in within):
        reason = "no alias that allows the cloud has it as a member"
    elif program and not within:
        reason = "no alias has it as a member"
    elif gpu_missing:
        reason = f"it needs gpu: {record.gpu}, which {provider.service} does not have here"
    download = naming.size_bytes(record.download) if record.download else None
    context = record.context
    if context is None and provider.service and record.kind != "transcribe":
        context = house.DEFAULT_CONTEXT_TOKENS
    memory = naming.size_bytes(record.memory) if record.memory else None
    if memory is None and download is not None:
        memory = round(download * _MEMORY_PER_DOWNLOAD)
    return house.Model(
        **(house.values_of(record) | {"id": record.id or name, "context": context}),
        name=name,
        litellm=provider.litellm or record.provider,
        local=provider.service is not None,
        pulled=ours and program is None and reason is None,
        program=program,
        service=provider.service,
        url=urls.get(provider.service or ""),
        host=provider.host,
        secret=provider.secret,
        download_bytes=download,
        memory_bytes=memory,
        digest=catalogue.manifests.get(record.id or name),
        usable=reason is None,
        reason=reason,
    )


def _has_gpu(
    service: schema.ServiceRecord | None, record: schema.ModelRecord, has: Callable[[str], bool]
) -> bool:
    """Return whether the service of a model computes on the GPU that the model needs, if any."""
    if service is None or record.gpu is None:
        return True
    return service.gpu in ("auto", record.gpu) and has(record.gpu)


def _weights(
    catalogue: Catalogue, service: str, models: Mapping[str, house.Model]
) -> tuple[house.Weights, ...]:
    """List the models whose files `service` gets: members of aliases first, in their order.

    The others follow in the order of models.yml, for roles that use one of them.
    """
    programs = {n: m.program for n, m in models.items() if m.service == service and m.program}
    members = (member for alias in catalogue.aliases.values() for member in alias.members)
    wanted = dict.fromkeys(m for m in members if m in programs and models[m].usable)
    return tuple(
        house.Weights(
            name=name,
            program=programs[name],
            # A file has the last part of its source's URL as its name.
            files={
                catalogue.sources[source].url.rpartition("/")[2]: source
                for source in catalogue.models[name].files
            },
            wanted=name in wanted,
        )
        for name in {**wanted, **programs}
    )


def _programs(
    catalogue: Catalogue, service: house.Service, weights: Iterable[house.Weights]
) -> tuple[str, ...]:
    """List the program folders that an instance sees: its own, and those it may share."""
    if not service.here:
        return ()
    # A source with the name of another service lies in the folder of a program of its own.
    sources = (
        name
        for name in service.sources
        if naming.PROGRAM.fullmatch(name) and name not in catalogue.services
    )
    named = service.settings.values()
    models = (model.program for model in weights if model.wanted or model.name in named)
    return tuple(dict.fromkeys((service.name, *service.programs, *sources, *models)))


def _alias(
    name: str, record: schema.AliasRecord, models: Mapping[str, house.Model], on: Container[str]
) -> house.Alias:
    """Return an alias, given the models and which services are on."""
    cloud = f"it is in the cloud, and {name} does not allow the cloud"
    reasons = {
        member: models[member].reason if models[member].local or record.cloud else cloud
        for member in record.members
    }
    dropped = {member: reason for member, reason in reasons.items() if reason}
    members = tuple(member for member in record.members if member not in dropped)
    unused = record.only_with is not None and record.only_with not in on
    reason = "; ".join(f"{n}: {reason}" for n, reason in dropped.items())
    return house.Alias(
        **(house.values_of(record) | {"members": members}),
        name=name,
        kind=models[record.members[0]].kind,
        capabilities=tuple(
            capability
            for capability in models[(members or record.members)[0]].capabilities
            if all(capability in models[member].capabilities for member in members)
        ),
        dropped=dropped,
        offered=bool(members) and not unused,
        reason=f"{record.only_with} is off" if unused else None if members else reason,
    )


def _part(
    machine: house.Machine, name: str, record: schema.PartRecord, on: Iterable[str]
) -> house.Part:
    address = machine.resolver_address if record.serves else _LOOPBACK
    url = f"http://{address}:{record.port}" if record.port else None
    derived = {"role": record.role or name, "needs": _resolved_needs(record, on)}
    return house.Part(
        **(house.values_of(record) | derived),
        name=name,
        # Debian's packages have units without the prefix.
        unit=f"hearth-{naming.hyphens(name)}.service",
        address=machine.resolver_address if record.serves else None,
        url=url,
        health_url=_health_url(machine, record, address),
        sites=_sites(machine, name, url, record),
    )


def _health_url(machine: house.Machine, record: schema.PartRecord, address: str) -> str | None:
    if record.health is None:
        return None
    if port := record.health.port:
        return f"http://{_LOOPBACK}:{port}"
    if record.port:
        return f"http://{address}:{record.port}"
    return f"http://{machine.resolver_address}:{record.metrics_port}"


def _sites(
    machine: house.Machine, owner: str, url: str | None, record: schema.PartRecord
) -> tuple[house.Site, ...]:
    return tuple(
        house.Site(
            **(house.values_of(site) | {"policy": " ".join((site.policy or "").split()) or None}),
            name=label,
            fqdn=f"{label}.{machine.domain}",
            uploads_bytes={path: naming.size_bytes(size) for path, size in site.uploads.items()},
            service=owner,
            upstream=f"{urlsplit(url).hostname}:{_port(url)}" if url else None,
            upstream_url=url,
            checks_keys=record.serves or _checks_keys(record),
        )
        for label, site in record.publish.items()
    )


def _shared(sites: Iterable[house.Site]) -> tuple[house.Site, ...]:
    """Return each name once, with the sites of others that share it."""
    found: dict[str, list[house.Site]] = {}
    for site in sites:
        found.setdefault(site.fqdn, []).append(site)
    # The one that has more than paths is the site.
    more = {
        fqdn: sorted(same, key=lambda site: not any(getattr(site, n) for n in rules_net.NOT_SHARED))
        for fqdn, same in found.items()
    }
    return tuple(replace(first, shared=tuple(others)) for first, *others in more.values())


def _checks_keys(record: schema.PartRecord) -> bool:
    """Return whether a service distinguishes its callers by their keys."""
    return isinstance(record, schema.ServiceRecord) and not rules_models.CHECKING.isdisjoint(
        record.offers
    )


def _with_routes(site: house.Site, urls: Mapping[str, str]) -> house.Site:
    """Return a site with the URLs of its routes; what is not there has none."""
    found = {path: urls[target] for path, target in site.routes.items() if target in urls}
    return replace(site, routed=found)


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (_HTTPS_PORT if parts.scheme == "https" else 80)


def _consumers(catalogue: Catalogue) -> dict[str, house.Consumer]:
    """Derive the consumers; a removed service has no key, and no key opens it."""
    gone = {name for name, record in catalogue.services.items() if not record.present}
    return {
        name: house.Consumer(
            name=name,
            summary=record.summary,
            services=tuple(n for n in _opened(catalogue, record) if n not in gone),
            models=record.models,
            verbs=rules_agents.verbs_of(record.verbs),
            secret=f"consumer_{name}",
            inside=name in catalogue.services,
        )
        for name, record in catalogue.consumers.items()
        if name not in gone
    }


def _opened(catalogue: Catalogue, consumer: schema.ConsumerRecord) -> tuple[str, ...]:
    """Return the services and parts that a consumer's key opens.

    One that opens all opens no part: its verbs are a right of their own.
    """
    if consumer.services != "all":
        return consumer.named
    return tuple(n for n, r in catalogue.services.items() if rules_models.takes_keys(r))


# A name, an address and a port.
_Target = tuple[str, str, int | None]


def _target(part: house.Part) -> _Target:
    return part.name, part.address or "", part.port


def _flows(
    services: Mapping[str, house.Service],
    metrics: Iterable[_Target],
    serving: Mapping[str, house.Part],
) -> tuple[house.Flow, ...]:
    """List every allowed connection from services: needs, and metrics for the scraper."""
    own = [(name, _address(service), service.metrics_port) for name, service in services.items()]
    return _connections(
        (source, target)
        for source in services.values()
        for target in [
            *((n, _address(services[n]), _port(services[n].url)) for n in source.needs),
            *(_target(serving[name]) for name in source.calls),
            *((*own, *metrics) if source.scrapes else ()),
        ]
    )


def _forbidden(
    services: Mapping[str, house.Service],
    metrics: Iterable[_Target],
    allowed: tuple[house.Flow, ...],
) -> tuple[house.Flow, ...]:
    """List every other connection of instances; tests check that it is rejected."""
    ports = [
        (target.name, target.address, port)
        for target in services.values()
        if target.address
        for port in sorted(filter(None, {target.port, target.metrics_port, *target.publish_tcp}))
    ]
    pairs = ((source, target) for source in services.values() for target in [*ports, *metrics])
    return tuple(flow for flow in _connections(pairs) if flow not in allowed)


def _address(service: house.Service) -> str:
    return service.address or urlsplit(service.url).hostname or ""


def _connections(pairs: Iterable[tuple[house.Service, _Target]]) -> tuple[house.Flow, ...]:
    """Return each flow once, where both ends have an address and the port is known."""
    flows = (
        house.Flow(source.name, name, source.address, address, port)
        for source, (name, address, port) in pairs
        if source.name != name and source.address and port and _is_address(address)
    )
    return tuple(dict.fromkeys(flows))


def _egress(services: Mapping[str, house.Service]) -> tuple[house.Egress, ...]:
    """List all allowed egress: the record's hosts, and external services by name."""
    found: dict[house.Egress, None] = {}
    for source in services.values():
        if not source.address:
            continue
        external = [services[n].url for n in source.needs if services[n].runtime == "external"]
        named = [(urlsplit(url).hostname or "", _port(url)) for url in external]
        own = [(host, int(port or _HTTPS_PORT)) for host, _, port in _split(source.egress)]
        for host, port in [*own, *named]:
            if not _is_address(host):
                found[house.Egress(source.name, source.address, host, port)] = None
    return tuple(found)


def _split(egress: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    return (entry.partition(":") for entry in egress if entry != ANY)


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def memory_shortage(services: Iterable[house.Service], machine_bytes: int) -> str | None:
    """Return one line if the memory limits add up to more than the machine has, else None."""
    limits = {service.name: service.limits.memory for service in services}
    sizes = {
        name: machine_bytes * int(text.removesuffix("%")) // 100
        if text.endswith("%")
        else naming.size_bytes(text)
        for name, text in limits.items()
        if text
    }
    if sum(sizes.values()) <= machine_bytes:
        return None
    gib = 2**30
    parts = " + ".join(f"{name} {size / gib:.1f}" for name, size in sizes.items() if size)
    return (
        f"limits.memory adds up to {sum(sizes.values()) / gib:.1f} GiB ({parts}), and this machine "
        f"has {machine_bytes / gib:.1f} GiB; lower one in inventory/local/services.yml"
    )
