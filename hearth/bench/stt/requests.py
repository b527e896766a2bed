"""One request for transcription: a file, or speech through a stream, with the times of its text."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.recordings import BYTES, RATE, Utterance, wav
from hearth.clients.stt import Stream, StreamEvent, StreamOptions, connected

PATH = "/v1/audio/transcriptions"
# No usable server takes longer for a second of speech.
_MAX_RTF = 10.0
SHORT_S = 3


@dataclass(frozen=True, slots=True)
class SttCase:
    """One kind of request: what was done, of how many seconds, by how many at once.

    `what` is live, live without partials, flush, crowd or file.
    """

    what: str
    seconds: int
    streams: int = 1

    @property
    def watched(self) -> bool:
        """Whether health is sampled meanwhile; beside a short utterance it would be part of it."""
        return self.seconds > SHORT_S or self.streams > 1


FIELDS = (
    *("audio_s", "final_ms", "ended_ms", "started_ms", "first_partial_ms", "partials", "finals"),
    *("whole_ms", "rtf"),
)


@dataclass(frozen=True, slots=True)
class SttSample:
    """The text of one file, or of one utterance through a stream; `error` is empty on success.

    Of a stream: `final_ms` from the end of speech (the last sample above -40 dBFS) to its final
    text, `ended_ms` to the event that the speech ended; `started_ms` and `first_partial_ms` from
    the first sound of the speech; `partials` and `finals` count the texts. Of a file: `whole_ms`
    from the request to the whole text, and `rtf`, seconds of work for a second of it.
    """

    audio_s: float
    error: str = ""
    text: str = ""
    final_ms: float | None = None
    ended_ms: float | None = None
    started_ms: float | None = None
    first_partial_ms: float | None = None
    partials: int | None = None
    finals: int | None = None
    whole_ms: float | None = None

    @property
    def rtf(self) -> float | None:
        """Seconds of work per second of sound, of a file."""
        return None if self.whole_ms is None else self.whole_ms / 1000 / self.audio_s


async def transcribe(client: httpx.AsyncClient, endpoint: Endpoint, pcm: bytes) -> SttSample:
    """Send 16-bit mono at 16 kHz as a WAV file and receive its text; a failure is in `error`."""
    audio_s = len(pcm) / BYTES / RATE
    limit_s = endpoint.call_s + _MAX_RTF * audio_s
    form = {"model": endpoint.model, "language": "en", "response_format": "json"}
    start = time.perf_counter()
    try:
        # httpx bounds each read; a slow answer would outlive any of its timeouts.
        async with asyncio.timeout(limit_s):
            file = {"file": ("speech.wav", wav(pcm), "audio/wav")}
            response = await client.post(PATH, data=form, files=file)
        whole_ms = (time.perf_counter() - start) * 1000
        if not response.is_success:
            error = f"HTTP {response.status_code}: {one_line(response.text)}"
            return SttSample(audio_s, error)
        return SttSample(audio_s, text=str(response.json()["text"]), whole_ms=whole_ms)
    except TimeoutError:
        return SttSample(audio_s, f"no complete answer within {limit_s:g} s")
    except (httpx.HTTPError, OSError) as failure:
        return SttSample(audio_s, f"{type(failure).__name__}: {failure}")
    except (ValueError, KeyError, TypeError):
        return SttSample(audio_s, "an answer without a text")


async def stream_at_once(
    endpoint: Endpoint, spoken: Sequence[Utterance], options: StreamOptions
) -> list[SttSample]:
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
        return [SttSample(one.seconds, str(error)) for one in spoken]
    return [result_of(a, b, *c) for a, b, c in zip(spoken, streams, ends, strict=True)]


async def _speak(opened: Stream, utterance: Utterance) -> tuple[float, float]:
    ended = await opened.speak(utterance)
    await opened.end()
    return ended


def result_of(utterance: Utterance, opened: Stream, ended: float, end_s: float) -> SttSample:
    """Return the result of an utterance whose speech ended at that moment, at `end_s` of it all."""
    last = opened.final(end_s)
    finals, starts = opened.of("final"), opened.of("speech_started")
    partials = [event for event in opened.of("partial") if event.payload.get("text")]
    ends = [e for e in opened.of("speech_ended") if last and e.utterance == last.utterance]
    started, error = ended - utterance.seconds, opened.error
    if not error and last is None:
        error = f"no final text within {opened.options.wait_s:g} s after the last word"
    return SttSample(
        utterance.seconds,
        error,
        text=" ".join(str(e.payload.get("text", "")).strip() for e in finals).strip(),
        final_ms=_first_ms([last] if last else [], ended),
        ended_ms=_first_ms(ends, ended),
        started_ms=_first_ms(starts, started),
        first_partial_ms=_first_ms(partials, started),
        partials=len(partials),
        finals=len(finals),
    )


def _first_ms(events: Sequence[StreamEvent], since: float) -> float | None:
    return (events[0].at_s - since) * 1000 if events else None
