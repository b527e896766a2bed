"""Rules about models, their providers and aliases, and the services that serve or call them."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.catalogue import schema
from hearth.catalogue.naming import SNAKE, alternatives, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue, Finding

# Kinds that no other kind can replace; all others answer with text.
_DOES = {"embed": "embed", "transcribe": "transcribe"}
# The sites whose login accepts a consumer's key.
_KEYED = frozenset({"key", "house"})
# Services that offer these call the house's models with a key of their own.
_CALLERS = frozenset({"chat", "pipelines", "agents"})
# These check the keys of other services themselves.
CHECKING = frozenset({"models", "agents"})


def providers(catalogue: Catalogue) -> Iterator[Finding]:
    """A provider is a service of the house, or a host on the internet with a key."""
    for name, record in catalogue.providers.items():
        key = ("providers", name)
        if record.service and record.host:
            text = f"{name} has a service and a host; keep service here, host for the cloud"
            yield (*key, "host"), text
        if not record.service and not record.host:
            yield (
                (*key, "host"),
                f"{name} has neither service nor host; write e.g. host: api.example.org",
            )
        if record.host and not record.secret:
            text = f"{name} has a host and no secret; write e.g. secret: {name}_api_key"
            yield (*key, "secret"), text
        if record.secret and not SNAKE.fullmatch(record.secret):
            text = f"{name}.secret {record.secret} is not snake_case; write e.g. {name}_api_key"
            yield (*key, "secret"), text


def models(catalogue: Catalogue) -> Iterator[Finding]:
    """A model has a size where it is pulled, and files where it transcribes."""
    for name, record in catalogue.models.items():
        key = ("models", name)
        provider = catalogue.providers.get(record.provider)
        if provider and provider.service:
            if record.download is None:
                text = f"{name}.download is missing; write its size, e.g. download: 3.4GB"
                yield (*key, "download"), text
        elif provider and record.download:
            yield (*key, "download"), f"{name}.download does not apply in the cloud; leave it out"
        if provider and provider.service and record.price:
            yield (*key, "price"), f"{name}.price does not apply in this house; leave it out"
        # Without one, the limit of agents' cloud money would never end a run.
        if provider and provider.host and not provider.service and not record.price:
            text = (
                f"{name}.price is missing; write what {record.provider} asks for a million tokens"
            )
            example = "price: {input_eur: 1, output_eur: 5}, with 0 and 0 for what is free"
            yield (*key, "price"), f"{text}, e.g. {example}"
        yield from _abilities(name, record)
        if record.kind == "transcribe":
            yield from _files(catalogue, name, record)
        elif record.files:
            text = f"{name}.files is only for kind: transcribe; write that, or leave files out"
            yield (*key, "files"), text


def _abilities(name: str, record: schema.ModelRecord) -> Iterator[Finding]:
    """Only a chat model has capabilities, and only one that thinks can think always."""
    key = ("models", name)
    if record.capabilities and record.kind != "chat":
        text = f"{name}.capabilities is only for kind: chat; write that, or leave them out"
        yield (*key, "capabilities"), text
    elif record.always_thinks and "thinking" not in record.capabilities:
        text = f"{name}.always_thinks needs a model that thinks; write capabilities: [thinking]"
        yield (*key, "always_thinks"), text
    if record.context and record.kind == "transcribe":
        yield (*key, "context"), f"{name}.context does not apply to kind: transcribe; leave it out"


def _files(catalogue: Catalogue, name: str, record: schema.ModelRecord) -> Iterator[Finding]:
    """A model for transcription lists its files, each once."""
    key = ("models", name)
    provider = catalogue.providers.get(record.provider)
    service = catalogue.services.get(provider.service or "") if provider else None
    if provider and not provider.service and provider.host:
        text = f"{name}.kind transcribe cannot be in the cloud; name a provider with a service"
        yield (*key, "provider"), text
    external = service is not None and not service.here
    if not record.files and not external:
        text = f"{name}.files is missing; write the sources of its files, e.g. files: [a, b]"
        yield (*key, "files"), text
    called: dict[str, str] = {}
    for index, source in enumerate(record.files):
        if found := catalogue.sources.get(source):
            file = found.url.rpartition("/")[2]
            if file in called:
                text = f"{name}.files {source} is a second {file}, besides {called[file]}"
                yield (*key, "files", index), f"{text}; keep one of them"
            called.setdefault(file, source)


def handed_in(catalogue: Catalogue) -> Iterator[Finding]:
    """A service that gets its models as files has at least one: a member of an alias."""
    members = {member for record in catalogue.aliases.values() for member in record.members}
    # Another rule reports a misspelt member, which may be the one that is missing here.
    if members - set(catalogue.known("models")):
        return
    for name, record in catalogue.services.items():
        providers = {key for key, found in catalogue.providers.items() if found.service == name}
        own = {key: found for key, found in catalogue.models.items() if found.provider in providers}
        # A model that needs a GPU is left out where there is none, unless the record requires one.
        sure = {key for key, found in own.items() if found.gpu in (None, record.gpu)}
        files = [key for key, found in own.items() if found.files and key in sure]
        if record.runs and record.here and files and not members & sure:
            what, one = "no model", "one"
            if members & own.keys():
                what, one = "only models that need a GPU", "another one"
            text = f"{name} has {what}; make {one} a member of an alias, "
            text += f"e.g. transcribe: {{members: [{files[0]}]}}, or write enabled: false"
            yield ("services", name), text


def aliases(catalogue: Catalogue) -> Iterator[Finding]:
    """An alias fits into a URL; its members are of one kind, each once, and one can be reached."""
    for name, record in catalogue.aliases.items():
        key = ("aliases", name)
        if "/" in name:
            text = f"{name} cannot be in a URL such as /v1/models/NAME; write"
            yield key, f"{text} {name.replace('/', '-')}"
        if name in catalogue.known("models"):
            where = catalogue.at("models", name)
            yield key, f"{name} is also a model's name ({where}); choose another name"
        yield from _members(catalogue, name, record)
        yield from _thinking(catalogue, name, record)
        first_s, all_s = record.first_token_timeout_s, record.timeout_s
        if first_s > all_s:
            text = f"{name}.first_token_timeout_s {first_s:g} is longer than timeout_s {all_s:g}"
            text += f"; make timeout_s at least {first_s:g}"
            yield (*key, "first_token_timeout_s"), text


def _thinking(catalogue: Catalogue, name: str, record: schema.AliasRecord) -> Iterator[Finding]:
    """`off` can be kept, and other levels reach a member that thinks."""
    key = ("aliases", name, "thinking")
    members = {m: catalogue.models[m] for m in record.members if m in catalogue.models}
    always = [member for member, model in members.items() if model.always_thinks]
    thinks = any("thinking" in model.capabilities for model in members.values())
    if record.thinking == "off" and always:
        text = f"{name}.thinking off: {always[0]} cannot stop thinking; write low, or remove it"
        yield key, text
    # A misspelt member is reported elsewhere, and may be the one that thinks.
    elif (
        record.thinking not in ("off", "auto")
        and not thinks
        and members.keys() == set(record.members)
    ):
        yield key, f"{name}.thinking {record.thinking}: no member thinks; write off, or add one"


def _members(catalogue: Catalogue, name: str, record: schema.AliasRecord) -> Iterator[Finding]:
    known = catalogue.known("models")
    for index, member in enumerate(record.members):
        key: Key = ("aliases", name, "members", index)
        if member in record.members[:index]:
            yield key, f"{name}.members has {member} twice; keep the first"
        elif member not in known and member in catalogue.known("aliases"):
            yield key, f"{name}.members {member} is an alias; write the models behind it"
        elif member not in known:
            yield key, f"{name}.members: no model is named {member}; {suggest(member, known)}"
    key = ("aliases", name, "members")
    found = {m: catalogue.models[m] for m in record.members if m in catalogue.models}
    kinds = sorted({_DOES.get(model.kind, "answer") for model in found.values()}, reverse=True)
    if len(kinds) > 1:
        mix = " with models that ".join(kinds)
        many = "two aliases" if len(kinds) == 2 else "an alias for each"
        yield key, f"{name}.members mixes models that {mix}; make {many}"
    served = [catalogue.providers.get(model.provider) for model in found.values()]
    only_cloud = all(provider and provider.host for provider in served)
    if len(found) == len(record.members) and only_cloud and not record.cloud:
        text = f"{name} has members in the cloud only and forbids it; write cloud: true or add one"
        yield key, text


def routes(catalogue: Catalogue) -> Iterator[Finding]:
    """The service that offers all models needs every service that serves them."""
    serving = {p.service: name for name, p in catalogue.providers.items() if p.service}
    for name, record in catalogue.services.items():
        needed = {option for need in record.needs for option in alternatives(need)}
        for service, provider in serving.items() if "models" in record.offers else ():
            target = catalogue.services.get(service)
            if record.runs and target and target.runs and service not in needed:
                where = catalogue.at("providers", provider)
                text = f"{name} routes to provider {provider} ({where}); add {service} to its needs"
                yield ("services", name, "needs"), text


def own_keys(catalogue: Catalogue) -> Iterator[Finding]:
    """A service that calls the house's models is a consumer, so that it gets a key."""
    known = catalogue.known("consumers")
    gateway = next((n for n, r in catalogue.services.items() if "models" in r.offers), "…")
    for name, record in catalogue.services.items():
        if record.runs and _CALLERS & set(record.offers) and name not in known:
            text = f"{name} calls models, but no consumer has this name; write into consumers: "
            text += f"{name}: {{summary: ..., services: [{gateway}], models: all}}"
            yield ("services", name), text


