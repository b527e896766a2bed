"""When a model may be tried again: later after each failure, but never never."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

FIRST_S = 5.0
LAST_S = 600.0


@dataclass(frozen=True, slots=True)
class Retry:
    """After how many failures, why, and from when on the next try is allowed."""

    failures: int
    not_before: float
    reason: str


@dataclass(slots=True)
class Retries:
    """The failures of all models, on one monotonic clock."""

    monotonic: Callable[[], float]
    chance: Callable[[], float]
    by_key: dict[str, Retry] = field(default_factory=dict)

    def tried(self, key: str, reason: str, *, further: bool) -> None:
        """Note one try. One that got further than any before starts the waiting anew."""
        known = self.by_key.get(key)
        failures = 1 if further or known is None else known.failures + 1
        wait_s = min(LAST_S, FIRST_S * 2 ** min(failures - 1, 10))
        # Jitter: a street full of houses must not come back to one registry in step.
        not_before = self.monotonic() + wait_s * (0.5 + self.chance() / 2)
        self.by_key[key] = Retry(failures, not_before, reason)

    def wait_s(self, key: str) -> float:
        """Return the seconds until this model may be tried again, 0 for now."""
        known = self.by_key.get(key)
        return max(0.0, known.not_before - self.monotonic()) if known else 0.0

    def reason(self, key: str) -> str:
        """Return why the last try failed, nothing when there was none."""
        known = self.by_key.get(key)
        return known.reason if known else ""

    def forget(self, key: str) -> None:
        """Let this model be tried now: what its last try failed for is gone."""
        self.by_key.pop(key, None)

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget the failures of all other models."""
        self.by_key = {key: self.by_key[key] for key in keys if key in self.by_key}
