"""What the canary found: whether services do real work, beside that they answer.

The health page's program does the work (services/health) and writes how it ended.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth.clients.endpoints import one_line

RESULTS = Path("/run/hearth-health/canary.json")
_BYTES, _OLD_S, _MOST = 2**20, 300, 50
_VERBS = {"speech": "spoke", "transcription": "transcribed", "model": "answered"}


@dataclass(frozen=True, slots=True)
class Work:
    """The last real work of a service that succeeded: what it did, and when, as a Unix time."""

    verb: str
    at: float


@dataclass(frozen=True, slots=True)
class Canary:
    """How each piece of work ended last, and when each service last did any.

    Each result has `what`, `service`, `ok` (None where nobody knows), `seconds` (None without an
    answer), `at` (a Unix time) and `text`.
    """

    results: list[dict[str, Any]] = field(default_factory=list)
    worked: dict[str, Work] = field(default_factory=dict)


def read(path: Path = RESULTS) -> Canary:
    """Return what the canary found; nothing where it does not work.

    A program that reads what people send writes the file, so all of it is checked.
    """
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_BYTES))
        # It writes every few seconds, whether it has tried anything or not.
        if time.clock_gettime(time.CLOCK_BOOTTIME) - found["made_boot_s"] > _OLD_S:
            return Canary()
        worked = [*found.get("worked", {}).items()][:_MOST]
        return Canary(
            [_result(one) for one in found["results"][:_MOST]],
            {
                one_line(name): Work(_VERBS.get(one["kind"], "worked"), float(one["at"]))
                for name, one in worked
            },
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Canary()


def _result(one: Mapping[str, Any]) -> dict[str, Any]:
    seconds = one.get("seconds")
    return {
        "what": one_line(one["what"]),
        "service": one_line(one.get("service") or ""),
        "ok": {True: True, False: False}.get(one["ok"]),
        "seconds": None if seconds is None else float(seconds),
        "at": float(one["at"]),
        "text": one_line(one["text"]),
    }