def takes_keys(owner: schema.PartRecord) -> bool:
    """Return whether a service or part is published for consumers' keys."""
    return any(site.auth in _KEYED for site in owner.publish.values())


def opened(catalogue: Catalogue) -> Iterator[Finding]:
    """A key opens something: a site that takes keys, or inside the house the models."""
    for name, record in catalogue.consumers.items():
        inside = name in catalogue.known("services")
        if inside and record.services == "all":
            text = f"{name}.services all is for callers on the LAN; write what {name} calls"
            yield ("consumers", name, "services"), text
        for index, target in enumerate(record.named):
            key: Key = ("consumers", name, "services", index)
            section = "parts" if target in catalogue.parts else "services"
            owner = dict(catalogue.owners()).get((section, target))
            # Another rule reports a misspelt one, and nothing calls a removed one.
            if owner is None or not getattr(owner, "present", True):
                continue
            if (section, target, "publish") in catalogue.rejected:
                continue
            checks = owner.serves or CHECKING & {*getattr(owner, "offers", ())}
            if inside and not checks:
                yield key, f"{name}.services {target} takes no key of a service; take it out"
            elif not inside and not takes_keys(owner):
                text = f"{name}.services {target} is not published for keys"
                where = catalogue.at(section, target)
                yield key, f"{text} ({where}); take it out, or publish it with auth: key"
