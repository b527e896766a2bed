"""Consumers, the names that their keys open, and the members of each name; read at the start."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# LiteLLM reads secrets from its environment only. Ours is filled from files, in this process.
CONSUMER_KEYS = "consumer_keys"


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
    """The description of a name for people, and its capabilities.

    Members in `sees` accept pictures; a name that `leaves` may be answered outside the house.
    """

    title: str
    summary: str
    alias: bool
    talks: bool
    sees: tuple[str, ...]
    leaves: bool


@dataclass(frozen=True, slots=True)
class Name:
    """A valid value of `model`: an alias or a model, its members in order, its deadlines.

    A name with `servers`, one for each member, is for speech to text only.
    """

    name: str
    members: tuple[str, ...]
    first_token_timeout_s: float
    timeout_s: float
    info: ModelInfo
    servers: Mapping[str, Server] = field(default_factory=dict)


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
    """Read `aliases.json` and `consumers.json` in `folder` and the keys in `credentials`.

    Raises `GatewayError` for a file that is missing or malformed.
    """
    names = {
        name: _name(name, record, folder / "aliases.json")
        for name, record in _mapping(folder / "aliases.json").items()
    }
    records = _mapping(folder / "consumers.json")
    keys = _mapping(credentials / CONSUMER_KEYS)
    for consumer in records:
        if not isinstance(keys.get(consumer), str) or not keys[consumer]:
            raise GatewayError(f"{credentials / CONSUMER_KEYS}: no key for consumer {consumer}")
    return GatewayConfig(
        names,
        tuple(
            Consumer(name, _digest(keys[name]), _opened(record, names))
            for name, record in records.items()
        ),
    )


def export_secrets(credentials: Path, environment: dict[str, str] | None = None) -> list[str]:
    """Set one environment variable of this process for each credential file but the keys.

    `openrouter_api_key` becomes OPENROUTER_API_KEY, which LiteLLM's `os.environ/...` reads. The
    variable exists in this process only: systemd, `ps` and /proc/PID/environ never hold it.
    """
    target = os.environ if environment is None else environment
    made = []
    for file in sorted(credentials.iterdir()):
        if file.name != CONSUMER_KEYS and file.is_file():
            target[file.name.upper()] = file.read_text().strip()
            made.append(file.name.upper())
    return made


def _digest(key: str) -> bytes:
    # Equal lengths for all keys: compare_digest leaks the length of what differs in length.
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
            servers,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        text = (
            "needs members, first_token_timeout_s, timeout_s, title, summary, talks, sees and "
            "leaves, and servers for all members or none"
        )
        raise GatewayError(f"{file}: {name} {text}") from None


def _info(record: Any) -> ModelInfo:
    return ModelInfo(
        title=str(record["title"]),
        summary=str(record["summary"]),
        alias=bool(record.get("alias", False)),
        talks=bool(record["talks"]),
        sees=tuple(record["sees"]),
        leaves=bool(record["leaves"]),
    )


def _mapping(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise GatewayError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        # The parser's message would quote the file, and this one may hold keys.
        raise GatewayError(f"{file}: is not JSON ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise GatewayError(f"{file}: is not a mapping")
    return content
