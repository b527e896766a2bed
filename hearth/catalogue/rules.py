"""All rules between records, and those about services and parts; a rule yields all its findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import yaml
from packaging.version import InvalidVersion, Version

from hearth.catalogue import rules_agents, rules_models, rules_net, schema
from hearth.catalogue.naming import (
    MODEL_NAME,
    PERCENT,
    SNAKE,
    Problem,
    alternatives,
    hyphens,
    link,
    program,
    suggest,
)
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue, Finding
from hearth.catalogue.rules_net import another

# Linux allows 31 characters for a user, and that of a sidecar proxy is `INSTANCE-proxy`.
_INSTANCE_LENGTH = 25
# Names with a meaning in Ansible.
_RESERVED = ("all", "ungrouped", "localhost")
# Secrets of the house's own certificate authority.
_AUTHORITY = {f"house_{n}" for n in ("root_cert", "root_key", "intermediate_cert")}
_AUTHORITY.add("house_intermediate_key")
# Fields that name other records: section, field, the sections of those, and what they are.
_REFERENCES = (
    ("services", "on", ("machines",), "machine"),
    ("services", "sources", ("sources",), None),
    ("providers", "service", ("services",), "service"),
    ("models", "provider", ("providers",), "provider"),
    ("models", "files", ("sources",), None),
    ("aliases", "only_with", ("services",), "service"),
    ("consumers", "services", ("services", "parts"), "service"),
    ("consumers", "models", ("aliases", "models"), "alias or model"),
)


def check(catalogue: Catalogue, roles: Path) -> list[Problem]:
    """Apply every rule to the whole catalogue; `roles` is the folder of all roles."""
    findings = [found for rule in RULES for found in rule(catalogue)]
    findings += settings(catalogue, roles)
    # A field whose value is wrong is not missing.
    found = ((key, text) for key, text in findings if key[:3] not in catalogue.rejected)
    return [Problem(catalogue.at(*key), text) for key, text in found]


def names(catalogue: Catalogue) -> Iterator[Finding]:
    """Names become units, hosts and DNS labels: one spelling, short, and each once."""
    first: dict[str, Key] = {}
    for section in ("machines", "services", "parts", "consumers", "agents"):
        for name in catalogue.known(section):
            key = (section, name)
            if not SNAKE.fullmatch(name):
                better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "name"
                yield key, f"{name} is not a snake_case name; write {better}"
            if section == "services" and len(name) > _INSTANCE_LENGTH:
                text = f"{name} has {len(name)} characters and its user {hyphens(name)}-proxy would"
                yield key, f"{text} be too long for Linux; use at most {_INSTANCE_LENGTH}"
            if name in _RESERVED:
                yield key, f"{name} is reserved by Ansible; choose another name"
            if section in ("consumers", "agents"):
                continue
            if name in first:
                other = f"{str(first[name][0])[:-1]} ({catalogue.at(*first[name])})"
                yield key, f"{name} is also the name of a {other}; choose another"
            first.setdefault(name, key)
    for section in ("models", "aliases"):
        for name in catalogue.known(section):
            if not MODEL_NAME.fullmatch(name):
                text = f"{name!r} is not a valid model name; use letters, digits and . _ : / -"
                yield (section, name), text


def unique(catalogue: Catalogue) -> Iterator[Finding]:
    """What can belong to one record only belongs to one."""
    owners: dict[Hashable, Key] = {}
    for value, key, text, instead in _uses(catalogue):
        owner = owners.setdefault(value, key)
        if text and owner != key:
            yield key, f"{text} is also {owner[1]}'s ({catalogue.at(*owner)}); {instead}"


def _uses(catalogue: Catalogue) -> Iterator[tuple[Hashable, Key, str, str]]:
    """Yield such values by their kinds, their places, what they are, and what to write instead.

    One without a text is not rejected: its kind has a rule of its own, or it comes first.
    """
    for name, server in catalogue.providers.items():
        yield ("secret", server.secret), ("providers", name, "secret"), "", ""
    for name in catalogue.known("consumers"):
        yield ("secret", f"consumer_{name}"), ("consumers", name), "", ""
    for name in catalogue.known("services"):
        key, end = ("services", name), link(hyphens(name))
        # A network link has the first letters of its service's name.
        yield ("link", end), key, f"the link {end}", f"start {name} with other letters"
        yield ("folder", name), key, "", ""
    for name, model in catalogue.models.items():
        identity = ("model", model.provider, (model.id or name).removesuffix(":latest"))
        yield identity, ("models", name), f"the model behind {name}", "keep one of them"
        provider = catalogue.providers.get(model.provider)
        if model.files and provider and provider.service:
            folder = program(provider.service, name)
            text = f"the folder {folder}"
            yield ("folder", folder), ("models", name), text, "choose another name"
    for name, record in catalogue.services.items():
        for port in record.publish_tcp:
            place = ("services", name, "publish_tcp", str(port))
            yield ("publish_tcp", port), place, f"{name}.publish_tcp {port}", another(port + 1)
        keep = "keep it at one of them"
        if record.present and record.scrapes:
            yield "scrapes", ("services", name, "scrapes"), f"{name}.scrapes", keep
        if record.present and "models" in record.offers:
            yield "models", ("services", name, "offers"), f"{name}.offers models", keep
    for of, owner in catalogue.owners():
        yield from _uses_of_owner(of, str(of[1]), owner)


def _uses_of_owner(
    key: Key, name: str, record: schema.PartRecord
) -> Iterator[tuple[Hashable, Key, str, str]]:
    for secret in record.secrets:
        text = f"choose another name, e.g. {name}_{secret}"
        yield ("secret", secret), (*key, "secrets", secret), f"{name}.secrets {secret}", text
    for label, site in record.publish.items():
        place, text = (*key, "publish", label), f"{name}.publish {label}"
        if site.plain:
            text += ".plain: the machine's address"
            yield "plain", (*place, "plain"), text, "leave plain out here"
    address: str | None = "the machine"
    if isinstance(record, schema.ServiceRecord):
        if not (record.here and record.present):
            return
        address = record.address
    # A program may serve its metrics on its own port.
    for port, field in {record.metrics_port: "metrics_port", record.port: "port"}.items():
        if port:
            text = f"{name}.port {port}"
            yield ("port", address, port), (*key, field), text, another(port + 1)


def one_machine(catalogue: Catalogue) -> Iterator[Finding]:
    """There is one machine."""
    known = catalogue.known("machines")
    if not known:
        yield ("machines",), "there is no machine; write house: {}"
    for name in known[1:]:
        text = f"{name} is a second machine, and a house has one so far; keep {known[0]} or {name}"
        yield ("machines", name), text


def references(catalogue: Catalogue) -> Iterator[Finding]:
    """Every record that another one names is there."""
    for section, field, sections, what in _REFERENCES:
        known = catalogue.known(*sections)
        for name, record in getattr(catalogue, section).items():
            value, key = getattr(record, field), (section, name, field)
            if value is None or (section == "consumers" and value == "all"):
                continue
            one = isinstance(value, str)
            for index, item in enumerate([value] if one else value):
                if item not in known:
                    text = (
                        f": no {what} is named {item}"
                        if what
                        else f" {item} is not in sources.lock.yml"
                    )
                    place = key if one else (*key, index)
                    yield place, f"{name}.{field}{text}; {suggest(item, known)}"


def needs(catalogue: Catalogue) -> Iterator[Finding]:
    """A needed service exists, is certainly enabled, and is not the service itself.

    A part does without a service that is off.
    """
    for (section, owner), record in catalogue.owners():
        name = str(owner)
        known = _callable(catalogue, section)
        for index, need in enumerate(record.needs):
            key = (section, name, "needs", index)
            options = alternatives(need)
            if not all(options):
                yield key, f"{name}.needs {need!r} is missing a name next to |; write e.g. a | b"
                continue
            for option in options:
                if option not in known:
                    hint = suggest(option, known)
                    yield key, f"{name}.needs: no service is named {option}; {hint}"
            if name in options:
                yield key, f"{name} needs itself; take {name} out of needs"
            elif (
                isinstance(record, schema.ServiceRecord)
                and record.runs
                and (text := _why_off(catalogue, name, need))
            ):
                yield key, text


def _callable(catalogue: Catalogue, section: str | int) -> list[str]:
    """List what a service, or a part, may need."""
    parts = [name for name, part in catalogue.parts.items() if part.serves]
    return catalogue.known("services") + (parts if section == "services" else [])


def uses(catalogue: Catalogue) -> Iterator[Finding]:
    """What a service uses where it is there exists, and is not needed anyway."""
    known = _callable(catalogue, "services")
    for name, record in catalogue.services.items():
        needed = {option for need in record.needs for option in alternatives(need)}
        for index, used in enumerate(record.uses):
            key = ("services", name, "uses", index)
            if used not in known:
                yield key, f"{name}.uses: no service is named {used}; {suggest(used, known)}"
            elif used == name:
                yield key, f"{name} uses itself; take {name} out of uses"
            elif used in needed:
                yield key, f"{name}.uses {used} is among its needs; keep one of them"


def _why_off(catalogue: Catalogue, name: str, need: str) -> str | None:
    """Return why no alternative of a need is certainly enabled, if that is known."""
    options = [option for option in alternatives(need) if option not in catalogue.parts]
    records = [record for option in options if (record := catalogue.services.get(option))]
    enabled = [record.enabled for record in records if record.present]
    # A part is there once a service needs it. Whether a rejected record is enabled is unknown.
    if len(options) < len(alternatives(need)) or len(records) < len(options) or True in enabled:
        return None
    switch = catalogue.at("services", options[0], "enabled")
    if "auto" in enabled:
        return f"{name} needs {need}, which is on only with its GPU ({switch}); add | and another"
    text = f"{name} needs {need}, which is off ({switch}); "
    return f"{text}turn it on, or {name} off, or take it out of the needs of {name}"


def cycles(catalogue: Catalogue) -> Iterator[Finding]:
    """Needs have no cycle."""
    edges = {
        name: [o for n in (*record.needs, *record.uses) for o in alternatives(n) if o != name]
        for name, record in catalogue.services.items()
    }
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> Iterator[list[str]]:
        if name in path:
            yield [*path[path.index(name) :], name]
        elif name not in done:
            for target in edges.get(name, []):
                yield from walk(target, [*path, name])
            done.add(name)

    for name in edges:
        for cycle in walk(name, []):
            text = f"needs form a cycle: {' → '.join(cycle)}; take one of them out"
            yield ("services", cycle[0], "needs"), text


def fields(catalogue: Catalogue) -> Iterator[Finding]:
    """The fields of each service fit together."""
    for name, record in catalogue.services.items():
        for place, text in _misfits(record):
            yield ("services", name, *place), f"{name}{text}"
        if not (record.here or record.url or ("services", name, "url") in catalogue.rejected):
            text = f"{name} is external and has no url; write e.g. url: http://192.168.1.20:11434"
            yield ("services", name, "runtime"), text


def _misfits(record: schema.ServiceRecord) -> Iterator[Finding]:
    """Yield the fields that do not fit, and the text after the service's name."""
    url, check = record.url or "", record.health
    if record.here and url:
        yield ("url",), ".url is only for runtime: external; write that, or leave url out"
    elif re.match(r"https?://(localhost|127\.)", url):
        yield ("url",), ".url means the caller itself; write the server's LAN address"
    if record.here and record.present and record.port is None:
        yield ("port",), ".port is missing; write the port it listens on, e.g. port: 8080"
    if record.runtime == "podman" and record.paths:
        yield ("paths",), ".paths needs a proxy in the instance, which podman has not; use incus"
    if record.runtime == "incus" and (record.limits.cpus or 0) % 1:
        text = f".limits.cpus {record.limits.cpus:g} is not whole, as Incus needs it; write e.g. 2"
        yield ("limits", "cpus"), text
    if record.enabled == "auto" and record.gpu in ("none", "software"):
        text = f".enabled auto waits for a GPU, but gpu is {record.gpu}; write gpu: auto"
        yield ("enabled",), text
    if record.role and not SNAKE.fullmatch(record.role):
        yield ("role",), f".role {record.role} is not snake_case; write the role's folder name"
    if record.admin_secret and record.admin_secret not in record.secrets:
        text = f".admin_secret {record.admin_secret} is not one of its secrets; add it to them"
        yield ("admin_secret",), text
    if check.port:
        text = f".health.port {check.port} is only for parts; its health is at its own port"
        yield ("health", "port"), f"{text}, so remove it"
    if check.within_s > check.ready_s:
        text = f".health.within_s {check.within_s:g} is longer than ready_s {check.ready_s:g}"
        yield ("health", "within_s"), f"{text}; make ready_s at least {check.within_s:g}"
    if record.paths and not any(_covers(path, check.path) for path in record.paths):
        yield ("health", "path"), f".health.path {check.path} is not among its paths; add it there"
    for index, item in enumerate(record.data):
        for other in record.data[:index]:
            inner, outer = sorted((item.path, other.path), key=len, reverse=True)
            if inner == outer:
                yield ("data", index), f".data has {inner} twice; keep one"
            elif inner.startswith(f"{outer}/"):
                yield ("data", index), f".data {inner} lies in {outer}; keep the outer one"


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def memory(catalogue: Catalogue) -> Iterator[Finding]:
    """Percentages of the machine's memory add up to 100 at most."""
    shares = {
        name: int(match[1])
        for name, record in catalogue.services.items()
        if record.runs and (match := PERCENT.fullmatch(record.limits.memory or ""))
    }
    total = sum(shares.values())
    if total > 100:
        parts = " + ".join(f"{name} {share}%" for name, share in shares.items())
        text = f"limits.memory is more than the machine: {parts} = {total}%; lower one"
        yield ("services", list(shares)[-1], "limits", "memory"), text


