"""The house as every other program sees it: all names, addresses and flows derived once.

Each type adds what is derived to its record; fields with another meaning are written here again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from hearth.catalogue import schema
from hearth.catalogue.schema import adapter

T = TypeVar("T")
# Enough for a long chat, and little beside the weights in memory.
DEFAULT_CONTEXT_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(schema.MachineRecord):
    """The computer that carries the house; `auto` is worked out on it.

    Without a recipient or a time, its backup has no `at`.
    """

    name: str
    resolver_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(schema.DataRecord):
    """A folder that outlives its instance; `from_folder` of the machine replaces a volume."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(schema.PublishRecord):
    """One name on the LAN; `upstream` (host:port) answers it.

    A `plain` one answers without HTTPS as well, and at the machine's bare address. `routed` has the
    URL that answers each path instead. A program that `checks_keys` gets them. `shared` are the
    sites of other services with the same name; each answers its own paths.
    """

    name: str
    fqdn: str
    uploads_bytes: Mapping[str, int]
    service: str
    upstream: str | None
    upstream_url: str | None
    checks_keys: bool = False
    routed: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[Site, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(schema.ServiceRecord):
    """One program in its instance; an external one has only url, health and publish.

    `needs` has the names of services that are on, with those that it `uses`, and `calls` those of
    parts; `programs` are all folders that its instance sees. One with egress to every public
    address goes `anywhere`; House.egress has only names. One in the `background` is not needed for
    the first answer of a new house. Behind a sidecar proxy its program listens at `inside`.
    """

    name: str
    role: str
    on: str
    instance: str
    unit: str
    host_name: str
    url: str
    anywhere: bool = False
    sites: tuple[Site, ...]
    volumes: tuple[Volume, ...]
    weights: tuple[Weights, ...] = ()
    start_order: int
    calls: tuple[str, ...] = ()
    background: bool = False
    inside: str = "127.0.0.1"

    @property
    def health_url(self) -> str:
        """Where its health is, without the path."""
        return self.url

    @property
    def system(self) -> str | None:
        """The instance whose systemd runs its unit; None: the machine's own does."""
        return self.instance if self.runtime == "incus" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(schema.PartRecord):
    """What runs on the machine itself; `url` is on the machine's loopback.

    One that `serves` is at the resolver's address instead, which instances reach. Metrics are
    there, too. `health_url` is where its health is, without the path; that of one that resolves
    names is `dns://SERVER/NAME`. `needs` has the names of services that are on; the firewall opens
    them to the user named like the unit.
    """

    name: str
    role: str
    unit: str
    address: str | None = None
    url: str | None
    health_url: str | None = None
    sites: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """One service may (or, in `forbidden`, must not) open a TCP connection to another or a part."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(schema.ModelRecord):
    """One model; `usable` says whether a request could be served, `reason` why not.

    `context` is in tokens, None if unchecked. A `local` model is served by a service of this
    house. If it is also `pulled`, that service loads it by itself; if it has a `program`, the
    machine hands it in under that name.
    """

    name: str
    id: str
    litellm: str
    local: bool
    pulled: bool
    program: str | None = None
    service: str | None = None
    url: str | None = None
    host: str | None = None
    secret: str | None = None
    download_bytes: int | None = None
    memory_bytes: int | None = None
    digest: str | None = None
    usable: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias(schema.AliasRecord):
    """A model name with its usable members in order; without any, or without the service that it
    is for, it is not `offered`.

    `dropped` has the members that are not usable, and why; `capabilities` all others have.
    """

    name: str
    kind: str
    capabilities: tuple[str, ...] = ()
    members: tuple[str, ...]
    dropped: Mapping[str, str]
    offered: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent(schema.AgentRecord):
    """One agent of the team, with its title."""

    name: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer(schema.ConsumerRecord):
    """Who holds a key: `models` is a list of names or `all`, `secret` names the key.

    `services` has the names of what it opens, even where the record says `all`.

    One that is a service of this house is `inside`: the reverse proxy rejects its key. `verbs` has
    the names of verbs only.
    """

    name: str
    secret: str
    services: tuple[str, ...]
    inside: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumVersion(schema.MinimumVersionRecord):
    """The oldest version of a program that will do, if any; `kind` says who knows its name."""

    name: str


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
    agents: Mapping[str, Agent]
    agent_limits: schema.AgentLimitsRecord
    consumers: Mapping[str, Consumer]
    secrets: Mapping[str, str]
    sources: Mapping[str, Source]
    minimum_versions: Mapping[str, MinimumVersion]
    mirrors: Mapping[str, str]
    removed: Mapping[str, Service]
    unused_parts: Mapping[str, Part]

    @property
    def default_alias(self) -> Alias | None:
        """The first alias for chats that is offered."""
        return next((a for a in self.aliases.values() if a.offered and a.kind == "chat"), None)

    def offering(self, capability: str) -> list[Service]:
        """Return the services with a capability, such as `models` or `chat`."""
        return [service for service in self.services.values() if capability in service.offers]

    @property
    def chat_sites(self) -> dict[str, str]:
        """The name on the LAN of each chat UI, by its service."""
        chats = self.offering("chat")
        return {service.name: site.fqdn for service in chats for site in service.sites[:1]}

    def as_vars(self) -> dict[str, Any]:
        """Return the house as plain JSON data: dicts with text keys, lists, texts, numbers."""
        return dict(adapter(House).dump_python(self, mode="json"))


def from_vars(kind: type[T], plain: Mapping[str, Any]) -> T:
    """Return the house, or one value of it such as a Service, from its part of `as_vars`."""
    value: T = adapter(kind).validate_python(_exact(plain), strict=False)
    return value


def values_of(record: schema.Record) -> dict[str, Any]:
    """Return the fields of a record, from which a derived value is made."""
    return {item.name: getattr(record, item.name) for item in fields(record)}  # type: ignore[arg-type]


def _exact(value: Any) -> Any:
    # Ansible's containers make their items when they are read; pydantic would read past that.
    if isinstance(value, Mapping):
        return {key: _exact(item) for key, item in value.items()}
    return [_exact(item) for item in value] if isinstance(value, list) else value
