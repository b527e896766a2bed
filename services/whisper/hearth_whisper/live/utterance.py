"""One utterance while it is heard, and what is told of it."""

import math
from dataclasses import dataclass, field
from typing import Any

from hearth_serving.errors import ServiceError, error_body
from hearth_whisper.live.attempt import Attempt
from hearth_whisper.live.stable import Stable
from hearth_whisper.recognising import SAMPLE_RATE, Segment
from hearth_whisper.recognising.work import WholeText


@dataclass(slots=True, eq=False)
class Utterance:
    """Positions are samples of the stream."""

    number: int
    at: int
    """Where its speech begins."""
    begin: int
    """Where the sound to hear begins."""
    cut: bool = False
    end: int = 0
    """Where its speech ends."""
    upto: int = 0
    """Where the sound to hear ends."""
    arrived: float = 0.0
    """When the end of its speech was here."""
    attempt: Attempt | None = None
    tried: int = 0
    """Until where the last partial was asked for."""
    over: bool = False
    """Whether its final was told."""
    stable: Stable = field(default_factory=Stable)

    def started(self) -> dict[str, Any]:
        """Return the event that it has begun; `cut` where speech just goes on."""
        event = {"type": "speech_started", "at_s": _s(self.at), "utterance": self.number}
        return {**event, "cut": True} if self.cut else event

    def ended(self, *, cut: bool) -> dict[str, Any]:
        """Return the event that it is over; `cut` where only its length ended it."""
        event = {"type": "speech_ended", "at_s": _s(self.end), "utterance": self.number}
        return {**event, "cut": True} if cut else event

    def partial(self, guess: str, end: int) -> dict[str, Any]:
        """Return the event of a guess at what was said until `end`."""
        text, stable = self.stable.hear(guess)
        return {**self._said("partial", text, end), "stable": stable}

    def final(self, recognised: WholeText, latency_s: float) -> dict[str, Any]:
        """Return the event of its text."""
        said = recognised.segments
        return {
            **self._said("final", recognised.text, self.end),
            "words": _words(said, self.begin, self.upto),
            "confidence": _confidence(said),
            "language": recognised.language,
            "latency_ms": round(1000 * latency_s, 1),
        }

    def failed(self, error: ServiceError) -> dict[str, Any]:
        """Return the event that there is no text of it, and why."""
        return {"type": "error", "utterance": self.number, **error_body(error)}

    def _said(self, kind: str, text: str, end: int) -> dict[str, Any]:
        times = {"start_s": _s(self.at), "end_s": _s(end)}
        return {"type": kind, "utterance": self.number, "text": text, **times}


def _confidence(segments: tuple[Segment, ...]) -> float:
    """Return how sure the model was of its tokens, from 0 to 1: their geometric mean."""
    weights = [max(1, len(segment.tokens)) for segment in segments]
    if not weights:
        return 0.0
    total = sum(s.avg_logprob * n for s, n in zip(segments, weights, strict=True))
    return round(math.exp(min(0.0, total / sum(weights))), 3)


def _words(segments: tuple[Segment, ...], begin: int, upto: int) -> list[dict[str, Any]]:
    """Return each word with its times in the stream, inside the sound that was heard."""

    def inside(within_s: float) -> float:
        return _s(min(upto, begin + max(0, round(within_s * SAMPLE_RATE))))

    return [
        {
            "start_s": inside(word.start_s),
            "end_s": inside(max(word.start_s, word.end_s)),
            "text": word.text.strip(),
            "probability": round(word.probability, 3),
        }
        for segment in segments
        for word in segment.words
    ]


def _s(position: int) -> float:
    # Never beyond the sound: down to the millisecond.
    return math.floor(1000 * position / SAMPLE_RATE) / 1000
