"""Rules about models, who serves them, their aliases, and who may ask."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.catalogue import schema
from hearth.catalogue.naming import SNAKE, Problem, alternatives, program, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue

# Kinds that no other kind can stand in for; all others answer in words.
_DOES = {"embed": "embed", "transcribe": "transcribe"}
# Services that offer these call the house's models with a key of their own.
_CALLERS = frozenset({"chat", "pipelines"})


def providers(catalogue: Catalogue) -> Iterator[Problem]:
    """A provider is a service here, or a host outside with a key."""
    known = catalogue.known("services")
    for name, record in catalogue.providers.items():
        key = ("providers", name)
        if bool(record.service) == bool(record.host):
            if not catalogue.written(*key, "host"):
                text = f"{name} has neither service nor host; write e.g. host: api.example.org"
                yield catalogue.problem(key, text)
            elif record.host:
                text = f"{name} has a service and a host; keep service here, host for the cloud"
                yield catalogue.problem((*key, "host"), text)
        if record.service and record.service not in known:
            text = f"{name}.service names no service {record.service}; "
            text += suggest(record.service, known)
            yield catalogue.problem((*key, "service"), text)
        if record.host and not record.secret and not catalogue.written(*key, "secret"):
            text = f"{name} has a host and no secret; write e.g. secret: {name}_api_key"
            yield catalogue.problem(key, text)
        if record.secret and not SNAKE.fullmatch(record.secret):
            text = f"{name}.secret {record.secret} is not snake_case; write e.g. {name}_api_key"
            yield catalogue.problem((*key, "secret"), text)


def models(catalogue: Catalogue) -> Iterator[Problem]:
    """A model has a provider, a size where it is pulled, and no twin."""
    known = catalogue.known("providers")
    owners: dict[tuple[str, str], str] = {}
    for name, record in catalogue.models.items():
        key = ("models", name)
        if record.provider not in known:
            text = f"{name}.provider names no provider {record.provider}; "
            yield catalogue.problem((*key, "provider"), text + suggest(record.provider, known))
        provider = catalogue.providers.get(record.provider)
        if provider and provider.service:
            if record.download is None and not catalogue.written(*key, "download"):
                text = f"{name}.download is missing; write its size, e.g. download: 3.4GB"
                yield catalogue.problem(key, text)
        elif provider and record.download:
            text = f"{name}.download has no use in the cloud; leave it out"
            yield catalogue.problem((*key, "download"), text)
        yield from _files(catalogue, name, record)
        identity = (record.provider, (record.id or name).removesuffix(":latest"))
        if identity in owners:
            first = owners[identity]
            where = catalogue.at("models", first)
            text = f"{name} is the same model as {first} ({where}); keep one of them"
            yield catalogue.problem(key, text)
        owners.setdefault(identity, name)


def _files(catalogue: Catalogue, name: str, record: schema.ModelRecord) -> Iterator[Problem]:
    """What the machine hands in has its files named, each once; only this kind of model has any."""
    key = ("models", name)
    provider = catalogue.providers.get(record.provider)
    service = catalogue.services.get(provider.service or "") if provider else None
    if record.kind != "transcribe":
        if record.files:
            text = f"{name}.files is only for kind: transcribe; write that, or leave files out"
            yield catalogue.problem((*key, "files"), text)
        return
    if provider and not provider.service and provider.host:
        text = f"{name}.kind transcribe has no way to the cloud; name a provider with a service"
        yield catalogue.problem((*key, "provider"), text)
    external = service is not None and service.runtime == "external"
    if not record.files and not external and not catalogue.written(*key, "files"):
        yield catalogue.problem(
            key, f"{name}.files is missing; write the sources of its files, e.g. files: [a, b]"
        )
    yield from _sources(catalogue, name, record)


def folders(catalogue: Catalogue) -> Iterator[Problem]:
    """What the machine hands in lies in a folder of its own."""
    first: dict[str, Key] = {name: ("services", name) for name in catalogue.known("services")}
    for name, record in catalogue.models.items():
        provider = catalogue.providers.get(record.provider)
        if not record.files or not provider or not provider.service:
            continue
        folder = program(provider.service, name)
        if folder in first:
            taken = catalogue.taken(f"the folder {folder}", first[folder], "choose another name")
            yield catalogue.problem(("models", name), taken)
        first.setdefault(folder, ("models", name))


def handed_in(catalogue: Catalogue) -> Iterator[Problem]:
    """A service whose models the machine hands in gets one: a member of an alias."""
    members = {member for record in catalogue.aliases.values() for member in record.members}
    # A misspelt member is said by itself; it may be the one that is missed here.
    if members - set(catalogue.known("models")):
        return
    for name, record in catalogue.services.items():
        providers = {key for key, found in catalogue.providers.items() if found.service == name}
        own = {key: found for key, found in catalogue.models.items() if found.provider in providers}
        files = [key for key, found in own.items() if found.files]
        runs = record.present and record.enabled and record.runtime != "external"
        if runs and files and not members & own.keys():
            text = f"{name} has no model; make one a member of an alias, "
            text += f"e.g. transcribe: {{members: [{files[0]}]}}, or write enabled: false"
            yield catalogue.problem(("services", name), text)


def _sources(catalogue: Catalogue, name: str, record: schema.ModelRecord) -> Iterator[Problem]:
    called: dict[str, str] = {}
    for index, source in enumerate(record.files):
        key = ("models", name, "files", index)
        if source not in catalogue.known("sources"):
            near = suggest(source, catalogue.known("sources"))
            text = f"{name}.files {source} is not in sources.lock.yml; {near}"
            yield catalogue.problem(key, text)
        elif found := catalogue.sources.get(source):
            file = found.url.rpartition("/")[2]
            if file in called:
                text = f"{name}.files {source} is a second {file}, beside {called[file]}"
                yield catalogue.problem(key, f"{text}; keep one of them")
            called.setdefault(file, source)


def aliases(catalogue: Catalogue) -> Iterator[Problem]:
    """An alias has models as members, each once, of one kind, one of which can ever answer."""
    for name, record in catalogue.aliases.items():
        if name in catalogue.known("models"):
            where = catalogue.at("models", name)
            text = f"{name} is also a model's name ({where}); choose another name"
            yield catalogue.problem(("aliases", name), text)
        yield from _members(catalogue, name, record)
        yield from _kinds(catalogue, name, record)
        if record.first_token_timeout_s > record.timeout_s:
            text = (
                f"{name}.first_token_timeout_s {record.first_token_timeout_s:g} is longer than "
                f"timeout_s {record.timeout_s:g}; make timeout_s at least "
                f"{record.first_token_timeout_s:g}"
            )
            yield catalogue.problem(("aliases", name, "first_token_timeout_s"), text)


def _members(catalogue: Catalogue, name: str, record: schema.AliasRecord) -> Iterator[Problem]:
    known = catalogue.known("models")
    for index, member in enumerate(record.members):
        key = ("aliases", name, "members", index)
        if member in record.members[:index]:
            yield catalogue.problem(key, f"{name}.members has {member} twice; keep the first")
        elif member in known:
            continue
        elif member in catalogue.known("aliases"):
            text = f"{name}.members {member} is an alias; write the models behind it"
            yield catalogue.problem(key, text)
        else:
            text = f"{name}.members names no model {member}; {suggest(member, known)}"
            yield catalogue.problem(key, text)


def _kinds(catalogue: Catalogue, name: str, record: schema.AliasRecord) -> Iterator[Problem]:
    found = {m: catalogue.models[m] for m in record.members if m in catalogue.models}
    kinds = sorted({_DOES.get(model.kind, "answer") for model in found.values()}, reverse=True)
    if len(kinds) > 1:
        mix = " with models that ".join(kinds)
        many = "two aliases" if len(kinds) == 2 else "an alias for each"
        text = f"{name}.members mixes models that {mix}; make {many}"
        yield catalogue.problem(("aliases", name, "members"), text)
    served = [catalogue.providers.get(model.provider) for model in found.values()]
    only_cloud = all(provider and provider.host for provider in served)
    if len(found) == len(record.members) and only_cloud and not record.cloud:
        text = f"{name} has members in the cloud only and forbids it; write cloud: true or add one"
        yield catalogue.problem(("aliases", name, "members"), text)


def routes(catalogue: Catalogue) -> Iterator[Problem]:
    """The service that carries requests to models needs those that serve them."""
    serving = {p.service: name for name, p in catalogue.providers.items() if p.service}
    for name, record in catalogue.services.items():
        if "models" not in record.offers or not record.present or not record.enabled:
            continue
        needed = {option for need in record.needs for option in alternatives(need)}
        for service, provider in serving.items():
            target = catalogue.services.get(service)
            if target and target.present and target.enabled and service not in needed:
                where = catalogue.at("providers", provider)
                text = f"{name} routes to provider {provider} ({where}); add {service} to its needs"
                yield catalogue.problem(("services", name, "needs"), text)


def consumers(catalogue: Catalogue) -> Iterator[Problem]:
    """A key opens services and models that exist."""
    services = [*catalogue.known("services"), *catalogue.known("parts")]
    names = [*catalogue.known("aliases"), *catalogue.known("models")]
    for name, record in catalogue.consumers.items():
        for index, service in enumerate(record.services):
            if service not in services:
                text = f"{name}.services names no service {service}; {suggest(service, services)}"
                yield catalogue.problem(("consumers", name, "services", index), text)
        for index, model in enumerate(record.models if record.models != "all" else ()):
            if model not in names:
                text = f"{name}.models names no alias or model {model}; {suggest(model, names)}"
                yield catalogue.problem(("consumers", name, "models", index), text)


def own_keys(catalogue: Catalogue) -> Iterator[Problem]:
    """A service that calls the house's models is a consumer, so that it gets a key."""
    known = catalogue.known("consumers")
    gateway = next((n for n, r in catalogue.services.items() if "models" in r.offers), "…")
    for name, record in catalogue.services.items():
        calls = _CALLERS & set(record.offers) and record.present and record.enabled
        if calls and name not in known:
            text = f"{name} calls models, but no consumer has this name; write into consumers: "
            text += f"{name}: {{summary: ..., services: [{gateway}], models: all}}"
            yield catalogue.problem(("services", name), text)
