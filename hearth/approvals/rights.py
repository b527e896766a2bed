"""What a change of the inventory gives, takes and risks: one line each, above the diff.

Every changed field has a line, one that has no words of its own included; only those in HARMLESS
have none. What follows elsewhere in the house is compared as well: who may connect to whom, to the
internet, and to which site.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any

from hearth.approvals import ApprovalError
from hearth.catalogue import Catalogue, House
from hearth.catalogue.schema import (
    AliasRecord,
    DataRecord,
    ModelRecord,
    PriceRecord,
    PublishRecord,
    Record,
    ServiceRecord,
)

HARMLESS = frozenset({"summary"})
"""The fields that people read and no program acts on."""
# Together they say who may open a site.
_ACCESS = ("auth", "paths", "open", "closed", "plain")
_AUTH = {
    "own": "with the program's own login",
    "key": "with a consumer's key",
    "house": "with the house's password",
    "lan": "open to every device on the LAN",
}
_NOTHING = "nothing"
_PLAIN = re.compile(r"[\w./:*@%+<>=-]+")
_Leaves = dict[tuple[str, ...], Any]


def refuse(before: Catalogue, after: Catalogue) -> None:
    """Raise ApprovalError for what an agent may not propose at all."""
    if before.parts != after.parts:
        raise ApprovalError("parts run on the machine itself: a person edits them")
    if before.providers != after.providers:
        raise ApprovalError("providers get keys and prompts: a person edits them")
    roles = {one.role or name for name, one in before.services.items()}
    for name, new in after.services.items():
        if new != before.services.get(name):
            _refuse_record(name, before.services.get(name), new, roles)


def _refuse_record(
    name: str, old: ServiceRecord | None, new: ServiceRecord, roles: set[str]
) -> None:
    """Refuse what would reach outside of the service's own instance."""
    if (new.role or name) not in roles:
        raise ApprovalError(f"{name}: no service of this house has the role {new.role or name}")
    folders = {item.from_folder for item in (old.data if old else ())}
    if any(item.from_folder and item.from_folder not in folders for item in new.data):
        raise ApprovalError(f"{name}: a person decides which folders of the machine it gets")
    if "any" in new.egress and new.egress != (old.egress if old else ()):
        raise ApprovalError(f"{name}: a person decides who may reach the whole internet")


def lines(before: Catalogue, after: Catalogue, was: House, now: House) -> list[str]:
    """Return a line for each new right, risk and loss; `was` and `now` follow from the two."""
    known = {(key[1], label) for key, one in before.owners() for label in one.publish}
    return [
        *_connections(was, now),
        *_sites(was, now, known),
        *_parts(was, now),
        *_consumers(was, now),
        *_answering(before, after, was, now),
        *record_changes(before, after),
    ]


def record_changes(before: Catalogue, after: Catalogue) -> list[str]:
    """Return a line for each changed field that is not harmless, whatever follows from it."""
    return [*_services(before, after), *_aliases(before, after), *_models(before, after)]


def _connections(was: House, now: House) -> Iterator[str]:
    """Compare who may connect to whom, and to which hosts on the internet."""
    flows = [{(f.source, f"{f.target}:{f.port}") for f in house.flows} for house in (was, now)]
    outside = [{(e.source, f"{e.host}:{e.port}") for e in house.egress} for house in (was, now)]
    for (old, new), where in ((outside, "on the internet"), (flows, "in the house")):
        for source, targets in _grouped(new - old):
            yield f"new connections {where}: {source} to {targets}"
        for source, targets in _grouped(old - new):
            yield f"no longer possible {where}: {source} to {targets}"


