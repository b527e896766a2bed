"""The house as every other program sees it: all names, addresses and flows derived once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from hearth.catalogue.schema import HealthRecord, LimitsRecord

T = TypeVar("T")
# Made once for each kind, because that takes longer than its use.
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@dataclass(frozen=True, slots=True)
class Backup:
    """Who opens backups, where they go, at what time of day (None: no timer), how many stay."""

    recipient: str | None
    to: str
    at: str | None
    keep: int


@dataclass(frozen=True, slots=True)
class Machine:
    """The computer that carries the house; `auto` is worked out on it."""

    name: str
    lan_interface: str
    lan_address: str
    instances: str
    resolver_address: str
    domain: str
    upstream_dns: str | tuple[str, ...]
    reach: str
    sleep: str
    host_firewall: str
    backup: Backup


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder that outlives its instance; `from_folder` of the machine replaces a volume."""

    name: str
    path: str
    copy: str
    from_folder: str | None


@dataclass(frozen=True, slots=True)
class Site:
    """One name on the LAN; either `upstream` (host:port) or `files` (a folder) answers it.

    A `plain` one answers without HTTPS as well, and at the machine's bare address.
    """

    name: str
    fqdn: str
    auth: str
    paths: tuple[str, ...]
    uploads_bytes: int | None
    policy: str | None
    service: str
    upstream: str | None
    upstream_url: str | None
    files: str | None
    plain: bool


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's files as the machine hands them in; `files` has names and their sources.

    They lie in the program's folder of this name. `wanted` are the members of aliases, in order;
    the others are fetched only where a role asks for one.
    """

    name: str
    program: str
    files: Mapping[str, str]
    wanted: bool


@dataclass(frozen=True, slots=True)
class Service:
    """One program in its instance; an external one has only url, health and publish."""

    name: str
    role: str
    summary: str
    enabled: bool | Literal["auto"]
    on: str
    runtime: str
    instance: str
    unit: str
    host_name: str
    image: str
    packages: tuple[str, ...]
    sources: tuple[str, ...]
    address: str | None
    port: int | None
    metrics_port: int | None
    url: str
    paths: tuple[str, ...]
    needs: tuple[str, ...]
    egress: tuple[str, ...]
    publish: tuple[Site, ...]
    publish_tcp: Mapping[int, tuple[str, ...]]
    health: HealthRecord
    gpu: str
    limits: LimitsRecord
    volumes: tuple[Volume, ...]
    secrets: Mapping[str, str]
    scrapes: bool
    settings: Mapping[str, Any]
    offers: tuple[str, ...]
    weights: tuple[Weights, ...]
    start_order: int
    admin_secret: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What runs on the machine itself; `url` is on the machine's loopback."""

    name: str
    role: str
    summary: str
    unit: str
    url: str | None
    port: int | None
    metrics_port: int | None
    publish: tuple[Site, ...]
    secrets: Mapping[str, str]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Flow:
    """One service may (or, in `forbidden`, must not) open a TCP connection to another."""

    source: str
    target: str
    source_address: str
    target_address: str
    port: int


@dataclass(frozen=True, slots=True)
class Egress:
    """One service may reach one name outside the house on one TCP port."""

    source: str
    source_address: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Model:
    """One model; `usable` says whether a request could be served, `reason` why not.

    A `local` model is served by a service of this house. If it is also `pulled`, that service
    loads it by itself; if it has a `program`, the machine hands it in under that name.
    """

    name: str
    id: str
    summary: str
    kind: str
    provider: str
    litellm: str
    local: bool
    pulled: bool
    program: str | None
    service: str | None
    url: str | None
    host: str | None
    secret: str | None
    download_bytes: int | None
    memory_bytes: int | None
    digest: str | None
    usable: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Alias:
    """A model name with its usable members in order; without any it is not `offered`.

    `dropped` has the members that are not usable, and why.
    """

    name: str
    summary: str
    kind: str
    members: tuple[str, ...]
    dropped: Mapping[str, str]
    cloud: bool
    first_token_timeout_s: float
    timeout_s: float
    offered: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who holds a key: `models` is a list of names or `all`, `secret` names the key."""

    name: str
    summary: str
    services: tuple[str, ...]
    models: str | tuple[str, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class Source:
    """One download, `url` an https address or an absolute path.

    `sha256` is None until it is trusted on first use.
    """

    name: str
    version: str
    url: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class MinimumVersion:
    """The oldest version of a program that will do, if any; `kind` says who knows its name."""

    name: str
    kind: str
    oldest: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class House:
    """Everything one inventory describes."""

    machine: Machine
    services: Mapping[str, Service]
    parts: Mapping[str, Part]
    flows: tuple[Flow, ...]
    forbidden: tuple[Flow, ...]
    egress: tuple[Egress, ...]
    published_ports: tuple[tuple[str, int], ...]
    sites: tuple[Site, ...]
    models: Mapping[str, Model]
    aliases: Mapping[str, Alias]
    consumers: Mapping[str, Consumer]
    secrets: Mapping[str, str]
    sources: Mapping[str, Source]
    minimum_versions: Mapping[str, MinimumVersion]
    mirrors: Mapping[str, str]
    removed: Mapping[str, Service]

    @property
    def default_alias(self) -> Alias | None:
        """The first alias for chats that is offered."""
        return next((a for a in self.aliases.values() if a.offered and a.kind == "chat"), None)

    def offering(self, capability: str) -> list[Service]:
        """Return the services with a capability, such as `models` or `chat`."""
        return [service for service in self.services.values() if capability in service.offers]

    def as_vars(self) -> dict[str, Any]:
        """Return the house as plain JSON data: dicts with text keys, lists, texts, numbers."""
        return dict(_adapter(House).dump_python(self, mode="json"))


def from_vars(kind: type[T], plain: Mapping[str, Any]) -> T:
    """Return the house, or one value of it such as a Service, from its part of `as_vars`."""
    made: T = _adapter(kind).validate_python(_exact(plain))
    return made


def _exact(value: Any) -> Any:
    # Ansible's containers make their items when they are read; pydantic would read past that.
    if isinstance(value, Mapping):
        return {key: _exact(item) for key, item in value.items()}
    return [_exact(item) for item in value] if isinstance(value, list) else value
