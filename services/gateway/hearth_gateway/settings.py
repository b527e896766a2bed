"""Consumers, the names that their keys open, and the members of each name; read at the start."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

# LiteLLM reads secrets from its environment only. Ours is filled from files, in this process.
CONSUMER_DIGESTS = "consumer_digests"

_DIGEST = re.compile(r"[0-9a-f]{64}")


class GatewayError(Exception):
    """One line: which file of the gateway is wrong, and how."""


@dataclass(frozen=True, slots=True)
class Server:
    """A speech-to-text server: its URL, its name for the model, and the variable with its key."""

    url: str
    id: str
    key: str | None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The description of a name for people, and of a model its capabilities.

    A name that `leaves` may be answered outside the house. `context` is in tokens, None if
    unchecked. An alias has the capabilities and the context of its members, not its own.
    """

    title: str
    summary: str
    alias: bool
    talks: bool
    leaves: bool
    capabilities: frozenset[str] = frozenset()
    always_thinks: bool = False
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """What a model takes while its server at `url` has it in memory, of the room for all models.

    Where the room is `on_card`, only what a model takes of the card counts. `refused` is why the
    plan does not let it be loaded; empty if it does.
    """

    url: str
    needed_bytes: int
    room_bytes: int
    refused: str = ""
    on_card: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A valid value of `model`: an alias or a model, its members in order, its deadlines.

    A name with `servers`, one for each member, is for speech to text only. `thinking` is how much
    its members think unless a request says so: off, low, medium, high or auto. `id` is a model's
    name at its server. `memory` is None without a plan.
    """

    name: str
    members: tuple[str, ...]
    first_token_timeout_s: float
    timeout_s: float
    info: ModelInfo
    thinking: str = "auto"
    servers: Mapping[str, Server] = field(default_factory=dict)
    id: str = ""
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A holder of a key, and the names that it opens."""

    name: str
    digest: bytes
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """All names and all consumers."""

    names: Mapping[str, Name]
    consumers: tuple[Consumer, ...]
    # Opens everything to the gateway itself, in this process's lifetime only.
    own_key: str = field(default_factory=secrets.token_urlsafe)

    def answered_by(self, called: str, named: str | None) -> str:
        """Return the model that answered, by the house's name for what the server `named`.

        Outside the house a provider may name a version of the model that was called, and a server
        that names none leaves only the one that was called.
        """
        model = self.names[called]
        if named is None or model.info.leaves or _plain(named) == _plain(model.id):
            return called
        same = (n.name for n in self.names.values() if n.id and _plain(n.id) == _plain(named))
        return next(same, quote(named[:80], safe="/:"))

    def is_own(self, key: str) -> bool:
        """Return whether the gateway itself calls."""
        return hmac.compare_digest(_digest(self.own_key), _digest(key))

    def consumer(self, key: str) -> Consumer | None:
        """Return the holder of this key, in a time that does not depend on the key."""
        digest = _digest(key)
        found: Consumer | None = None
        # No early end: the time must not reveal whose key matched.
        for consumer in self.consumers:
            if hmac.compare_digest(consumer.digest, digest):
                found = consumer
        return found


def load_config(folder: Path, credentials: Path) -> GatewayConfig:
    """Read `aliases.json` and `consumers.json` in `folder`, and digests in `credentials`.

    Raises `GatewayError` for a file that is missing or malformed.
    """
    names = {
        name: _name(name, record, folder / "aliases.json")
        for name, record in _mapping(folder / "aliases.json").items()
    }
    records = _mapping(folder / "consumers.json")
    digests = _mapping(credentials / CONSUMER_DIGESTS)
    for consumer in records:
        if not _DIGEST.fullmatch(str(digests.get(consumer))):
            text = f"no SHA-256 of a key for consumer {consumer}"
            raise GatewayError(f"{credentials / CONSUMER_DIGESTS}: {text}")
    return GatewayConfig(
        names,
        tuple(
            Consumer(name, bytes.fromhex(digests[name]), _opened(record, names))
            for name, record in records.items()
        ),
    )


def export_secrets(credentials: Path, environment: dict[str, str] | None = None) -> list[str]:
    """Set one environment variable of this process for each credential file but the digests.

    `openrouter_api_key` becomes OPENROUTER_API_KEY, which LiteLLM's `os.environ/...` reads. The
    variable exists in this process only: systemd, `ps` and /proc/PID/environ never hold it.
    """
    target = os.environ if environment is None else environment
    made = []
    for file in sorted(credentials.iterdir()):
        if file.name != CONSUMER_DIGESTS and file.is_file():
            target[file.name.upper()] = file.read_text().strip()
            made.append(file.name.upper())
    return made


def _plain(model: str) -> str:
    # Ollama's name for a model without a tag.
    return model.removesuffix(":latest")


def _digest(key: str) -> bytes:
    # As the credentials have them; equal lengths also keep compare_digest's time constant.
    return hashlib.sha256(key.encode()).digest()


def _opened(record: Any, names: Mapping[str, Name]) -> frozenset[str]:
    models = record.get("models", []) if isinstance(record, dict) else []
    return frozenset(names) if models == "all" else frozenset(models) & frozenset(names)


def _name(name: str, record: Any, file: Path) -> Name:
    try:
        members, first_token_timeout_s, timeout_s = (
            record[key] for key in ("members", "first_token_timeout_s", "timeout_s")
        )
        servers = {
            member: Server(server["url"], server["id"], server["key"])
            for member, server in record.get("servers", {}).items()
        }
        if servers and servers.keys() != set(members):
            raise ValueError
        return Name(
            name,
            tuple(members),
            float(first_token_timeout_s),
            float(timeout_s),
            _info(record),
            str(record.get("thinking", "auto")),
            servers,
            str(record.get("id", "")),
            Memory(**record["memory"]) if record.get("memory") else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        text = (
            "needs members, first_token_timeout_s, timeout_s, title, summary, talks and leaves, "
            "and servers for all members or none"
        )
        raise GatewayError(f"{file}: {name} {text}") from None


def _info(record: Any) -> ModelInfo:
    return ModelInfo(
        title=str(record["title"]),
        summary=str(record["summary"]),
        alias=bool(record.get("alias", False)),
        talks=bool(record["talks"]),
        leaves=bool(record["leaves"]),
        capabilities=frozenset(record.get("capabilities", ())),
        always_thinks=bool(record.get("always_thinks", False)),
        context=record.get("context"),
    )


def _mapping(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise GatewayError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        # The parser's message would quote the file.
        raise GatewayError(f"{file}: is not JSON ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise GatewayError(f"{file}: is not a mapping")
    return content
