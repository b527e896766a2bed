"""When to retry a model: with a longer delay after each failure, but without giving up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

FIRST_DELAY_S = 5.0
MAX_DELAY_S = 600.0


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of failures, the earliest time of the next try, and the last reason."""

    failures: int
    not_before: float
    reason: str


@dataclass(slots=True)
class Retries:
    """The failures of all models; `jitter` returns 0 to 1."""

    monotonic: Callable[[], float]
    jitter: Callable[[], float]
    by_key: dict[str, Retry] = field(default_factory=dict)

    def record_try(self, key: str, reason: str, *, advanced: bool) -> None:
        """Record one try. If the download advanced, the delay starts from the shortest again."""
        known = self.by_key.get(key)
        failures = 1 if advanced or known is None else known.failures + 1
        wait_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** min(failures - 1, 10))
        # Jitter: many houses must not return to one registry at the same time.
        not_before = self.monotonic() + wait_s * (0.5 + self.jitter() / 2)
        self.by_key[key] = Retry(failures, not_before, reason)

    def wait_s(self, key: str) -> float:
        """Return the seconds until this model may be retried, or 0."""
        known = self.by_key.get(key)
        return max(0.0, known.not_before - self.monotonic()) if known else 0.0

    def reason(self, key: str) -> str:
        """Return why the last try failed, or an empty string."""
        known = self.by_key.get(key)
        return known.reason if known else ""

    def forget(self, key: str) -> None:
        """Allow a retry now, because the cause of the last failure is gone."""
        self.by_key.pop(key, None)

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget the failures of all other models."""
        self.by_key = {key: self.by_key[key] for key in keys if key in self.by_key}
