"""The receipt: what was promised, what was measured, and on which machine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from hearth.machine.description import Machine
from hearth.smoke.drill.record import Drill
from hearth.smoke.figures import Figure

OUTCOMES = ("failed", "pending", "not measured", "passed")


class VerifyError(Exception):
    """One line for a person: why there is no receipt, and where to read more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one test found: `promise` is what it tests, `about` the service or name it tests."""

    promise: str
    about: str
    outcome: str
    detail: str
    seconds: float
    percent: int | None = None
    journal: Sequence[str] = ()

    @property
    def word(self) -> str:
        """The outcome as people read it."""
        return f"pending, {self.percent} %" if self.outcome == "pending" else self.outcome


@dataclass(frozen=True, slots=True)
class Receipt:
    """Everything that one run of the smoke tests found on one machine."""

    house: str
    made: str
    seconds: float
    hearth: str
    machine: Machine
    accelerator: Mapping[str, Any]
    versions: Mapping[str, str]
    addresses: Sequence[str]
    figures: Sequence[Figure]
    verdicts: Sequence[Verdict]
    remarks: Sequence[str] = field(default_factory=list)
    """What the tests would have a person know or do, though nothing failed."""
    unverified: Sequence[str] = field(default_factory=list)
    trust: Sequence[str] = field(default_factory=list)
    """Where a device begins that has nothing of the house's yet."""
    drill: Drill | None = None
    """The last drill, which may be older than this receipt."""

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts of each outcome there are; those without any are left out."""
        counted = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]}

    @property
    def good(self) -> bool:
        """Say whether something was tested and nothing failed."""
        return bool(self.verdicts) and "failed" not in self.counts

    @property
    def summary(self) -> str:
        """All counts in one line."""
        return ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as `receipt.json` holds it."""
        return {"summary": self.counts, "good": self.good, **asdict(self)}


def now() -> str:
    """The time as a receipt writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