def secrets(catalogue: Catalogue) -> Iterator[Finding]:
    """The name of every secret is valid and free."""
    for (section, owner), record in catalogue.owners():
        for secret in record.secrets:
            key, text = (section, owner, "secrets", secret), f"{owner}.secrets {secret}"
            if not SNAKE.fullmatch(secret):
                yield key, f"{text} is not snake_case; write e.g. {owner}_key"
            if secret in _AUTHORITY:
                yield key, f"{text} belongs to the house's authority; rename it"


def versions(catalogue: Catalogue) -> Iterator[Finding]:
    """No download is older than its minimum version."""
    for name, minimum in catalogue.minimum_versions.items():
        if minimum.oldest is None or minimum.kind != "source":
            continue
        record = catalogue.sources.get(name)
        if record is None:
            hint = suggest(name, catalogue.known("sources"))
            yield ("minimum_versions", name), f"no source is named {name}; {hint}"
            continue
        text = f"{name}.version {record.version}"
        try:
            if Version(record.version) >= Version(minimum.oldest):
                continue
            text += f" is older than {minimum.oldest}, the minimum version; write {minimum.oldest}"
            text += " or later, with its url"
        except InvalidVersion:
            text += f" cannot be compared with {minimum.oldest}; write numbers with dots, or "
            text += "oldest: null in inventory/local/minimum_versions.yml"
        yield ("sources", name, "version"), text


def settings(catalogue: Catalogue, roles: Path) -> Iterator[Finding]:
    """The variables that a record gives to its role are in the role's own specification."""
    for (section, name), record in catalogue.owners():
        path = roles / (record.role or str(name)) / "meta/argument_specs.yml"
        known: list[str] = []
        if record.settings and path.is_file():
            content = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
            known = list(content["argument_specs"]["main"].get("options", {}))
        for setting in record.settings:
            if setting not in known:
                text = f"{name}.settings has no variable {setting}; {suggest(setting, known)}"
                yield (section, name, "settings", setting), text


RULES: tuple[Callable[[Catalogue], Iterator[Finding]], ...] = (
    *(names, unique, one_machine, references, needs, uses, cycles, fields),
    *(memory, secrets, versions),
    *(rules_net.ranges, rules_net.addresses, rules_net.anywhere, rules_net.sites),
    rules_net.shared_names,
    *(rules_models.providers, rules_models.models, rules_models.handed_in),
    *(rules_agents.aliases, rules_agents.specialists, rules_agents.tools, rules_agents.verbs),
    *(rules_models.aliases, rules_models.routes, rules_models.own_keys, rules_models.opened),
)
