"""The five shapes of an answer, as OpenAI has them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hearth_whisper.languages import name_of
from hearth_whisper.recognising import Segment

MEDIA_TYPES = {
    "text": "text/plain; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}
"""Content type of what is no JSON."""


@dataclass(frozen=True, slots=True)
class Written:
    """The whole text of one file."""

    segments: Sequence[Segment]
    language: str | None
    audio_s: float

    @property
    def text(self) -> str:
        """Everything that was said, in one line."""
        return joined(self.segments)


def joined(segments: Sequence[Segment]) -> str:
    """Return the text of segments, whose own spaces stand between them."""
    return "".join(segment.text for segment in segments).strip()


def plain(written: Written) -> dict[str, Any]:
    """Return `json`."""
    return {"text": written.text, "usage": _usage(written)}


def verbose(written: Written, task: str, granularities: Sequence[str]) -> dict[str, Any]:
    """Return `verbose_json`: with segments unless only words were asked for."""
    content: dict[str, Any] = {
        "task": task,
        "language": name_of(written.language),
        "duration": round(written.audio_s, 3),
        "text": written.text,
    }
    if "word" in granularities:
        words = [word for segment in written.segments for word in segment.words]
        content["words"] = [
            {"word": word.text.strip(), "start": _s(word.start_s), "end": _s(word.end_s)}
            for word in words
        ]
    if "segment" in granularities or "word" not in granularities:
        content["segments"] = [_segment(n, each) for n, each in enumerate(written.segments)]
    return {**content, "usage": _usage(written)}


def text(written: Written) -> str:
    """Return `text`."""
    return written.text + "\n"


def srt(written: Written) -> str:
    """Return SubRip: numbered, with commas before the milliseconds."""
    cues = [
        f"{number}\n{_clock(s.start_s, ',')} --> {_clock(s.end_s, ',')}\n{_line(s)}\n"
        for number, s in enumerate(_said(written), 1)
    ]
    return "\n".join(cues)


def vtt(written: Written) -> str:
    """Return WebVTT."""
    cues = [
        f"{_clock(s.start_s, '.')} --> {_clock(s.end_s, '.')}\n{_escaped(_line(s))}\n"
        for s in _said(written)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def _said(written: Written) -> list[Segment]:
    return [segment for segment in written.segments if segment.text.strip()]


def _line(segment: Segment) -> str:
    # An arrow or an empty line in a text would begin the next cue.
    return " ".join(segment.text.split()).replace("-->", "->")


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, mark: str) -> str:
    ms = round(max(0.0, seconds) * 1000)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": number,
        "seek": round(segment.start_s * 100),
        "start": _s(segment.start_s),
        "end": _s(segment.end_s),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }


def _usage(written: Written) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(written.audio_s)}


def _s(seconds: float) -> float:
    return round(seconds, 3)
