"""The shape of every record in the inventory, field by field.

What a single value can say about itself is checked here; what needs a second record
stands in `rules`. Unknown fields are refused everywhere.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from hearth.catalogue import words

Auth = Literal["own", "key", "house", "lan"]
SecretKind = Literal["random", "given"]


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 address; write e.g. 10.140.30.11") from None


def _network(text: str) -> str:
    try:
        return str(ipaddress.IPv4Network(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 range; write e.g. 10.140.30.0/24") from None


def _auto_or_address(text: str) -> str:
    return text if text == "auto" else _address(text)


def _callers(text: str) -> str:
    return _network(text) if "/" in text else _address(text)


def _absolute(text: str) -> str:
    if not text.startswith("/") or text == "/" or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not an absolute folder; write e.g. /var/lib/name")
    return text.rstrip("/")


def _route(text: str) -> str:
    if not text.startswith("/") or "*" in text[:-1] or re.search(r"\s", text):
        raise ValueError(f"{text!r} is not a path; start with / and use * only at the end")
    return text


def _host(text: str) -> str:
    if not words.is_host(text):
        raise ValueError(f"{text!r} is not a host name; write only the name, e.g. example.org")
    return text


def _domain(text: str) -> str:
    labels = text.split(".")
    if not all(words.LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{text!r} is not a domain; write e.g. lan or home.arpa")
    if labels[-1] == "local":
        raise ValueError("'local' belongs to mDNS and phones never ask us; write e.g. lan")
    return text


def _reach(text: str) -> str:
    if text != "local" and not re.fullmatch(r"ssh://([\w.-]+@)?[\w.-]+(:\d+)?", text):
        raise ValueError(f"{text!r} is no way to a machine; write local or ssh://user@host")
    return text


def _size(text: str) -> str:
    words.size_bytes(text)
    return text


def _memory_limit(text: str) -> str:
    percent = words.PERCENT.fullmatch(text)
    if percent and 0 < int(percent[1]) <= 100:
        return text
    if percent or not words.SIZE.fullmatch(text):
        raise ValueError(f"{text!r} is not a memory limit; write e.g. 8GiB or 60%")
    return text


def _image(text: str) -> str:
    if not re.fullmatch(r"[a-z]+/[a-z0-9.]+", text):
        raise ValueError(f"{text!r} is not an image; write system/release, e.g. debian/13")
    return text


def _package(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", text):
        raise ValueError(f"{text!r} is not a Debian package; write its name only")
    return text


def _http_url(text: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[^\s?#]*)?", text):
        raise ValueError(f"{text!r} is not a URL; write e.g. http://192.168.1.20:11434")
    return text.rstrip("/")


def _source(text: str) -> str:
    if not re.fullmatch(r"https://[^\s/]+/\S+|/\S+", text):
        raise ValueError(f"{text!r} is no source; write https://… or the path of a local file")
    return text


def _prefix(text: str) -> str:
    if not re.fullmatch(r"(https?://[^\s/]+|)/(\S*/)?", text):
        raise ValueError(f"{text!r} is no prefix; write https://…/ or /folder/, ending in /")
    return text


def _sha256(text: str) -> str:
    if text != "first-sight" and not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"{text!r} is no sha256; write 64 hex digits or first-sight")
    return text


def _manifest(text: str) -> str:
    if text != "first-sight" and not re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        raise ValueError(f"{text!r} is no digest; write sha256:HEX or first-sight")
    return text


def _enabled(value: object) -> bool | str:
    if value is True or value is False or value == "auto":
        return value
    raise ValueError(f"{value!r} is not a choice; write true, false or auto")


def _upstream(value: object) -> str | list[str]:
    if value == "auto":
        return "auto"
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [_address(item) for item in value]
    raise ValueError("is neither auto nor a list of addresses; write e.g. [9.9.9.9]")


def _all_or_names(value: object) -> str | list[str]:
    if value == "all":
        return "all"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise ValueError("is neither all nor a list of names; write e.g. [fast, coder]")


Address = Annotated[str, AfterValidator(_address)]
AutoAddress = Annotated[str, AfterValidator(_auto_or_address)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0)]
Folder = Annotated[str, AfterValidator(_absolute)]
Route = Annotated[str, AfterValidator(_route)]
Host = Annotated[str, AfterValidator(_host)]
Sentence = Annotated[str, Field(min_length=1, examples=["One sentence for people."])]
Size = Annotated[str, AfterValidator(_size)]


class Record(BaseModel):
    """What all records share: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Machine(Record):
    """A Debian computer that carries instances."""

    lan_interface: str = "auto"
    lan_address: AutoAddress = "auto"
    instances: Annotated[str, AfterValidator(_network)] = "10.140.30.0/24"
    domain: Annotated[str, AfterValidator(_domain)] = "lan"
    upstream_dns: Annotated[Any, PlainValidator(_upstream)] = "auto"
    reach: Annotated[str, AfterValidator(_reach)] = "local"
    sleep: Literal["masked", "allowed"] = "masked"
    host_firewall: Literal["open", "close"] = "open"


