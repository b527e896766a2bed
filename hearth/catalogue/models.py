"""Derive models and aliases: which are usable in this house, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping

from hearth.catalogue import house, naming, schema
from hearth.catalogue.records import Catalogue

# A loaded model needs its weights and room for about 8 k of context.
_MEMORY_PER_DOWNLOAD = 1.2


def derive_models(
    catalogue: Catalogue, urls: Mapping[str, str], given_secrets: frozenset[str]
) -> dict[str, house.Model]:
    """Derive every model; `urls` has the enabled services by name."""
    return {name: _model(catalogue, name, urls, given_secrets) for name in catalogue.models}


def _model(
    catalogue: Catalogue, name: str, urls: Mapping[str, str], given_secrets: frozenset[str]
) -> house.Model:
    record = catalogue.models[name]
    provider = catalogue.providers[record.provider]
    service = catalogue.services.get(provider.service or "")
    ours = service is not None and service.here
    program = naming.program(provider.service or "", name) if ours and record.files else None
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
    download = naming.size_bytes(record.download) if record.download else None
    memory = naming.size_bytes(record.memory) if record.memory else None
    if memory is None and download is not None:
        memory = round(download * _MEMORY_PER_DOWNLOAD)
    return house.Model(
        **(house.values_of(record) | {"id": record.id or name}),
        name=name,
        litellm=provider.litellm or record.provider,
        local=provider.service is not None,
        pulled=ours and program is None,
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


def derive_weights(
    catalogue: Catalogue, service: str, models: Mapping[str, house.Model]
) -> tuple[house.Weights, ...]:
    """List the models whose files `service` gets: members of aliases first, in their order.

    The others follow in the order of models.yml, for roles that use one of them.
    """
    programs = {n: m.program for n, m in models.items() if m.service == service and m.program}
    members = (member for alias in catalogue.aliases.values() for member in alias.members)
    wanted = dict.fromkeys(member for member in members if member in programs)
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


def derive_aliases(
    catalogue: Catalogue, models: Mapping[str, house.Model]
) -> dict[str, house.Alias]:
    """Derive every alias: its usable members in order, and the dropped ones."""
    return {name: _alias(name, record, models) for name, record in catalogue.aliases.items()}


def _alias(name: str, record: schema.AliasRecord, models: Mapping[str, house.Model]) -> house.Alias:
    cloud = f"it is in the cloud, and {name} does not allow the cloud"
    reasons = {
        member: models[member].reason if models[member].local or record.cloud else cloud
        for member in record.members
    }
    dropped = {member: reason for member, reason in reasons.items() if reason}
    members = tuple(member for member in record.members if member not in dropped)
    return house.Alias(
        **(house.values_of(record) | {"members": members}),
        name=name,
        kind=models[record.members[0]].kind,
        dropped=dropped,
        offered=bool(members),
        reason=None if members else "; ".join(f"{n}: {reason}" for n, reason in dropped.items()),
    )
