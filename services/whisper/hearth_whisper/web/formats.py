"""OpenAI's five response formats, and its events for streaming."""

import json
import math
from collections.abc import Sequence
from typing import Any

from hearth_serving.errors import ServiceError, error_body
from hearth_whisper.languages import name_of
from hearth_whisper.recognition import Segment
from hearth_whisper.recognition.transcription import Transcript

MEDIA_TYPES = {
    "text": "text/plain; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}
"""The content types of the formats that are not JSON."""
EVENT_STREAM = "text/event-stream"


def json_content(transcript: Transcript) -> dict[str, Any]:
    """Return the content of `json`."""
    return {"text": transcript.text, "usage": _usage(transcript)}


def verbose_content(
    transcript: Transcript, task: str, granularities: Sequence[str]
) -> dict[str, Any]:
    """Return the content of `verbose_json`: with segments unless only words were requested."""
    content: dict[str, Any] = {
        "task": task,
        "language": name_of(transcript.language),
        "duration": _seconds(transcript.audio_s),
        "text": transcript.text,
    }
    if "word" in granularities:
        content["words"] = [
            {"word": w.text.strip(), "start": _seconds(w.start_s), "end": _seconds(w.end_s)}
            for segment in transcript.segments
            for w in segment.words
        ]
    if "segment" in granularities or "word" not in granularities:
        content["segments"] = [_segment(n, one) for n, one in enumerate(transcript.segments)]
    return {**content, "usage": _usage(transcript)}


def text_content(transcript: Transcript) -> str:
    """Return the content of `text`."""
    return transcript.text + "\n"


def srt_content(transcript: Transcript) -> str:
    """Return SubRip: numbered cues, with commas before the milliseconds."""
    cues = [
        f"{number}\n{_time(s.start_s, ',')} --> {_time(s.end_s, ',')}\n{_line(s)}\n"
        for number, s in enumerate(_nonempty(transcript), 1)
    ]
    return "\n".join(cues)


def vtt_content(transcript: Transcript) -> str:
    """Return WebVTT."""
    cues = [
        f"{_time(s.start_s, '.')} --> {_time(s.end_s, '.')}\n{_escaped(_line(s))}\n"
        for s in _nonempty(transcript)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def delta_event(text: str) -> bytes:
    """Return the event for the next part of the text; all deltas together are the text."""
    return _event({"type": "transcript.text.delta", "delta": text})


def segment_event(number: int, segment: Segment) -> bytes:
    """Return the event with a segment's times; there is no diarisation, so no speaker."""
    times = {"start": _seconds(segment.start_s), "end": _seconds(segment.end_s)}
    event = {"type": "transcript.text.segment", "id": str(number), **times, "text": segment.text}
    return _event(event)


def done_event(text: str) -> bytes:
    """Return the last event, with the whole text."""
    return _event({"type": "transcript.text.done", "text": text})


def error_event(error: ServiceError) -> bytes:
    """Return the last event of a response that an error interrupts."""
    return _event({"type": "error", **error_body(error)})


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _nonempty(transcript: Transcript) -> list[Segment]:
    return [segment for segment in transcript.segments if segment.text.strip()]


def _line(segment: Segment) -> str:
    # An arrow or an empty line in a text would start the next cue.
    return " ".join(segment.text.split()).replace("-->", "->")


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(seconds: float, separator: str) -> str:
    ms = round(max(0.0, seconds) * 1000)
    hours, minutes, rest = ms // 3_600_000, ms // 60_000 % 60, ms // 1000 % 60
    return f"{hours:02}:{minutes:02}:{rest:02}{separator}{ms % 1000:03}"


def _segment(number: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": number,
        "seek": round(segment.start_s * 100),
        "start": _seconds(segment.start_s),
        "end": _seconds(segment.end_s),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }


def _usage(transcript: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(transcript.audio_s)}


def _seconds(seconds: float) -> float:
    return round(seconds, 3)
