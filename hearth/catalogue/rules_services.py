"""Rules about services and parts: names, starting, keeping."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from hearth.catalogue.naming import MODEL_NAME, PERCENT, SNAKE, Problem, hyphens, suggest, wire
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue

# Linux allows 31 characters for a user, and that of a gate is `INSTANCE-gate`.
INSTANCE_LENGTH = 26
# Ansible gives these a meaning of its own.
_TAKEN = ("all", "ungrouped", "localhost")
# Made with the house's own authority, under these names.
_AUTHORITY = ("root_cert", "root_key", "intermediate_cert", "intermediate_key")


def names(catalogue: Catalogue) -> Iterator[Problem]:
    """Names become units, hosts and DNS labels: one spelling, short, and each once."""
    first: dict[str, Key] = {}
    for section in ("machines", "services", "parts", "consumers"):
        for name in catalogue.known(section):
            key = (section, name)
            if not SNAKE.fullmatch(name):
                better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "name"
                yield catalogue.problem(key, f"{name} is not a snake_case name; write {better}")
            if section == "services" and len(name) > INSTANCE_LENGTH:
                yield catalogue.problem(
                    key,
                    f"{name} has {len(name)} characters and its user {hyphens(name)}-gate would "
                    f"be too long for Linux; use at most {INSTANCE_LENGTH}",
                )
            if name in _TAKEN:
                yield catalogue.problem(key, f"{name} is a word of Ansible's; choose another name")
            if section == "consumers":
                continue
            if name in first:
                other = f"{str(first[name][0])[:-1]} ({catalogue.at(*first[name])})"
                text = f"{name} is also the name of a {other}; choose another"
                yield catalogue.problem(key, text)
            first.setdefault(name, key)
    for section in ("models", "aliases"):
        for name in catalogue.known(section):
            if not MODEL_NAME.fullmatch(name):
                text = f"{name!r} cannot be a model's name; use letters, digits and . _ : / -"
                yield catalogue.problem((section, name), text)


def wires(catalogue: Catalogue) -> Iterator[Problem]:
    """Of a long name the wire bears the beginning; no two services have the same."""
    first: dict[str, Key] = {}
    for name in catalogue.known("services"):
        key, end = ("services", name), wire(hyphens(name))
        if end in first:
            instead = f"begin {name} with other letters"
            yield catalogue.problem(key, catalogue.taken(f"the wire {end}", first[end], instead))
        first.setdefault(end, key)


def one_machine(catalogue: Catalogue) -> Iterator[Problem]:
    """There is one machine, and `on` means it."""
    known = catalogue.known("machines")
    if not known:
        yield catalogue.problem(("machines",), "there is no machine; write house: {}")
    for name in known[1:]:
        text = f"{name} is a second machine, and a house has one so far; keep {known[0]} or {name}"
        yield catalogue.problem(("machines", name), text)
    for name, record in catalogue.services.items():
        if record.on and record.on not in known:
            text = f"{name}.on names no machine {record.on}; {suggest(record.on, known)}"
            yield catalogue.problem(("services", name, "on"), text)


def runtimes(catalogue: Catalogue) -> Iterator[Problem]:
    """Each runtime has what it cannot do without, and `auto` has a GPU to look for."""
    for name, record in catalogue.services.items():
        key = ("services", name)
        if record.runtime == "external":
            if not record.url and not catalogue.written(*key, "url"):
                text = (
                    f"{name} is external and has no url; write e.g. url: http://192.168.1.20:11434"
                )
                yield catalogue.problem((*key, "runtime"), text)
            elif record.url and re.match(r"https?://(localhost|127\.)", record.url):
                text = f"{name}.url means the caller itself; write the server's LAN address"
                yield catalogue.problem((*key, "url"), text)
        elif record.url:
            text = f"{name}.url is only for runtime: external; write that, or leave url out"
            yield catalogue.problem((*key, "url"), text)
        if record.runtime == "podman" and record.paths:
            text = f"{name}.paths needs a proxy in the instance, which podman has not; use incus"
            yield catalogue.problem((*key, "paths"), text)
        if record.enabled == "auto" and record.gpu in ("none", "software"):
            text = f"{name}.enabled auto waits for a GPU, but gpu is {record.gpu}; write gpu: auto"
            yield catalogue.problem((*key, "enabled"), text)
        if record.role and not SNAKE.fullmatch(record.role):
            text = f"{name}.role {record.role} is not snake_case; write the role's folder name"
            yield catalogue.problem((*key, "role"), text)


def health(catalogue: Catalogue) -> Iterator[Problem]:
    """One answer fits into the start, and the question is one that others may ask."""
    for name, record in catalogue.services.items():
        check, key = record.health, ("services", name, "health")
        if check.within_s > check.ready_s:
            text = (
                f"{name}.health.within_s {check.within_s:g} is longer than ready_s "
                f"{check.ready_s:g}; make ready_s at least {check.within_s:g}"
            )
            yield catalogue.problem((*key, "within_s"), text)
        if record.paths and not any(_covers(path, check.path) for path in record.paths):
            text = f"{name}.health.path {check.path} is not among its paths; add it there"
            yield catalogue.problem((*key, "path"), text)


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def memory(catalogue: Catalogue) -> Iterator[Problem]:
    """Shares of the machine's memory add up to a machine at most."""
    shares: dict[str, int] = {}
    for name, record in catalogue.services.items():
        match = PERCENT.fullmatch(record.limits.memory or "")
        if match and record.present and record.enabled:
            shares[name] = int(match[1])
    if sum(shares.values()) > 100:
        last = list(shares)[-1]
        parts = " + ".join(f"{name} {share}%" for name, share in shares.items())
        text = (
            f"limits.memory is more than the machine: {parts} = {sum(shares.values())}%; lower one"
        )
        yield catalogue.problem(("services", last, "limits", "memory"), text)


