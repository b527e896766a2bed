"""What the last drill found, as the receipt keeps it until the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth.smoke.drill.cases import SLOW, Row


@dataclass(frozen=True, slots=True)
class Summary:
    """One alias in a line; seconds are the slowest until the next member's first word."""

    alias: str
    right: int
    of: int
    quick_s: float | None
    slow_s: float | None


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill: when, with which Hearth, what was shortened or played for it, what was found."""

    made: str
    hearth: str
    first_token_timeout_s: float
    played: Sequence[str] = ()
    rows: Sequence[Row] = field(default_factory=list)

    @property
    def lines(self) -> list[Summary]:
        """Each alias in a line."""
        names = dict.fromkeys(row.alias for row in self.rows)
        return [_summary(name, [row for row in self.rows if row.alias == name]) for name in names]


def _summary(alias: str, rows: Sequence[Row]) -> Summary:
    took = [
        (row.fault in SLOW, seconds)
        for row in rows
        for seconds in (row.plain_s, row.streamed_s)
        if row.broken != "all" and seconds is not None
    ]
    return Summary(
        alias=alias,
        right=sum(not row.problems for row in rows),
        of=len(rows),
        quick_s=max((seconds for slow, seconds in took if not slow), default=None),
        slow_s=max((seconds for slow, seconds in took if slow), default=None),
    )


def read(event: Mapping[str, Any], made: str, hearth: str) -> Drill | None:
    """Return the drill that the tests noted, if they drilled."""
    if not event.get("rows"):
        return None
    rows = [Row(**row) for row in event["rows"]]
    return Drill(made, hearth, event["first_token_timeout_s"], event["played"], rows)


def kept(receipt: Path) -> Drill | None:
    """Return the drill that a receipt holds: one without a drill does not forget the last one."""
    try:
        found = json.loads(receipt.read_text(encoding="utf-8")).get("drill")
        return Drill(**{**found, "rows": [Row(**row) for row in found["rows"]]}) if found else None
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return None
