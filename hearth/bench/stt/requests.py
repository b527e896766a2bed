"""One request for transcription: a file, or speech through a stream, with the times of its text."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.recordings import BYTES, RATE, Utterance, wav
from hearth.clients.stt import Stream, StreamEvent, StreamOptions, connected

PATH = "/v1/audio/transcriptions"
Clock = Callable[[], float]
# No usable server takes longer for a second of speech.
_MAX_RTF = 10.0


@dataclass(frozen=True, slots=True)
class FileResult:
    """The text of one file; `error` is empty on success."""

    audio_s: float
    error: str = ""
    whole_s: float = 0.0
    text: str = ""

    @property
    def rtf(self) -> float:
        """Seconds of work for a second of sound."""
        return self.whole_s / self.audio_s


@dataclass(frozen=True, slots=True)
class StreamResult:
    """One utterance through a stream; the times are seconds, `error` is empty on success.

    `final_s` runs from the end of speech to its final text, `ended_s` to the event that the speech
    ended; `started_s` and `first_partial_s` from the first sound of the speech.
    """

    audio_s: float
    error: str = ""
    final_s: float | None = None
    ended_s: float | None = None
    started_s: float | None = None
    first_partial_s: float | None = None
    partials: int = 0
    finals: int = 0
    text: str = ""


Result = FileResult | StreamResult


async def transcribe(
    client: httpx.AsyncClient, endpoint: Endpoint, pcm: bytes, clock: Clock = time.perf_counter
) -> FileResult:
    """Send 16-bit mono at 16 kHz as a WAV file and receive its text; a failure is in `error`."""
    audio_s = len(pcm) / BYTES / RATE
    limit_s = endpoint.call_s + _MAX_RTF * audio_s
    form = {"model": endpoint.model, "language": "en", "response_format": "json"}
    start = clock()
    try:
        # httpx bounds each read; a slow answer would outlive any of its timeouts.
        async with asyncio.timeout(limit_s):
            file = {"file": ("speech.wav", wav(pcm), "audio/wav")}
            response = await client.post(PATH, data=form, files=file)
    except TimeoutError:
        return FileResult(audio_s, f"no complete answer within {limit_s:g} s")
    except (httpx.HTTPError, OSError) as error:
        return FileResult(audio_s, f"{type(error).__name__}: {error}")
    whole_s = clock() - start
    if not response.is_success:
        error_text = f"HTTP {response.status_code}: {one_line(response.text)}"
        return FileResult(audio_s, error_text, whole_s)
    try:
        text = response.json()["text"]
    except (ValueError, KeyError, TypeError):
        return FileResult(audio_s, "an answer without a text", whole_s)
    return FileResult(audio_s, "", whole_s, str(text))


async def stream(endpoint: Endpoint, spoken: Utterance, options: StreamOptions) -> StreamResult:
    """Speak one utterance through a stream; a failure is in `error`.

    Raises:
        NoStreamError: the server has no streams.
    """
    (result,) = await stream_at_once(endpoint, [spoken], options)
    return result


async def stream_at_once(
    endpoint: Endpoint, spoken: Sequence[Utterance], options: StreamOptions
) -> list[StreamResult]:
    """Let several speakers start at the same moment, when the server is ready for all of them.

    Raises:
        NoStreamError: the server has no streams.
    """
    within_s = max(u.seconds for u in spoken) + options.lead_s + 2 * options.wait_s
    try:
        async with contextlib.AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(connected(endpoint, options, within_s))
                for _ in spoken
            ]
            ends = await asyncio.gather(*map(_speak, streams, spoken))
    except ClientError as error:
        return [StreamResult(one.seconds, str(error)) for one in spoken]
    return [result_of(a, b, *c) for a, b, c in zip(spoken, streams, ends, strict=True)]


async def _speak(opened: Stream, utterance: Utterance) -> tuple[float, float]:
    ended = await opened.speak(utterance)
    await opened.end()
    return ended


def result_of(utterance: Utterance, opened: Stream, ended: float, end_s: float) -> StreamResult:
    """Return the result of an utterance whose speech ended at that moment, at `end_s` of it all."""
    last = opened.final(end_s)
    finals = [event for event in opened.events if event.kind == "final"]
    partials = [e for e in opened.events if e.kind == "partial" and e.payload.get("text")]
    started = ended - utterance.seconds
    error = opened.error
    if not error and last is None:
        error = f"no final text within {opened.options.wait_s:g} s after the last word"
    return StreamResult(
        utterance.seconds,
        error,
        final_s=last.at_s - ended if last else None,
        ended_s=_first([e for e in opened.events if e.kind == "speech_ended"], ended, last),
        started_s=_first([e for e in opened.events if e.kind == "speech_started"], started),
        first_partial_s=_first(partials, started),
        partials=len(partials),
        finals=len(finals),
        text=" ".join(str(e.payload.get("text", "")).strip() for e in finals).strip(),
    )


def _first(
    events: Sequence[StreamEvent], since: float, of: StreamEvent | None = None
) -> float | None:
    """Return the time of the first event; only of the utterance of `of`, where it is given."""
    found = (e for e in events if of is None or e.utterance == of.utterance)
    return next((e.at_s - since for e in found), None)
