"""The page's configuration: its name, the sites of the house, and where it reads their state."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


class HealthError(Exception):
    """One line for a person: why the page cannot be served."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One site of the house that people open; without a `title` it is among the others."""

    fqdn: str
    title: str
    kind: str
    service: str
    summary: str


@dataclass(frozen=True, slots=True)
class Target:
    """A server that the canary works with; `card`: it computes on a graphics card.

    `kind` is speech, transcription or models; `embeds` are its models that only embed.
    """

    kind: str
    name: str
    url: str
    card: bool = False
    embeds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CanaryConfig:
    """How often the canary works, and for how many seconds of processor time in an hour."""

    results: Path
    every_s: float = 300.0
    budget_s: float = 36.0
    wakes_card: bool = False
    targets: Sequence[Target] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """`site` is the page's own name; `prometheus` is the address of its API, or empty.

    `approvals`: the house has the pages on which people approve what agents propose.
    """

    site: str
    house: str
    snapshot: Path
    verbs: Path
    receipt: Path
    prometheus: str = ""
    approvals: bool = False
    tiles: Sequence[Tile] = ()
    findings: Mapping[str, Any] = field(default_factory=dict)
    canary: CanaryConfig | None = None


def load_config(path: Path) -> Config:
    """Read `path`.

    Raises:
        HealthError: the file is missing or not valid.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if unknown := raw.keys() - {item.name for item in fields(Config)}:
            raise ValueError(f"{sorted(unknown)[0]} is unknown")
        return Config(
            site=_text(raw, "site"),
            house=_text(raw, "house"),
            snapshot=Path(_text(raw, "snapshot")),
            verbs=Path(_text(raw, "verbs")),
            receipt=Path(_text(raw, "receipt")),
            prometheus=str(raw.get("prometheus") or "").rstrip("/"),
            approvals=raw.get("approvals") is True,
            tiles=tuple(Tile(**tile) for tile in raw.get("tiles", ())),
            findings=dict(raw.get("findings", {})),
            canary=_canary(raw["canary"]) if raw.get("canary") else None,
        )
    except OSError as error:
        raise HealthError(f"{path}: {error.strerror}: run `hearth up`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HealthError(f"{path}: {error}: run `hearth up`, which writes it") from None


def _canary(raw: Any) -> CanaryConfig:
    known = CanaryConfig(
        results=Path(_text(raw, "results")),
        every_s=float(raw["every_s"]),
        budget_s=float(raw["budget_s"]),
        wakes_card=bool(raw["wakes_card"]),
        targets=tuple(Target(**target) for target in raw["targets"]),
    )
    if not (known.every_s >= 1 and known.budget_s > 0):
        raise ValueError("canary: every_s must be 1 or more, and budget_s above 0")
    return known


def _text(raw: Any, key: str) -> str:
    value = raw[key]
    if not isinstance(value, str) or not value:
        raise TypeError(f"{key} must be a text")
    return value