def _grouped(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for source, target in sorted(pairs):
        found[source].append(target)
    yield from ((source, ", ".join(targets)) for source, targets in found.items())


def _sites(was: House, now: House, known: set[tuple[str | int, str]]) -> Iterator[str]:
    """Name the sites that come, go or move although their own records stay as they were."""
    old, new = ({site.name: site for site in house.sites} for house in (was, now))
    for name, site in new.items():
        owner = old[name].service if name in old else ""
        if owner and owner != site.service:
            yield f"the site {site.fqdn} is answered by {site.service} (before: {owner})"
        elif not owner and (site.service, name) in known:
            yield f"the site {site.fqdn} is there now ({_access(site)})"
    yield from (f"the site {old[name].fqdn} is gone" for name in old if name not in new)


def _parts(was: House, now: House) -> Iterator[str]:
    for name in sorted(now.parts.keys() - was.parts):
        yield f"the part {name} runs on the machine, because a service needs it now"
    for name in sorted(was.parts.keys() - now.parts):
        yield f"the part {name} is removed, because no service needs it any more"
    for name in sorted(now.parts.keys() & was.parts):
        if (new := now.parts[name].needs) != (old := was.parts[name].needs):
            yield f"the part {name} calls {_text(new)} (before: {_text(old)})"


def _consumers(was: House, now: House) -> Iterator[str]:
    """Compare what each key opens, and whose words the broker believes."""
    for name in sorted(was.consumers.keys() | now.consumers):
        old, new = was.consumers.get(name), now.consumers.get(name)
        opens, opened = (set(one.services) if one else set() for one in (new, old))
        if opens - opened:
            yield f"the key of {name} also opens {_text(sorted(opens - opened))}"
        if opened - opens:
            yield f"the key of {name} no longer opens {_text(sorted(opened - opens))}"
        if (new.inside if new else False) != (old.inside if old else False):
            is_inside = new is not None and new.inside
            yield f"the consumer {name} is {'a' if is_inside else 'no'} service of the house now"


def _answering(before: Catalogue, after: Catalogue, was: House, now: House) -> Iterator[str]:
    """Name the aliases that other models answer although their own records stay as they were."""
    for name in before.aliases.keys() & after.aliases:
        new, old = now.aliases[name].members, was.aliases[name].members
        if new != old and before.aliases[name] == after.aliases[name]:
            yield f"the alias {name} is answered by {_text(new)} (before: {_text(old)})"
    names = [one.name if (one := house.default_alias) else _NOTHING for house in (was, now)]
    if names[0] != names[1]:
        yield f"the house's first alias is {names[1]} (before: {names[0]})"


def _services(before: Catalogue, after: Catalogue) -> Iterator[str]:
    for name, new in after.services.items():
        old = before.services.get(name)
        if old is None:
            yield f"{name} is a new service, with the role {new.role or name}"
        # A new one is compared with one that says nothing.
        plain = old or ServiceRecord(summary=new.summary, health=new.health)
        yield from _record(f"{name}", plain, new, _SERVICE, is_new=old is None)
        yield from _published(name, plain, new, is_new=old is None)
    for name in before.services.keys() - after.services:
        yield (
            f"{name} is no longer a service, and its instance stays: `present: false` in its "
            "record removes it"
        )


def _published(name: str, old: ServiceRecord, new: ServiceRecord, is_new: bool) -> Iterator[str]:
    for label, site in new.publish.items():
        was = old.publish.get(label)
        if was is None:
            yield f"{name} is published as {label} ({_access(site)})"
        elif any(getattr(site, field) != getattr(was, field) for field in _ACCESS):
            yield f"{name} is published as {label} ({_access(site)}; before: {_access(was)})"
        plain = was or PublishRecord(auth=site.auth)
        told = dict.fromkeys(_ACCESS, ("", _text))
        about = f"{name}: the site {label}"
        yield from _record(about, plain, site, told, is_new=was is None or is_new)
    for label in old.publish.keys() - new.publish:
        yield f"{name} is no longer published as {label}"


def _access(site: PublishRecord) -> str:
    """Return who may open a site, and which paths of it."""
    words = [_AUTH[site.auth]]
    if site.open:
        words.append(f"without it, every device on the LAN reads {_text(site.open)}")
    if site.plain:
        words.append("also without HTTPS")
    words.append(f"only {_text(site.paths)}" if site.paths else "all paths")
    if site.closed:
        words.append(f"except {_text(site.closed)}")
    return "; ".join(words)


def _aliases(before: Catalogue, after: Catalogue) -> Iterator[str]:
    in_cloud = {
        name
        for catalogue in (before, after)
        for name, model in catalogue.models.items()
        if (provider := catalogue.providers.get(model.provider)) and provider.host
    }

    def members(value: tuple[str, ...]) -> str:
        named = [f"{one} (in the cloud)" if one in in_cloud else one for one in value]
        return _joined(named)

    for name, new in after.aliases.items():
        old, about = before.aliases.get(name), f"the alias {name}"
        if old is None:
            yield f"{about} is new"
        plain = old or AliasRecord(members=())
        says = {**_ALIAS, "members": ("sends requests to {}", members)}
        yield from _record(about, plain, new, says, is_new=old is None)
    yield from (f"the alias {name} is gone" for name in before.aliases.keys() - after.aliases)


def _models(before: Catalogue, after: Catalogue) -> Iterator[str]:
    for name, new in after.models.items():
        old, about = before.models.get(name), f"the model {name}"
        if old is None:
            yield f"{about} is new: {new.id or name} of {new.provider}"
            plain = ModelRecord(provider=new.provider, id=new.id)
        else:
            plain = old
        yield from _record(about, plain, new, _MODEL, is_new=old is None)
    yield from (f"the model {name} is gone" for name in before.models.keys() - after.models)


# The words for a field, and how its value stands in them; without words, other lines tell it.
Says = Mapping[str, tuple[str, Callable[[Any], str]]]


def _record(
    about: str, old: Record, new: Record, says: Says, *, is_new: bool = False
) -> Iterator[str]:
    """Yield a line for each changed field of one record.

    One without words in `says` is told as it is written.
    """
    was, now = dict(_leaves(old)), dict(_leaves(new))
    done = set()
    for path in chain(now, (path for path in was if path not in now)):
        # Not `==`: True is not 1 in a setting.
        if repr(was.get(path)) == repr(now.get(path)) or path[0] in done:
            continue
        if path[0] in says:
            done.add(path[0])
            words, say = says[path[0]]
            value, before = say(getattr(new, path[0])), say(getattr(old, path[0]))
        else:
            words = "has {}"
            field = ".".join(map(_text, path))
            value, before = f"{field}: {_text(now.get(path))}", _text(was.get(path))
        if words:
            yield f"{about} {words.format(value)}" + ("" if is_new else f" (before: {before})")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value in a record, with the names that lead to it."""
    if is_dataclass(value):
        for item in fields(value):
            inner = getattr(value, item.name)
            if item.name not in HARMLESS and inner is not None:
                yield from _leaves(inner, (*path, item.name))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            # Sites have lines of their own.
            if not isinstance(inner, PublishRecord):
                yield from _leaves(inner, (*path, str(name)))
    else:
        yield path, value


def _text(value: Any) -> str:
    """Return a value as a person reads it in YAML; what could imitate words of ours is quoted."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return _joined(f"{_text(name)}: {_text(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return _joined(map(_text, value))
    return _NOTHING if value is None else json.dumps(value, default=str)


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts) or _NOTHING


def _data(folders: tuple[DataRecord, ...]) -> str:
    kept = [
        f"{one.path} ({'not in backups' if one.copy == 'none' else f'in backups as {one.copy}'}"
        + (f", the machine's {one.from_folder})" if one.from_folder else ")")
        for one in folders
    ]
    return _joined(kept)


def _price(price: PriceRecord | None) -> str:
    if price is None:
        return "nothing"
    return f"{price.input_eur:g} EUR and {price.output_eur:g} EUR for a million tokens"


def _ports(ports: Mapping[int, tuple[str, ...]]) -> str:
    return _joined(f"{port} to {_text(callers)}" for port, callers in ports.items())


def _either(yes: str, no: str) -> Callable[[Any], str]:
    return lambda value: yes if value else no


_SERVICE: Says = {
    "enabled": ("is turned {}", _either("on", "off")),
    "present": ("is {}", _either("there", "removed with every trace but data")),
    "role": ("runs the role {}", _text),
    "runtime": ("runs by {}", _text),
    "url": ("is the server at {}: requests of the house go there", _text),
    "image": ("is made from the image {}", _text),
    "needs": ("may call {}", _text),
    "uses": ("may call {}, where they are there", _text),
    "egress": ("may connect to {} on the internet", _text),
    "publish_tcp": ("opens ports of this machine: {}", _ports),
    "paths": ("answers other services at {}", lambda value: _text(value or "every path")),
    "packages": ("gets the Debian packages {}", _text),
    "sources": ("gets the downloads {}", _text),
    "programs": ("sees the programs {}", _text),
    "secrets": ("gets the secrets {}", _text),
    "offers": ("serves the house's {}", _text),
    "gpu": ("uses the graphics card: {}", _text),
    "data": ("keeps {}", _data),
    "scrapes": ("{} the figures of all others", _either("reads", "does not read")),
}
_ALIAS: Says = {"cloud": ("{}", _either("may leave the house, to the cloud", "stays in the house"))}
_MODEL: Says = {
    "provider": ("is served by {}", _text),
    "id": ("is what its provider calls {}", _text),
    "download": ("is downloaded: {}", _text),
    "price": ("costs {}, as the limit of agents counts it", _price),
}