class Health(Record):
    """A question whose right answer only the working service can give."""

    path: Annotated[Route, Field(examples=["/health"])]
    contains: Annotated[str, Field(min_length=1, examples=["what a good answer has in it"])]
    within_s: Seconds = 5
    ready_s: Seconds = 60


class Publish(Record):
    """One name on the LAN: who may come in, to which paths, and files instead of a port."""

    auth: Annotated[Auth, Field(examples=["key"])]
    paths: list[Route] = []
    files: Folder | None = None


class Limits(Record):
    """Bounds of one instance; memory is a size or a share of the machine's."""

    memory: Annotated[str, AfterValidator(_memory_limit)] | None = None
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
    enabled: Annotated[Any, PlainValidator(_enabled)] = True
    present: bool = True
    on: str | None = None
    runtime: Literal["incus", "podman", "external"] = "incus"
    url: Annotated[str, AfterValidator(_http_url)] | None = None
    image: Annotated[str, AfterValidator(_image)] = "debian/13"
    packages: list[Annotated[str, AfterValidator(_package)]] = []
    sources: list[str] = []
    address: Address | None = None
    port: Port | None = None
    metrics_port: Port | None = None
    paths: list[Route] = []
    needs: list[str] = []
    egress: list[Host] = []
    publish: dict[str, Publish] = {}
    publish_tcp: dict[str, list[Annotated[str, AfterValidator(_callers)]]] = {}
    health: Annotated[Health, Field(examples=["{path: /health, contains: ok}"])]
    gpu: Literal["none", "auto", "cuda", "vulkan", "software"] = "none"
    limits: Limits = Limits()
    data: list[Data] = []
    secrets: dict[str, SecretKind] = {}
    scrapes: bool = False
    routes_models: bool = False


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
    models: Annotated[Any, PlainValidator(_all_or_names)] = "all"


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
    kind: Literal["chat", "embed", "vision"] = "chat"


class Alias(Record):
    """A name with an ordered list of models behind it, and its deadlines."""

    members: Annotated[list[str], Field(min_length=1, examples=['["qwen3.5:4b"]'])]
    summary: str = ""
    cloud: bool = False
    member_s: Seconds = 60
    total_s: Seconds = 300


class Source(Record):
    """One download: what, from where, and how it is recognised."""

    version: Annotated[str, Field(examples=['"1.2.3"'])]
    url: Annotated[str, AfterValidator(_source), Field(examples=["https://example.org/name.tar"])]
    sha256: Annotated[str, AfterValidator(_sha256)] = "first-sight"
    size: Annotated[int, Field(gt=0)] | None = None


Manifest = Annotated[str, AfterValidator(_manifest)]
Mirror = Annotated[str, AfterValidator(_prefix)]