def data(catalogue: Catalogue) -> Iterator[Problem]:
    """Folders that are kept lie beside each other, not in each other."""
    for name, record in catalogue.services.items():
        for index, item in enumerate(record.data):
            key = ("services", name, "data", index)
            for other in record.data[:index]:
                if item.path == other.path:
                    yield catalogue.problem(key, f"{name}.data has {item.path} twice; keep one")
                elif f"{item.path}/".startswith(f"{other.path}/"):
                    text = f"{name}.data {item.path} lies in {other.path}; keep the outer one"
                    yield catalogue.problem(key, text)
                elif f"{other.path}/".startswith(f"{item.path}/"):
                    text = f"{name}.data {other.path} lies in {item.path}; keep the outer one"
                    yield catalogue.problem(key, text)


def secrets(catalogue: Catalogue) -> Iterator[Problem]:
    """Every secret has one owner and one purpose."""
    owners: dict[str, Key] = {}
    for name in catalogue.known("consumers"):
        owners[f"consumer_{name}"] = ("consumers", name)
    for name, provider in catalogue.providers.items():
        if provider.secret:
            owners.setdefault(provider.secret, ("providers", name, "secret"))
    for section in ("services", "parts"):
        for owner, record in getattr(catalogue, section).items():
            for secret in record.secrets:
                key = (section, owner, "secrets", secret)
                if not SNAKE.fullmatch(secret):
                    text = f"{owner}.secrets {secret} is not snake_case; write e.g. {owner}_key"
                    yield catalogue.problem(key, text)
                if secret in {f"house_{name}" for name in _AUTHORITY}:
                    text = f"{owner}.secrets {secret} belongs to the house's authority; rename it"
                    yield catalogue.problem(key, text)
                if secret in owners:
                    instead = f"choose another name, e.g. {owner}_{secret}"
                    text = catalogue.taken(f"{owner}.secrets {secret}", owners[secret], instead)
                    yield catalogue.problem(key, text)
                owners.setdefault(secret, key)


def only_one(catalogue: Catalogue) -> Iterator[Problem]:
    """One service reads all metrics, and one carries requests to models."""
    for field, label in (("scrapes", "scrapes"), ("offers", "offers models")):
        first: str | None = None
        for name, record in catalogue.services.items():
            chosen = record.scrapes if field == "scrapes" else "models" in record.offers
            if not chosen or not record.present:
                continue
            if first:
                key = ("services", first, field)
                text = catalogue.taken(f"{name}.{label}", key, "keep it at one of them")
                yield catalogue.problem(("services", name, field), text)
            first = first or name


def versions(catalogue: Catalogue) -> Iterator[Problem]:
    """No download is older than what its role was written for."""
    for name, minimum in catalogue.minimum_versions.items():
        if minimum.oldest is None or minimum.kind != "source":
            continue
        record = catalogue.sources.get(name)
        if record is None:
            text = f"{name} is no source; {suggest(name, catalogue.known('sources'))}"
            yield catalogue.problem(("minimum_versions", name), text)
            continue
        try:
            if Version(record.version) >= Version(minimum.oldest):
                continue
            text = (
                f"{name}.version {record.version} is older than {minimum.oldest}, the oldest that"
            )
            text += f" will do; write {minimum.oldest} or later, with its url"
        except InvalidVersion:
            text = f"{name}.version {record.version} cannot be compared with {minimum.oldest}; "
            text += "write numbers with dots, or its oldest: null in "
            text += "inventory/local/minimum_versions.yml"
        yield catalogue.problem(("sources", name, "version"), text)


def sources(catalogue: Catalogue) -> Iterator[Problem]:
    """Every program that is fetched stands in the lock file."""
    known = catalogue.known("sources")
    for name, record in catalogue.services.items():
        for index, source in enumerate(record.sources):
            if source not in known:
                text = (
                    f"{name}.sources {source} is not in sources.lock.yml; {suggest(source, known)}"
                )
                yield catalogue.problem(("services", name, "sources", index), text)
