"""One utterance: its recognition, the stable prefix of its partial results, and its events."""

import asyncio
import math
import re
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Protocol

from hearth_serving.errors import ServiceError, error_body
from hearth_whisper.recognition import SAMPLE_RATE, Options, Samples, Segment
from hearth_whisper.recognition.queues import FinalRequest, Speaker
from hearth_whisper.recognition.transcription import Transcript

# Scripts without spaces are compared character by character.
_UNIT = re.compile(
    r"\s*(?:[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|"
    r"[^\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+)"
)
_PUNCTUATION = re.compile(r"[\W_]+")


class LiveScheduler(Protocol):
    """The part of `Scheduler` that live transcription uses."""

    async def transcribe_final(
        self,
        samples: Samples,
        options: Options,
        cancelled: Event,
        request: FinalRequest | None = None,
    ) -> Transcript:
        """Transcribe a complete utterance."""
        ...

    async def transcribe_partial(self, samples: Samples, options: Options) -> Transcript | None:
        """Transcribe an utterance that goes on, if there is capacity."""
        ...

    def preload(self) -> None:
        """Load the model if it is unloaded."""
        ...


class FinalTask:
    """The recognition of an utterance, started in a pause; resumed speech makes it worthless."""

    def __init__(
        self, scheduler: LiveScheduler, samples: Samples, options: Options, speaker: Speaker
    ) -> None:
        """Start it with low urgency: the utterance may not be over."""
        self._cancelled, self._request = Event(), FinalRequest(speaker, is_due=False)
        self.task = asyncio.create_task(
            scheduler.transcribe_final(samples, options, self._cancelled, self._request)
        )
        # The failure of a cancelled one is of no interest.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def failed(self) -> bool:
        """Whether it ended without a text."""
        task = self.task
        return task.done() and (task.cancelled() or task.exception() is not None)

    def make_due(self) -> None:
        """Serve it before those that are not due: the utterance is over."""
        self._request.is_due = True

    def cancel(self) -> None:
        """Cancel it before its next step."""
        self._cancelled.set()
        self.task.cancel()


class StablePrefix:
    """Local agreement: the beginning that two partial results in a row share."""

    def __init__(self) -> None:
        self._stable: list[str] = []
        self._previous: list[str] = []

    def update(self, text: str) -> tuple[str, str]:
        """Take a partial text; return the text to show, and its stable prefix."""
        units = _UNIT.findall(text)
        shown = self._stable + units[len(self._stable) :]
        # Both texts start with the stable prefix, so it never shrinks.
        self._stable = shown[: _agreement(shown, self._previous)]
        self._previous = shown
        return "".join(shown).strip(), "".join(self._stable).strip()


def _agreement(one: list[str], other: list[str]) -> int:
    """Count the leading units that are equal but for case and punctuation."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if _normalised(first) != _normalised(second):
            break
        count += 1
    return count


def _normalised(unit: str) -> str:
    return _PUNCTUATION.sub("", unit).casefold() or unit.strip()


@dataclass(slots=True, eq=False)
class Utterance:
    """The state of one utterance; positions are samples of the stream."""

    number: int
    speech_start: int
    audio_start: int
    """Where the audio to recognise starts."""
    cut: bool = False
    """Whether it continues the previous utterance."""
    speech_end: int = 0
    audio_end: int = 0
    end_arrived_at: float = 0.0
    """When the end of its speech arrived."""
    final: FinalTask | None = None
    partial_end: int = 0
    """Where the last partial result ends."""
    is_final: bool = False
    """Whether its final, or its failure, was sent."""
    prefix: StablePrefix = field(default_factory=StablePrefix)

    def started_event(self) -> dict[str, Any]:
        """Return the event for the start of its speech."""
        at_s = _seconds(self.speech_start)
        event = {"type": "speech_started", "at_s": at_s, "utterance": self.number}
        return {**event, "cut": True} if self.cut else event

    def ended_event(self, *, cut: bool) -> dict[str, Any]:
        """Return the event for the end of its speech; `cut` where only its length ended it."""
        at_s = _seconds(self.speech_end)
        event = {"type": "speech_ended", "at_s": at_s, "utterance": self.number}
        return {**event, "cut": True} if cut else event

    def paused_event(self, speech_end: int) -> dict[str, Any]:
        """Return the event for a short silence, in which the text is recognised."""
        return {"type": "paused", "at_s": _seconds(speech_end), "utterance": self.number}

    def resumed_event(self) -> dict[str, Any]:
        """Return the event for speech that goes on: an early text is not valid any more."""
        return {"type": "resumed", "utterance": self.number}

    def early_event(self, transcript: Transcript, end: int) -> dict[str, Any]:
        """Return the event for the text at a pause: the final's, unless speech resumes."""
        event = self._text_event("early", transcript.text, end)
        return {**event, "language": transcript.language}

    def partial_event(self, partial: Transcript, end: int) -> dict[str, Any]:
        """Return the event for a partial result until the position `end`."""
        text, stable = self.prefix.update(partial.text)
        return {**self._text_event("partial", text, end), "stable": stable}

    def final_event(self, transcript: Transcript, latency_s: float) -> dict[str, Any]:
        """Return the event for its text."""
        segments = transcript.segments
        return {
            **self._text_event("final", transcript.text, self.speech_end),
            "words": _words(segments, self.audio_start, self.audio_end),
            "confidence": _confidence(segments),
            "language": transcript.language,
            "latency_ms": round(1000 * latency_s, 1),
        }

    def error_event(self, error: ServiceError) -> dict[str, Any]:
        """Return the event that replaces its text after an error."""
        return {"type": "error", "utterance": self.number, **error_body(error)}

    def _text_event(self, kind: str, text: str, end: int) -> dict[str, Any]:
        times = {"start_s": _seconds(self.speech_start), "end_s": _seconds(end)}
        return {"type": kind, "utterance": self.number, "text": text, **times}


def _confidence(segments: tuple[Segment, ...]) -> float:
    """Return the geometric mean of the tokens' probabilities, from 0 to 1."""
    weights = [max(1, len(segment.tokens)) for segment in segments]
    if not weights:
        return 0.0
    total = sum(s.avg_logprob * n for s, n in zip(segments, weights, strict=True))
    return round(math.exp(min(0.0, total / sum(weights))), 3)


def _words(segments: tuple[Segment, ...], start: int, end: int) -> list[dict[str, Any]]:
    """Return each word with its times in the stream, inside the recognised audio."""

    def in_stream(offset_s: float) -> float:
        return _seconds(min(end, start + max(0, round(offset_s * SAMPLE_RATE))))

    return [
        {
            "start_s": in_stream(word.start_s),
            "end_s": in_stream(max(word.start_s, word.end_s)),
            "text": word.text.strip(),
            "probability": round(word.probability, 3),
        }
        for segment in segments
        for word in segment.words
    ]


def _seconds(position: int) -> float:
    # Rounded down to the millisecond, so that no time is beyond the audio.
    return math.floor(1000 * position / SAMPLE_RATE) / 1000
