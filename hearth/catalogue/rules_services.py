"""Rules about services and parts: names, health, memory, data, secrets and sources."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from hearth.catalogue.naming import MODEL_NAME, PERCENT, SNAKE, hyphens, link, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue, Finding

# Linux allows 31 characters for a user, and that of a sidecar proxy is `INSTANCE-proxy`.
INSTANCE_LENGTH = 25
# Names with a meaning in Ansible.
_RESERVED = ("all", "ungrouped", "localhost")
# Secrets of the house's own certificate authority.
_AUTHORITY = {f"house_{n}" for n in ("root_cert", "root_key", "intermediate_cert")}
_AUTHORITY.add("house_intermediate_key")


def names(catalogue: Catalogue) -> Iterator[Finding]:
    """Names become units, hosts and DNS labels: one spelling, short, and each once."""
    first: dict[str, Key] = {}
    for section in ("machines", "services", "parts", "consumers"):
        for name in catalogue.known(section):
            key = (section, name)
            if not SNAKE.fullmatch(name):
                better = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "name"
                yield key, f"{name} is not a snake_case name; write {better}"
            if section == "services" and len(name) > INSTANCE_LENGTH:
                text = (
                    f"{name} has {len(name)} characters and its user {hyphens(name)}-proxy would "
                )
                yield key, f"{text}be too long for Linux; use at most {INSTANCE_LENGTH}"
            if name in _RESERVED:
                yield key, f"{name} is reserved by Ansible; choose another name"
            if section == "consumers":
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


def links(catalogue: Catalogue) -> Iterator[Finding]:
    """A network link has the first letters of its service's name; no two have the same."""
    first: dict[str, Key] = {}
    for name in catalogue.known("services"):
        key, end = ("services", name), link(hyphens(name))
        if end in first:
            instead = f"start {name} with other letters"
            yield key, catalogue.taken(f"the link {end}", first[end], instead)
        first.setdefault(end, key)


def one_machine(catalogue: Catalogue) -> Iterator[Finding]:
    """There is one machine, and `on` names it."""
    known = catalogue.known("machines")
    if not known:
        yield ("machines",), "there is no machine; write house: {}"
    for name in known[1:]:
        text = f"{name} is a second machine, and a house has one so far; keep {known[0]} or {name}"
        yield ("machines", name), text
    for name, record in catalogue.services.items():
        if record.on and record.on not in known:
            text = f"{name}.on: no machine is named {record.on}; {suggest(record.on, known)}"
            yield ("services", name, "on"), text


def runtimes(catalogue: Catalogue) -> Iterator[Finding]:
    """Each runtime has the fields that it requires, and `auto` has a GPU to look for."""
    for name, record in catalogue.services.items():
        key = ("services", name)
        if record.runtime == "external":
            if not record.url and not catalogue.written(*key, "url"):
                text = f"{name} is external and has no url; write e.g. "
                yield (*key, "runtime"), f"{text}url: http://192.168.1.20:11434"
            elif record.url and re.match(r"https?://(localhost|127\.)", record.url):
                text = f"{name}.url means the caller itself; write the server's LAN address"
                yield (*key, "url"), text
        elif record.url:
            text = f"{name}.url is only for runtime: external; write that, or leave url out"
            yield (*key, "url"), text
        if record.runtime == "podman" and record.paths:
            text = f"{name}.paths needs a proxy in the instance, which podman has not; use incus"
            yield (*key, "paths"), text
        if record.enabled == "auto" and record.gpu in ("none", "software"):
            text = f"{name}.enabled auto waits for a GPU, but gpu is {record.gpu}; write gpu: auto"
            yield (*key, "enabled"), text
        if record.role and not SNAKE.fullmatch(record.role):
            text = f"{name}.role {record.role} is not snake_case; write the role's folder name"
            yield (*key, "role"), text


