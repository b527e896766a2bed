"""The turns of calls in figures: where the time between a question and its answer went."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prometheus_client import Counter

from hearth_serving.metrics import Metrics, recent, summary

KEPT = 50
STAGES = ("silence", "transcription", "model", "voice", "total")


@dataclass(slots=True)
class TurnTimes:
    """Moments of one turn on the monotonic clock, in seconds; 0 for what did not happen."""

    speech_end: float = 0.0
    """When the last sound of the question arrived."""
    ended: float = 0.0
    """When it was known to be over."""
    final: float = 0.0
    asked: float = 0.0
    first_token: float = 0.0
    first_text: float = 0.0
    first_sound: float = 0.0
    sent: float = 0.0
    """When the first sound of the answer was sent."""
    speculated: bool = False
    """Whether the answer was started on an early text."""

    def as_figures(self) -> dict[str, Any]:
        """Return the stages in milliseconds from the end of speech, as pairs of start and end."""
        pairs = {
            "silence": (self.speech_end, self.ended),
            "transcription": (self.ended, self.final),
            "model": (self.asked, self.first_token),
            "voice": (self.first_text, self.first_sound),
            "total": (self.speech_end, self.sent),
        }
        stages = {
            name: [round(1000 * (moment - self.speech_end), 1) for moment in pair]
            for name, pair in pairs.items()
            if all(pair)
        }
        return {"stages": stages, "speculated": self.speculated}


def _median(values: Sequence[float]) -> float:
    return summary(values)["median"] or 0.0


@dataclass(slots=True)
class Figures:
    """What the server counts: never a word of what is said."""

    metrics: Metrics = field(default_factory=lambda: Metrics("hearth_voice", "calls by their end"))
    turns: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEPT))
    interruptions: Counter = field(init=False)
    noises: Counter = field(init=False)
    speculations: Counter = field(init=False)
    _durations: dict[str, deque[float]] = field(init=False)

    def __post_init__(self) -> None:
        """Create the counters."""
        registry = self.metrics.registry
        self.interruptions = Counter(
            "hearth_voice_interruptions", "answers that were interrupted", registry=registry
        )
        self.noises = Counter(
            "hearth_voice_noises", "sounds that interrupted no answer", registry=registry
        )
        self.speculations = Counter(
            "hearth_voice_speculations",
            "answers started on an early text, by whether they were used",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("used", "dropped"):
            self.speculations.labels(outcome)
        self._durations = {stage: recent() for stage in STAGES}
        for stage, values in self._durations.items():
            meaning = f"median of the last turns: {stage}"
            self.metrics.watch(f"{stage}_median_seconds", meaning, partial(_median, values))

    def turn(self, times: TurnTimes) -> dict[str, Any]:
        """Record a turn that was answered; return its figures."""
        figures = times.as_figures()
        for stage, (start, end) in figures["stages"].items():
            self._durations[stage].append((end - start) / 1000)
        self.turns.append(figures)
        return figures

    def describe(self) -> dict[str, Any]:
        """Return medians and percentiles in seconds by stage."""
        return {
            **self.metrics.describe(),
            "stages_s": {stage: summary(values) for stage, values in self._durations.items()},
        }
