"""The fields of every record in the inventory; docs/configuration.md is generated from this file.

A check of one value belongs here, a check that needs a second record belongs into `rules`.
Unknown fields are rejected everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter

from hearth.catalogue import naming, values
from hearth.catalogue.values import Form, address, network, word_or_list

_ADDRESS = Form("an IPv4 address, such as `10.140.30.10`", address)
Address = Annotated[str, _ADDRESS]
AutoAddress = Annotated[
    str, Form("`auto` or an IPv4 address", lambda text: text if text == "auto" else address(text))
]
AutoAddresses = Annotated[
    str | tuple[str, ...],
    word_or_list(
        "auto", "is neither auto nor a list of addresses; write e.g. [9.9.9.9]", _ADDRESS.checked
    ),
    Field(description="`auto` or a list of IPv4 addresses"),
]
Network = Annotated[str, Form("an IPv4 range, such as `10.140.30.0/24`", network)]
Callers = Annotated[
    str,
    Form(
        "an IPv4 address or range, such as `192.168.1.20` or `192.168.1.0/24`",
        lambda text: network(text) if "/" in text else address(text),
    ),
]
Domain = Annotated[
    str,
    AfterValidator(values.domain),
    Field(description="a domain, such as `lan` or `home.arpa`"),
]
Host = Annotated[str, Form("a host name, such as `example.org`", naming.HOST.pattern)]
Destination = Annotated[
    str,
    Form("a host name, such as `example.org` or `mail.example.org:587`", values.destination),
]
Destinations = Annotated[
    tuple[Destination, ...],
    BeforeValidator(values.destinations),
    Field(
        description="`any`, or a list of host names such as `example.org` or `mail.example.org:587`"
    ),
]
Url = Annotated[
    str,
    Form(
        "a URL, such as `http://192.168.1.20:11434`",
        r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[^\s?#]*)?",
    ),
    AfterValidator(lambda text: text.rstrip("/")),
]
Location = Annotated[
    str, Form("an `https://` URL, or the path of a local file", r"https://[^\s/]+/\S+|/\S+")
]
Prefix = Annotated[
    str,
    Form("the start of a URL or a folder, ending in `/`", r"(https?://[^\s/]+|)/(\S*/)?"),
]
Reach = Annotated[
    str, Form("`local` or `ssh://USER@HOST`", r"local|ssh://([\w.-]+@)?[\w.-]+(:\d+)?")
]
Port = Annotated[int, Field(ge=1, le=65535, description="a port from 1 to 65535")]
PublishedPort = Annotated[int, BeforeValidator(values.published_port)]
Seconds = Annotated[float, Field(gt=0, description="seconds")]
Count = Annotated[int, Field(ge=1, description="a whole number of at least 1")]
Amount = Annotated[float, Field(gt=0, description="a number above 0")]
Euros = Annotated[float, Field(ge=0, description="a number of at least 0")]
Folder = Annotated[
    str,
    Form("an absolute folder, such as `/var/lib/name`", r"(?!(.*/)?\.\.(/|$))/+[^/].*"),
    AfterValidator(lambda text: text.rstrip("/")),
]
Route = Annotated[
    str, Form("a URL path, which starts with `/`, with `*` only at its end", r"/[^\s*]*\*?")
]
Policy = Annotated[
    str, AfterValidator(values.policy), Field(description="a Content-Security-Policy")
]
Sentence = Annotated[
    str, Field(min_length=1, description="a sentence", examples=["One sentence for people."])
]
Size = Annotated[str, Form("a size, such as `3.4GB` or `8GiB`", naming.SIZE.pattern)]
Memory = Annotated[
    str,
    Form(
        "a size such as `8GiB`, or a percentage of the machine's memory such as `60%`",
        rf"(100|[1-9]\d?)%|{naming.SIZE.pattern}",
    ),
]
TimeOfDay = Annotated[
    str | None, Form("`HH:MM`, such as `03:30`, or `off`", r"([01]\d|2[0-3]):[0-5]\d", none="off")
]
Recipient = Annotated[
    str, AfterValidator(values.recipient), Field(description="an age recipient, `age1…`")
]
Image = Annotated[str, Form("system and release, such as `debian/13`", "[a-z]+/[a-z0-9.]+")]
Package = Annotated[str, Form("the name of a Debian package", "[a-z0-9][a-z0-9+.-]+")]
Program = Annotated[str, Form("the name of a folder, such as `name_files`", naming.PROGRAM.pattern)]
Version = Annotated[str, Form("a version, such as `1.2.3`", "([0-9]+:)?[0-9][A-Za-z0-9.+~-]*")]
Sha256 = Annotated[
    str | None, Form("64 hexadecimal digits, or `unverified`", "[0-9a-f]{64}", none="unverified")
]
Digest = Annotated[
    str | None,
    Form(
        "`sha256:` and 64 hexadecimal digits, or `unverified`",
        "sha256:[0-9a-f]{64}",
        none="unverified",
    ),
]
Enabled = Annotated[Literal[True, False, "auto"], Field(description="`true`, `false` or `auto`")]
AllOrNames = Annotated[
    str | tuple[str, ...],
    word_or_list("all", "is neither all nor a list of names; write e.g. [fast, coder]"),
    Field(description="`all`, or a list of aliases and models"),
]
AllOrServices = Annotated[
    str | tuple[str, ...],
    word_or_list("all", "is neither all nor a list of services; write e.g. [litellm]"),
    Field(description="`all`, or a list of services and parts"),
]
Capability = Literal["tools", "thinking", "vision"]
Auth = Literal["own", "key", "house", "lan"]
SecretKind = Literal["random", "given"]
Offer = Literal[
    "models",
    "chat",
    "pipelines",
    "agents",
    "speech",
    "speech_stream",
    "transcription",
    "loaded_models",
    "calls",
    "fetch",
    "search",
]
FreeVerb = Literal[
    "service_status",
    "service_logs",
    "metrics",
    "vram_status",
    "list_local_models",
    "inventory_file",
    "http_probe",
    "comfyui_status",
    "web_fetch",
    "web_search",
    "approval_status",
]
SandboxVerb = Literal[
    "sandbox_create",
    "sandbox_list",
    "sandbox_delete",
    "sandbox_run",
    "sandbox_read_file",
    "sandbox_write_file",
    "sandbox_systemctl",
    "sandbox_probe",
    "sandbox_diff",
    "run_code",
]
ChangeVerb = Literal["restart", "start", "stop", "unload_model", "propose"]
Verb = Literal[FreeVerb, SandboxVerb, ChangeVerb]
VerbKind = Literal["free", "sandbox", "change"]
Verbs = Annotated[
    tuple[Literal[Verb, VerbKind], ...],
    Field(description="a list of verbs, and of their kinds `free`, `sandbox` and `change`"),
]
VERBS: Mapping[str, tuple[str, ...]] = {
    "free": get_args(FreeVerb),
    "sandbox": get_args(SandboxVerb),
    "change": get_args(ChangeVerb),
}

# Each costs a model time before its first token; with sixteen that was two seconds.
MOST_TOOLS = 8

# Made once for each type, because that takes longer than its use.
adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


class Record:
    """The base of all records: no unknown field, no conversion, no change after reading."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRecord(Record):
    """The nightly backup of a house."""

    recipient: Recipient | None = None
    """The public key that backups are encrypted to; without one, none are made."""
    to: Folder = "/var/backups/hearth"
    """The folder for archives."""
    at: TimeOfDay = "03:30"
    """When the nightly backup starts."""
    keep: Count = 14
    """How many archives are kept; older ones are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecord(Record):
    """The Debian machine that runs the instances; `auto` is detected on it."""

    lan_interface: str = "auto"
    """The network interface of the LAN, such as `enp3s0`."""
    lan_address: AutoAddress = "auto"
    """The machine's address on the LAN."""
    instances: Network = "10.140.30.0/24"
    """An otherwise unused range; its first address is the resolver's."""
    domain: Domain = "lan"
    """The domain of all names of the house."""
    upstream_dns: AutoAddresses = "auto"
    """The resolvers that answer for all other names."""
    reach: Reach = "local"
    """How Hearth connects to the machine: locally or by ssh."""
    sleep: Literal["masked", "allowed"] = "masked"
    """Whether the machine may suspend."""
    host_firewall: Literal["open", "close"] = "open"
    """`close` rejects connections to this machine, except to the house and ssh."""
    backup: BackupRecord = BackupRecord()
    """The nightly backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord(Record):
    """A request that only a working service answers correctly."""

    path: Annotated[Route, Field(examples=["/health"])]
    """The path of the request."""
    contains: Annotated[str, Field(min_length=1, examples=["what a good answer has in it"])]
    """Text that the response must contain."""
    within_s: Seconds = 5
    """How long one response may take."""
    ready_s: Seconds = 60
    """How long the service may take from its start to its first correct response."""
    every_s: Annotated[float, Field(ge=0, le=60)] = 0
    """How often the watcher requests it; by default at each of its looks."""
    port: Port | None = None
    """For a part: another port than its own; it is on the machine's loopback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRecord(Record):
    """One name on the LAN, served by Caddy with HTTPS."""

    auth: Annotated[Auth, Field(examples=["key"])]
    """Who may call it: `own` (the program's own login), `key` (a consumer's key), `house` (the
    house's password or a consumer's key) or `lan` (every device on the LAN)."""
    title: str | None = None
    """What people call it, in a word or two: its tile on the house's page; without it, none."""
    paths: tuple[Route, ...] = ()
    """The only paths that are published; without any, all are."""
    uploads: Mapping[Route, Size] = field(default_factory=dict)
    """The largest request to each of these paths; to others, 10 MiB behind the house's login, 1 MiB
    after a sign-in to the program (`auth: own`), and otherwise 10 kB."""
    session: Route | None = None
    """For `auth: own`: a path of the program that succeeds only for a signed-in client. Requests
    with a body of 10 kB or more are forwarded only if it does."""
    sign_in: tuple[Route, ...] = ()
    """For `auth: own`: the paths that check a password. Each device may try seven times at once and
    then every 45 s."""
    open: tuple[Route, ...] = ()
    """For `auth: key` and `auth: house`: paths that every device on the LAN may read without a key
    or login."""
    closed: tuple[Route, ...] = ()
    """Paths that are not published, although `paths` would include them."""
    user_files: tuple[Route, ...] = ()
    """Paths that return people's files. Scripts and pages among them are sent as plain text."""
    routes: Mapping[Route, str] = field(default_factory=dict)
    """For `auth: house`: paths that another service or part answers, where it is there."""
    policy: Policy | None = None
    """The Content-Security-Policy of its pages, where they send none themselves."""
    plain: bool = False
    """Serve it without HTTPS as well, under its name and at the machine's address. Only for
    `auth: lan`, and for one site of the house."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsRecord(Record):
    """Resource limits of one instance."""

    memory: Memory | None = None
    """Memory; all limits together must fit into the machine."""
    cpus: Amount | None = None
    """Processors."""
    tasks: Count | None = None
    """Processes and threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRecord(Record):
    """A folder that outlives the instance."""

    path: Annotated[Folder, Field(examples=["/var/lib/name"])]
    """The folder in the instance."""
    copy: Annotated[Literal["sqlite", "files", "none"], Field(examples=["files"])]
    """How a backup copies it: `none` is for what can be downloaded again."""
    from_folder: Folder | None = None
    """A folder of the machine to use instead of a volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord(Record):
    """A program that runs on the machine itself."""

    summary: Sentence
    """What it does, for people."""
    role: str | None = None
    """The Ansible role; by default the one of this name. Two services may share one."""
    port: Port | None = None
    """The port it listens on; required for a service, unless external."""
    health: HealthRecord | None = None
    """Its health check at its port, or else at its `metrics_port`; required for a service."""
    metrics_port: Port | None = None
    """The port of its metrics; a service's may be the same as `port`."""
    needs: tuple[str, ...] = ()
    """Services it calls, and parts with `serves`; services start before a service. `a | b` means
    the first one that is enabled. A part does without a service that is off."""
    counts: bool = False
    """Whether a part's port answers `/status` with `requests`, its counts by outcome."""
    probes: bool = False
    """Whether it opens each published name for the scraper, like Prometheus' blackbox exporter."""
    serves: bool = False
    """Whether services may need a part. It then listens at the resolver's address, checks keys
    itself, and is there only if a service needs it or a consumer's key opens it."""
    resolves: bool = False
    """Whether a part resolves the house's names; its health is that it answers such a query."""
    writes: str | None = None
    """A file that a part writes every few seconds; its health is that the file is new."""
    as_root: bool = False
    """Whether a part runs as root, since it looks at all others; by default it has its own user."""
    contained: bool = True
    """Whether it also runs as a container; not what looks at the machine itself, and what needs
    that."""
    packages: tuple[Package, ...] = ()
    """Debian packages: in the instance, or for a part on the machine and in its container."""
    publish: Mapping[str, PublishRecord] = field(default_factory=dict)
    """Its names on the LAN."""
    secrets: Mapping[str, SecretKind] = field(default_factory=dict)
    """Its secrets: `random` ones are generated, `given` ones are set by hand."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Variables of its role by their names, which the role's README lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord(PartRecord):
    """One program in an instance of its own."""

    enabled: Enabled = True
    """`auto` enables it only where its GPU is present."""
    present: bool = True
    """`false` removes the service and every trace of it, but keeps its data."""
    on: str | None = None
    """The machine; by default the only one."""
    runtime: Literal["incus", "podman", "external"] = "incus"
    """What runs the instance; `external` is a server that Hearth does not manage."""
    url: Url | None = None
    """Where an external service listens; not for others."""
    image: Image = "debian/13"
    """The base image of the instance."""
    sources: tuple[str, ...] = ()
    """Downloads it needs, by their names in `sources.lock.yml`."""
    programs: tuple[Program, ...] = ()
    """Program folders that its instance sees, besides those named like the service, its `sources`
    and its models. It sees no others."""
    address: Address | None = None
    """The instance's address, inside the machine's range; required unless external."""
    paths: tuple[Route, ...] = ()
    """The only paths that other services may call, enforced by a proxy in the instance."""
    egress: Destinations = ()
    """Hosts on the internet that it may connect to while it runs, on port 443 or another:
    `mail.example.org:587`. `any` is every public address on ports 80 and 443, for one service
    without needs, secrets and names on the LAN."""
    uses: tuple[str, ...] = ()
    """Services and parts that it calls if they are there, and does without otherwise."""
    publish_tcp: Mapping[PublishedPort, tuple[Callers, ...]] = field(default_factory=dict)
    """Ports forwarded from the LAN, each with the addresses that may connect."""
    health: Annotated[HealthRecord, Field(examples=["{path: /health, contains: ok}"])]
    """Its health check."""
    gpu: Literal["none", "auto", "cuda", "vulkan", "software"] = "none"
    """The accelerator it uses; one that is named and missing is an error, `auto` uses the CPU."""
    limits: LimitsRecord = LimitsRecord()
    """Resource limits."""
    data: tuple[DataRecord, ...] = ()
    """Folders that outlive the instance."""
    admin_secret: str | None = None
    """The secret with which its first account signs in; `hearth up` shows its name."""
    scrapes: bool = False
    """Whether it reads the metrics of all services and parts; at most one does."""
    offers: tuple[Offer, ...] = ()
    """Interfaces it provides: `models` (all models by one OpenAI API; at most one service), `chat`
    (a chat UI), `pipelines` (programs that appear as models), `agents` (agents that appear as
    models), `speech` (OpenAI's speech endpoint), `speech_stream` (Hearth's streaming speech
    endpoints), `transcription`, `loaded_models` (Ollama's list of the models in memory), `fetch`
    (public web pages) or `search` (SearXNG's API)."""

    @property
    def runs(self) -> bool:
        """Whether it is enabled, where its GPU is present."""
        return self.present and bool(self.enabled)

    @property
    def here(self) -> bool:
        """Whether it has an instance in this house."""
        return self.runtime != "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord(Record):
    """A person, device or program that gets a key."""

    summary: Sentence
    """Who it is, for people."""
    services: Annotated[AllOrServices, Field(examples=["[litellm]"])]
    """What the key opens; `all` is each service that is published for keys, and no part."""
    models: AllOrNames = "all"
    """The models that the key opens."""
    verbs: Verbs = ()
    """The broker's verbs (docs/broker.md) that the key opens; by default none."""

    @property
    def named(self) -> tuple[str, ...]:
        """The services and parts that it names: none if it opens all that are published."""
        return () if isinstance(self.services, str) else self.services


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRecord(Record):
    """A server of models: a service of this house, or a host on the internet with a key."""

    service: str | None = None
    """The service of this house."""
    host: Host | None = None
    """The host on the internet."""
    secret: str | None = None
    """The name of its key."""
    litellm: str | None = None
    """LiteLLM's name for the provider; by default the provider's own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRecord(Record):
    """What a model in the cloud costs."""

    input_eur: Annotated[Euros, Field(examples=["1"])]
    """A million tokens that it reads, in euros."""
    output_eur: Annotated[Euros, Field(examples=["5"])]
    """A million tokens that it writes, in euros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord(Record):
    """One model that can be called by its name."""

    provider: Annotated[str, Field(examples=["ollama"])]
    """Who serves it."""
    summary: str = ""
    """What it is good for, for people."""
    id: str | None = None
    """The provider's name for the model; by default the same."""
    download: Size | None = None
    """The size of its download; required unless it is in the cloud."""
    memory: Size | None = None
    """The memory it takes while loaded; by default 1.2 times the download."""
    kind: Literal["chat", "embed", "transcribe"] = "chat"
    """What it does."""
    capabilities: tuple[Capability, ...] = ()
    """What a chat model can do besides text: call tools (`tools`), think before it answers
    (`thinking`), and see pictures (`vision`). For Ollama, as `/api/tags` lists them."""
    always_thinks: bool = False
    """Whether its thinking cannot be turned off; the least is then `low`."""
    context: Count | None = None
    """How many tokens a conversation and its answer may have together; by default 8192 in this
    house, and unchecked in the cloud. Ollama loads all its models with the largest."""
    price: PriceRecord | None = None
    """What it costs in the cloud, for the limit of agents; required there, 0 and 0 if free."""
    files: tuple[str, ...] = ()
    """The sources of its files, for `kind: transcribe`."""
    gpu: Literal["cuda", "vulkan"] | None = None
    """The GPU without which it is too slow: other machines neither download nor use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRecord(Record):
    """A model name with an ordered list of models behind it."""

    members: Annotated[tuple[str, ...], Field(min_length=1, examples=['["qwen3.5:4b"]'])]
    """Models, tried in this order until one answers."""
    summary: str = ""
    """What it is good for, for people."""
    cloud: bool = False
    """Whether requests may leave the house."""
    first_token_timeout_s: Seconds = 60
    """How long one member may take to its first token, including loading."""
    timeout_s: Seconds = 300
    """How long the whole response may take."""
    thinking: Literal["off", "low", "medium", "high", "auto"] = "auto"
    """How much its members think before they answer, unless a request says so itself; `auto` is
    each model's own default."""
    only_with: Annotated[str | None, Field(examples=["voice"])] = None
    """The service that it is for: while that is off, the alias is not offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord(Record):
    """One agent of the team."""

    alias: Annotated[str, Field(examples=["fast"])]
    """The model that it runs on; with tools or specialists, one whose members call tools."""
    instructions: Annotated[
        str, Field(min_length=1, description="a text", examples=["Answer briefly."])
    ]
    """What it is told before each task."""
    title: str | None = None
    """What people call it; by default its name."""
    summary: str = ""
    """What it is good for, for people and for the agents that may call it."""
    specialists: tuple[str, ...] = ()
    """Agents that it may give work to; those have no specialists themselves."""
    tools: Annotated[
        tuple[Verb, ...],
        Field(max_length=MOST_TOOLS, description=f"a list of at most {MOST_TOOLS} verbs"),
    ] = ()
    """The broker's verbs (docs/broker.md) that it may call. Each costs time in every turn."""
    words: tuple[str, ...] = ()
    """Words of a task that is meant for it; used only where no model can call tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimitsRecord(Record):
    """Where a run of agents ends, whatever they want."""

    turns: Count = 40
    """Answers of models."""
    seconds: Seconds = 900
    """How long a run may take, without the time in which it waits for a person."""
    tool_calls: Count = 60
    """Calls of tools."""
    tokens: Count = 200_000
    """Tokens read and written."""
    cloud_eur: Euros = 0.5
    """What models in the cloud may cost, in euros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(Record):
    """One download."""

    version: Annotated[str, Field(examples=['"1.2.3"'])]
    """Its version."""
    url: Annotated[Location, Field(examples=["https://example.org/name.tar"])]
    """Where it is."""
    sha256: Sha256 = None
    """Its digest; without one, the first download is trusted and recorded in `local/`."""
    size: Count | None = None
    """Its size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumVersionRecord(Record):
    """The oldest version of a program that Hearth accepts."""

    kind: Annotated[Literal["source", "python", "debian"], Field(examples=["source"])]
    """Where its name comes from: `sources.lock.yml`, Python packages or Debian packages."""
    oldest: Version | None = None
    """The oldest version; without one, any version is accepted."""
    reason: Sentence
    """Why older versions are rejected."""