def health(catalogue: Catalogue) -> Iterator[Finding]:
    """One response fits into the time of a start, and others may request the health path."""
    for name, record in catalogue.services.items():
        check, key = record.health, ("services", name, "health")
        if check.within_s > check.ready_s:
            text = f"{name}.health.within_s {check.within_s:g} is longer than ready_s "
            text += f"{check.ready_s:g}; make ready_s at least {check.within_s:g}"
            yield (*key, "within_s"), text
        if record.paths and not any(_covers(path, check.path) for path in record.paths):
            text = f"{name}.health.path {check.path} is not among its paths; add it there"
            yield (*key, "path"), text


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def memory(catalogue: Catalogue) -> Iterator[Finding]:
    """Percentages of the machine's memory add up to 100 at most."""
    shares: dict[str, int] = {}
    for name, record in catalogue.services.items():
        match = PERCENT.fullmatch(record.limits.memory or "")
        if match and record.present and record.enabled:
            shares[name] = int(match[1])
    total = sum(shares.values())
    if total > 100:
        parts = " + ".join(f"{name} {share}%" for name, share in shares.items())
        text = f"limits.memory is more than the machine: {parts} = {total}%; lower one"
        yield ("services", list(shares)[-1], "limits", "memory"), text


def data(catalogue: Catalogue) -> Iterator[Finding]:
    """No folder of data lies in another one."""
    for name, record in catalogue.services.items():
        for index, item in enumerate(record.data):
            key = ("services", name, "data", index)
            for other in record.data[:index]:
                inner, outer = sorted((item.path, other.path), key=len, reverse=True)
                if inner == outer:
                    yield key, f"{name}.data has {inner} twice; keep one"
                elif inner.startswith(f"{outer}/"):
                    yield key, f"{name}.data {inner} lies in {outer}; keep the outer one"


def secrets(catalogue: Catalogue) -> Iterator[Finding]:
    """Every secret has one owner and one purpose."""
    owners: dict[str, Key] = {
        f"consumer_{name}": ("consumers", name) for name in catalogue.known("consumers")
    }
    for name, provider in catalogue.providers.items():
        if provider.secret:
            owners.setdefault(provider.secret, ("providers", name, "secret"))
    for section in ("services", "parts"):
        for owner, record in getattr(catalogue, section).items():
            for secret in record.secrets:
                key, text = (section, owner, "secrets", secret), f"{owner}.secrets {secret}"
                if not SNAKE.fullmatch(secret):
                    yield key, f"{text} is not snake_case; write e.g. {owner}_key"
                if secret in _AUTHORITY:
                    yield key, f"{text} belongs to the house's authority; rename it"
                if secret in owners:
                    instead = f"choose another name, e.g. {owner}_{secret}"
                    yield key, catalogue.taken(text, owners[secret], instead)
                owners.setdefault(secret, key)
    for name, service in catalogue.services.items():
        if service.admin_secret and service.admin_secret not in service.secrets:
            text = f"{name}.admin_secret {service.admin_secret} is not one of its secrets"
            yield ("services", name, "admin_secret"), f"{text}; add it to them"


def only_one(catalogue: Catalogue) -> Iterator[Finding]:
    """One service at most reads all metrics, and one at most offers all models."""
    for field, label in (("scrapes", "scrapes"), ("offers", "offers models")):
        first: str | None = None
        for name, record in catalogue.services.items():
            chosen = record.scrapes if field == "scrapes" else "models" in record.offers
            if not chosen or not record.present:
                continue
            if first:
                key = ("services", first, field)
                text = catalogue.taken(f"{name}.{label}", key, "keep it at one of them")
                yield ("services", name, field), text
            first = first or name


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


def sources(catalogue: Catalogue) -> Iterator[Finding]:
    """Every download of a service is in the lock file."""
    known = catalogue.known("sources")
    for name, record in catalogue.services.items():
        for index, source in enumerate(record.sources):
            if source not in known:
                text = f"{name}.sources {source} is not in sources.lock.yml; "
                yield ("services", name, "sources", index), text + suggest(source, known)
