"""`POST /v1/audio/speech`: speech that is streamed as it is made, or sent as a whole."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from hearth_kokoro.engines import SAMPLE_RATE, Samples
from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Segment
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.text.tokenizer import tokenize
from hearth_kokoro.voices import Voice
from hearth_kokoro.web.encoders import MEDIA_TYPES, TimedEncoder, open_encoder
from hearth_kokoro.web.limits import Limits
from hearth_kokoro.web.metrics import SpeechMetrics
from hearth_kokoro.web.requests import SpeechRequest, no_words_error, parse_speech_request
from hearth_kokoro.web.state import LoadedModel, ServerState
from hearth_serving.errors import ServiceError, error_body, error_response
from hearth_serving.limits import read_body
from hearth_serving.metrics import recorder
from hearth_serving.streaming import StreamedResponse

log = logging.getLogger("hearth_kokoro")

# A quarter second is encoded in 2 ms or less, so the event loop stays responsive.
SLICE = SAMPLE_RATE // 4
# The first sound is sent before more is encoded. From a shorter slice, aac returns nothing.
_FIRST_SLICE = SAMPLE_RATE // 10
_BLOCK_BYTES = 64 * 1024
_SSE_MEDIA_TYPE = "text/event-stream"
HELD_HEADER = "x-hearth-held-ms"
"""For how long the first sound was held back; the header is absent where it was not."""


async def create_speech(request: Request) -> Response:
    """Check the request; the response synthesises the speech."""
    state: ServerState = request.app.state.server
    metrics = recorder(state.metrics, request.scope)
    try:
        loaded = state.ready()
        wanted = parse_speech_request(await read_body(request, state.limits), state.limits)
        voice = loaded.voices.get(wanted.voice_name)
        if not await has_words(wanted.input, voice.language):
            raise no_words_error()
    except ServiceError as error:
        metrics.ended("refused")
        return error_response(error)
    return SpeechResponse(state.limits, metrics, loaded, wanted, voice)


async def has_words(text: str, language: str) -> bool:
    """Return whether a text has anything to pronounce."""
    # Nearly every text has a letter; tokenizing it here would do the work twice.
    if any(character.isalnum() for character in text):
        return True
    # Thousands of dashes take a tenth of a second, which must not block the event loop.
    tokens = await asyncio.to_thread(tokenize, text, language)
    return any(c.isalnum() for token in tokens for c in token.spoken)


def slices(samples: Samples, first: int = SLICE) -> list[Samples]:
    """Cut sound into parts that are encoded at once; no sound is one empty slice."""
    starts = [0, *range(first, samples.size, SLICE)]
    return [samples[at:end] for at, end in pairwise([*starts, samples.size])]


class SpeechResponse(StreamedResponse):
    """The response to one request for speech; the synthesis starts when it is sent."""

    def __init__(
        self,
        limits: Limits,
        metrics: SpeechMetrics,
        loaded: LoadedModel,
        request: SpeechRequest,
        voice: Voice,
    ) -> None:
        super().__init__(limits, "the speech did not finish")
        self._metrics, self._loaded, self._request, self._voice = metrics, loaded, request, voice
        self._received_at = time.monotonic()
        self._sent_sound = False

    def ended(self, outcome: str) -> None:
        """Count and log the outcome."""
        self._metrics.ended(outcome)
        log.info(
            "speech %s characters=%d format=%s total_ms=%.0f",
            outcome,
            len(self._request.input),
            self._request.response_format,
            (time.monotonic() - self._received_at) * 1000,
        )

    def interrupted(self, error: ServiceError) -> tuple[bytes, str] | None:
        """Return the error as an event; a response that is only sound just breaks off."""
        if not self._as_events:
            return None
        return _event({"type": "error", **error_body(error)}), _SSE_MEDIA_TYPE

    @property
    def _as_events(self) -> bool:
        return self._request.stream_format == "sse"

    async def produce(self, send: Send) -> None:
        """Synthesise and send all of the speech."""
        buffer = TextBuffer.of(self._request.input, self._voice.language)
        notices = set[asyncio.Task[None]]()

        def notify(wait_s: float) -> None:
            if self._as_events and not notices:
                event = _event({"type": "speech.audio.held", "wait_ms": round(wait_s * 1000)})
                notices.add(asyncio.create_task(self.write(send, event, _SSE_MEDIA_TYPE)))

        playback = Playback(not self._request.stream, self._request.early, notify)
        speech = self._loaded.synthesizer.speak(buffer, self._voice, self._request.speed, playback)
        async with aclosing(speech) as segments:
            # The encoder is opened during the first inference.
            opening = asyncio.create_task(self._encoder())
            try:
                first, encoder = await _first_audible_segment(segments), await opening
                # Nothing else is written before the first sound.
                await asyncio.gather(*notices)
            finally:
                for task in (opening, *notices):
                    task.cancel()
            if first is None:
                raise no_words_error()
            if first.held_s:
                self._more_headers[HELD_HEADER] = str(round(first.held_s * 1000))
            self._metrics.record_hold(first.held_s)
            if self._request.stream:
                await self._send_stream(first, segments, encoder, send)
            else:
                await self._send_whole(first, segments, encoder, send)

    async def _encoder(self) -> TimedEncoder:
        return open_encoder(self._request.response_format, streamed=self._request.stream)

    async def _send_stream(
        self,
        segment: Segment | None,
        segments: AsyncIterator[Segment],
        encoder: TimedEncoder,
        send: Send,
    ) -> None:
        as_events = self._as_events
        while segment is not None:
            text: str | None = segment.text
            for part in slices(segment.samples, SLICE if self._sent_sound else _FIRST_SLICE):
                data = encoder.encode(part)
                # The text is sent even if the encoder holds all of the sound back.
                if data or (as_events and text is not None):
                    event = _delta_event(data, text, segment.held_s) if as_events else data
                    await self._send(send, event)
                text = None
            self._metrics.record_segment(segment, encoder.lap_s())
            segment = await anext(segments, None)
        rest = encoder.finish()
        if as_events:
            rest = (_delta_event(rest) if rest else b"") + _event({"type": "speech.audio.done"})
        await self._send(send, rest, last=True)

    async def _send_whole(
        self,
        segment: Segment | None,
        segments: AsyncIterator[Segment],
        encoder: TimedEncoder,
        send: Send,
    ) -> None:
        whole = bytearray()
        while segment is not None:
            for part in slices(segment.samples):
                whole += encoder.encode(part)
                await asyncio.sleep(0)
            self._metrics.record_segment(segment, encoder.lap_s())
            segment = await anext(segments, None)
        whole += encoder.finish()
        # In blocks: one write of everything would not detect a client that does not read.
        for at in range(0, len(whole), _BLOCK_BYTES):
            last = at + _BLOCK_BYTES >= len(whole)
            await self._send(
                send, bytes(whole[at : at + _BLOCK_BYTES]), last=last, length=len(whole)
            )

    async def _send(
        self, send: Send, data: bytes, *, last: bool = False, length: int | None = None
    ) -> None:
        if not self._sent_sound and data:
            self._sent_sound = True
            self._metrics.record_ttfa(time.monotonic() - self._received_at)
        sound_type = MEDIA_TYPES[self._request.response_format]
        media_type = _SSE_MEDIA_TYPE if self._as_events else sound_type
        await self.write(send, data, media_type, last=last, length=length)


async def _first_audible_segment(segments: AsyncIterator[Segment]) -> Segment | None:
    """Return the first segment with sound, with all the text up to its end."""
    text, held_s = "", 0.0
    async for segment in segments:
        text, held_s = text + segment.text, held_s + segment.held_s
        if segment.samples.size:
            return replace(segment, text=text, held_s=held_s)
    return None


def _delta_event(audio: bytes, text: str | None = None, held_s: float = 0.0) -> bytes:
    """Return OpenAI's event for sound; the first one of a segment also has its text."""
    more: dict[str, Any] = {} if text is None else {"text": text}
    if held_s and text is not None:
        more["held_ms"] = round(held_s * 1000)
    return _event({"type": "speech.audio.delta", "audio": base64.b64encode(audio).decode(), **more})


def _event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"
