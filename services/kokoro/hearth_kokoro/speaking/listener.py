"""Who hears one text after another: how loud the last one was, and until when it plays."""

from dataclasses import dataclass, field

from hearth_kokoro.engines import SAMPLE_RATE, Samples
from hearth_kokoro.speaking.joins import Joiner


@dataclass(slots=True)
class Listener:
    """One who plays everything without a break, from the moment when it is handed over.

    `waits_for_all` is who plays nothing before the last piece is there: no piece is late for him.
    """

    waits_for_all: bool = False
    joiner: Joiner = field(default_factory=Joiner)
    _plays_until: float = float("-inf")

    def hears(self, samples: Samples, now: float) -> None:
        """Note that these samples play after what was handed over before."""
        self._plays_until = max(now, self._plays_until) + samples.size / SAMPLE_RATE

    def lead_s(self, now: float) -> float:
        """Return for how long there is still something to hear; at least 0."""
        return max(0.0, self._plays_until - now)
