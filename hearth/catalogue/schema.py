"""The shape of every record in the inventory, field by field.

What a single value can say about itself is checked here; what needs a second record
stands in `rules`. Unknown fields are refused everywhere.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from hearth.catalogue import values

Auth = Literal["own", "key", "house", "lan"]
SecretKind = Literal["random", "given"]
Offer = Literal["models", "chat", "pipelines", "speech", "speech_stream", "transcription"]


Address = Annotated[str, AfterValidator(values.address)]
AutoAddress = Annotated[str, AfterValidator(values.auto_or_address)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0)]
Folder = Annotated[str, AfterValidator(values.absolute)]
Route = Annotated[str, AfterValidator(values.route)]
Host = Annotated[str, AfterValidator(values.host)]
Sentence = Annotated[str, Field(min_length=1, examples=["One sentence for people."])]
Size = Annotated[str, AfterValidator(values.size)]


class Record(BaseModel):
    """What all records share: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Backup(Record):
    """Who can open a house's backups, where they go, and how many stay; `at: off` for no timer."""

    recipient: Annotated[str, AfterValidator(values.recipient)] | None = None
    to: Folder = "/var/backups/hearth"
    at: Annotated[str, AfterValidator(values.time_of_day)] = "03:30"
    keep: Annotated[int, Field(ge=1)] = 14


class Machine(Record):
    """A Debian computer that carries instances."""

    lan_interface: str = "auto"
    lan_address: AutoAddress = "auto"
    instances: Annotated[str, AfterValidator(values.network)] = "10.140.30.0/24"
    domain: Annotated[str, AfterValidator(values.domain)] = "lan"
    upstream_dns: Annotated[Any, PlainValidator(values.upstream)] = "auto"
    reach: Annotated[str, AfterValidator(values.reach)] = "local"
    sleep: Literal["masked", "allowed"] = "masked"
    host_firewall: Literal["open", "close"] = "open"
    backup: Backup = Backup()


class Health(Record):
    """A question whose right answer only the working service can give."""

    path: Annotated[Route, Field(examples=["/health"])]
    contains: Annotated[str, Field(min_length=1, examples=["what a good answer has in it"])]
    within_s: Seconds = 5
    ready_s: Seconds = 60


class Publish(Record):
    """One name on the LAN: who may come in, to which paths, and files instead of a port.

    Requests are held until they are whole, up to 64 MB; with `uploads`, larger ones are passed on
    as they come, up to that size. `policy` is the Content-Security-Policy of its pages: what they
    may load, and from where. With `plain` it answers without HTTPS, too, by its name and at the
    machine's bare address: for who has nothing of the house's yet.
    """

    auth: Annotated[Auth, Field(examples=["key"])]
    paths: list[Route] = []
    uploads: Size | None = None
    policy: Annotated[str, AfterValidator(values.policy)] | None = None
    files: Folder | None = None
    plain: bool = False


class Limits(Record):
    """Bounds of one instance; memory is a size or a share of the machine's."""

    memory: Annotated[str, AfterValidator(values.memory_limit)] | None = None
    cpus: Annotated[float, Field(gt=0)] | None = None
    tasks: Annotated[int, Field(gt=0)] | None = None


class Data(Record):
    """A folder that outlives the instance, and how a backup takes it."""

    path: Annotated[Folder, Field(examples=["/var/lib/name"])]
    copy_as: Annotated[Literal["sqlite", "files", "none"], Field(alias="copy", examples=["files"])]
    from_folder: Annotated[Folder | None, Field(alias="from")] = None


class Service(Record):
    """One program with one record; most need eight fields."""

    summary: Sentence
    role: str | None = None
    enabled: Annotated[Any, PlainValidator(values.enabled)] = True
    present: bool = True
    on: str | None = None
    runtime: Literal["incus", "podman", "external"] = "incus"
    url: Annotated[str, AfterValidator(values.http_url)] | None = None
    image: Annotated[str, AfterValidator(values.image)] = "debian/13"
    packages: list[Annotated[str, AfterValidator(values.package)]] = []
    sources: list[str] = []
    address: Address | None = None
    port: Port | None = None
    metrics_port: Port | None = None
    paths: list[Route] = []
    needs: list[str] = []
    egress: list[Host] = []
    publish: dict[str, Publish] = {}
    publish_tcp: dict[str, list[Annotated[str, AfterValidator(values.callers)]]] = {}
    health: Annotated[Health, Field(examples=["{path: /health, contains: ok}"])]
    gpu: Literal["none", "auto", "cuda", "vulkan", "software"] = "none"
    limits: Limits = Limits()
    data: list[Data] = []
    secrets: dict[str, SecretKind] = {}
    scrapes: bool = False
    offers: list[Offer] = []


class Part(Record):
    """What runs on the machine itself."""

    summary: Sentence
    role: str | None = None
    port: Port | None = None
    metrics_port: Port | None = None
    publish: dict[str, Publish] = {}
    secrets: dict[str, SecretKind] = {}


class Consumer(Record):
    """Who holds a key, and what it opens."""

    summary: Sentence
    services: Annotated[list[str], Field(examples=["[litellm]"])]
    models: Annotated[Any, PlainValidator(values.all_or_names)] = "all"


class Provider(Record):
    """Who serves models: a service of this house, or a host with a key."""

    service: str | None = None
    host: Host | None = None
    secret: str | None = None
    litellm: str | None = None


class Model(Record):
    """One model that can be called by its name."""

    provider: Annotated[str, Field(examples=["ollama"])]
    summary: str = ""
    id: str | None = None
    download: Size | None = None
    memory: Size | None = None
    kind: Literal["chat", "embed", "vision", "transcribe"] = "chat"
    files: list[str] = []


class Alias(Record):
    """A name with an ordered list of models behind it, and its deadlines."""

    members: Annotated[list[str], Field(min_length=1, examples=['["qwen3.5:4b"]'])]
    summary: str = ""
    cloud: bool = False
    first_token_timeout_s: Seconds = 60
    timeout_s: Seconds = 300


class Source(Record):
    """One download: what, from where, and how it is recognised."""

    version: Annotated[str, Field(examples=['"1.2.3"'])]
    url: Annotated[
        str, AfterValidator(values.source), Field(examples=["https://example.org/name.tar"])
    ]
    sha256: Annotated[str, AfterValidator(values.sha256)] = "unverified"
    size: Annotated[int, Field(gt=0)] | None = None


class MinimumVersion(Record):
    """The oldest version of a program that will do, and why; its name is the one it has there."""

    kind: Annotated[Literal["source", "python", "debian"], Field(examples=["source"])]
    oldest: Annotated[str, AfterValidator(values.version)] | None = None
    reason: Sentence


Manifest = Annotated[str, AfterValidator(values.manifest)]
Mirror = Annotated[str, AfterValidator(values.prefix)]
