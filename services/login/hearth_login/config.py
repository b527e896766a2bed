"""The login's configuration: its sites and consumers, read once at the start."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

AUTHS = ("key", "house", "own", "lan")
TOP = ("domain", "consumers", "sites")


class LoginError(Exception):
    """One line: what is wrong, where, and what to do; it never contains a secret."""


@dataclass(frozen=True, slots=True)
class Site:
    """One published name: its service, and how its clients authenticate.

    `shared` are other services that answer some of its paths.
    """

    service: str
    auth: str
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Config:
    """The house as the login sees it; `consumers` maps a name to the services it may call."""

    domain: str
    consumers: Mapping[str, frozenset[str]]
    sites: Mapping[str, Site]


def load_config(path: Path) -> Config:
    """Read and check the configuration; a `LoginError` names the file and the place."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LoginError(f"{path}: cannot be read ({error.strerror}); is --config right?") from None
    except ValueError as error:
        raise LoginError(f"{path}: is not JSON ({error}); write it again") from None
    top = _mapping(raw, f"{path}: the whole file")
    _only(top, TOP, f"{path}: the whole file")
    return Config(
        domain=_text(top.get("domain"), f"{path}: domain").lower(),
        consumers=_consumers(top.get("consumers"), f"{path}: consumers"),
        sites=_sites(top.get("sites"), f"{path}: sites"),
    )


def _consumers(raw: object, where: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for name, record in _mapping(raw, where).items():
        _name(name, f"{where}.{name}")
        record = _mapping(record, f"{where}.{name}")
        _only(record, ("services",), f"{where}.{name}")
        services = record.get("services")
        if not isinstance(services, list) or not all(isinstance(s, str) for s in services):
            raise LoginError(f"{where}.{name}.services: must be a list of service names")
        found[name] = frozenset(services)
    return MappingProxyType(found)


def _sites(raw: object, where: str) -> Mapping[str, Site]:
    found: dict[str, Site] = {}
    for fqdn, record in _mapping(raw, where).items():
        record = _mapping(record, f"{where}.{fqdn}")
        _only(record, ("service", "auth", "shared"), f"{where}.{fqdn}")
        auth = _text(record.get("auth"), f"{where}.{fqdn}.auth")
        if auth not in AUTHS:
            raise LoginError(f"{where}.{fqdn}.auth: {auth!r} is unknown; write {_either(AUTHS)}")
        shared = record.get("shared", [])
        if not isinstance(shared, list) or not all(isinstance(one, str) for one in shared):
            raise LoginError(f"{where}.{fqdn}.shared: must be a list of service names")
        service = _text(record.get("service"), f"{where}.{fqdn}.service")
        site = Site(service, auth, frozenset(shared))
        if found.setdefault(fqdn.lower(), site) is not site:
            raise LoginError(f"{where}.{fqdn}: is a duplicate; remove one")
    return MappingProxyType(found)


def _mapping(raw: object, where: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise LoginError(f"{where}: must be a mapping {{...}}")
    return raw


def _text(raw: object, where: str) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise LoginError(f"{where}: must be a non-empty text")
    return raw


def _name(name: str, where: str) -> None:
    # The name is written into a header and the log, so it must not contain a line end.
    if not (name.isascii() and name.replace("-", "_").isidentifier()):
        raise LoginError(f"{where}: a name has letters, digits, - and _ only")


def _only(record: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in record:
        if key not in allowed:
            raise LoginError(f"{where}: {key!r} is unknown; write only {_either(allowed)}")


def _either(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]
