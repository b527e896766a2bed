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


def derive_aliases(
    catalogue: Catalogue, models: Mapping[str, house.Model]
) -> dict[str, house.Alias]:
    """Derive every alias: its usable members in order, and the dropped ones."""
    return {name: _alias(name, record, models) for name, record in catalogue.aliases.items()}


def cloud_hosts(models: Mapping[str, house.Model]) -> list[str]:
    """List the hosts of the usable cloud models; requests have no other egress."""
    return sorted({model.host for model in models.values() if model.usable and model.host})


def provider_secrets(models: Mapping[str, house.Model]) -> list[str]:
    """List the secrets of usable models."""
    return sorted({model.secret for model in models.values() if model.usable and model.secret})


def _why_not(
    provider: schema.ProviderRecord, urls: Mapping[str, str], given_secrets: frozenset[str]
) -> str | None:
    """Return why no model of this provider is usable, or None."""
    if provider.service and provider.service not in urls:
        return f"service {provider.service} is off"
    if provider.secret and provider.secret not in given_secrets:
        return f"no key; set it with: hearth secret set {provider.secret}"
    return None


def _model(
    catalogue: Catalogue, name: str, urls: Mapping[str, str], given_secrets: frozenset[str]
) -> house.Model:
    record = catalogue.models[name]
    provider = catalogue.providers[record.provider]
    reason = _why_not(provider, urls, given_secrets)
    local = provider.service is not None
    service = catalogue.services.get(provider.service or "")
    if reason is None and not local and not _allowed_somewhere(catalogue, name):
        reason = "no alias that allows the cloud has it as a member"
    ours = service is not None and service.runtime != "external"
    handed_in = ours and bool(record.files)
    if reason is None and handed_in and not _member_of(catalogue, name):
        reason = "no alias has it as a member"
    download = naming.size_bytes(record.download) if record.download else None
    memory = naming.size_bytes(record.memory) if record.memory else None
    if memory is None and download is not None:
        memory = round(download * _MEMORY_PER_DOWNLOAD)
    manifest = catalogue.manifests.get(record.id or name, "unverified")
    return house.Model(
        name=name,
        id=record.id or name,
        summary=record.summary,
        kind=record.kind,
        provider=record.provider,
        litellm=provider.litellm or record.provider,
        local=local,
        pulled=ours and not handed_in,
        program=naming.program(provider.service or "", name) if handed_in else None,
        service=provider.service,
        url=urls.get(provider.service or ""),
        host=provider.host,
        secret=provider.secret,
        download_bytes=download,
        memory_bytes=memory,
        digest=None if manifest == "unverified" else manifest,
        usable=reason is None,
        reason=reason,
    )


def derive_weights(
    catalogue: Catalogue, service: str, models: Mapping[str, house.Model]
) -> tuple[house.Weights, ...]:
    """List the models whose files `service` gets: members of aliases first, in their order.

    The others follow in the order of models.yml, for roles that use one of them.
    """
    handed_in = {n: m for n, m in models.items() if m.service == service and m.program}
    members = (member for alias in catalogue.aliases.values() for member in alias.members)
    wanted = dict.fromkeys(member for member in members if member in handed_in)
    return tuple(
        house.Weights(
            name=name,
            program=handed_in[name].program or "",
            files=files_of(catalogue, catalogue.models[name]),
            wanted=name in wanted,
        )
        for name in {**wanted, **handed_in}
    )


def files_of(catalogue: Catalogue, record: schema.ModelRecord) -> dict[str, str]:
    """Return a model's file names, each the last part of its source's URL, and its sources."""
    known = {source: catalogue.sources[source].url for source in record.files}
    return {url.rpartition("/")[2]: source for source, url in known.items()}


def _member_of(catalogue: Catalogue, model: str) -> bool:
    return any(model in alias.members for alias in catalogue.aliases.values())


def _allowed_somewhere(catalogue: Catalogue, model: str) -> bool:
    return any(alias.cloud and model in alias.members for alias in catalogue.aliases.values())


def _alias(name: str, record: schema.AliasRecord, models: Mapping[str, house.Model]) -> house.Alias:
    members: list[str] = []
    dropped: list[house.Dropped] = []
    for member in record.members:
        model = models[member]
        if not model.local and not record.cloud:
            reason: str | None = f"it is in the cloud, and {name} does not allow the cloud"
        else:
            reason = model.reason
        if reason is None:
            members.append(member)
        else:
            dropped.append(house.Dropped(member, reason))
    return house.Alias(
        name=name,
        summary=record.summary,
        kind=models[record.members[0]].kind,
        members=tuple(members),
        dropped=tuple(dropped),
        cloud=record.cloud,
        first_token_timeout_s=record.first_token_timeout_s,
        timeout_s=record.timeout_s,
        offered=bool(members),
        reason=None if members else "; ".join(f"{item.name}: {item.reason}" for item in dropped),
    )
