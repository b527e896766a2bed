"""A whole recognition in one thread."""

from dataclasses import dataclass

from hearth_whisper.recognising import SAMPLE_RATE, Options, Recogniser, Samples, Segment, Stop
from hearth_whisper.recognising.steps import Alone, Clock


@dataclass(frozen=True, slots=True)
class WholeText:
    """A whole text, and what it cost."""

    segments: tuple[Segment, ...]
    language: str | None
    """None where nobody spoke."""
    language_probability: float
    audio_s: float
    seconds: float
    """From the beginning of its work, without the wait for it."""

    @property
    def text(self) -> str:
        """The text of all segments, without the space before and after."""
        return "".join(segment.text for segment in self.segments).strip()


def whole_text(
    model: Recogniser, samples: Samples, options: Options, stop: Stop, clock: Clock
) -> WholeText:
    """Recognise everything in this thread."""
    began = clock()
    found = model.recognise(samples, options, Alone(stop))
    segments = tuple(found.segments)
    return WholeText(
        segments=segments,
        language=found.language,
        language_probability=found.language_probability,
        audio_s=samples.size / SAMPLE_RATE,
        seconds=clock() - began,
    )
