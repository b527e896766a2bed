"""`POST /v1/audio/speech`: speech that leaves as it is made, or joined."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from hearth_kokoro.engines import SAMPLE_RATE, Samples
from hearth_kokoro.speaking.feed import Feed
from hearth_kokoro.speaking.listener import Listener
from hearth_kokoro.speaking.speaker import Piece
from hearth_kokoro.text.read import read
from hearth_kokoro.voices import Voice
from hearth_kokoro.web import sse
from hearth_kokoro.web.asked import Asked, nothing_to_say, read_asked
from hearth_kokoro.web.encode import MEDIA_TYPES, Encoder, open_encoder
from hearth_kokoro.web.state import Loaded, ServerState
from hearth_serving.errors import ServiceError, error_response
from hearth_serving.limits import read_body
from hearth_serving.streaming import StreamedResponse

log = logging.getLogger("hearth_kokoro")

# A quarter second is encoded in 2 ms or less: nobody else waits longer for the event loop.
SLICE = SAMPLE_RATE // 4
# The first sound is on its way before more is encoded; less than this, aac keeps to itself.
_FIRST_SLICE = SAMPLE_RATE // 10
_BLOCK_BYTES = 64 * 1024


async def speech(request: Request) -> Response:
    """Read what is asked for; the answer does the speaking."""
    desk: ServerState = request.app.state.server
    try:
        loaded = desk.ready()
        asked = read_asked(await read_body(request, desk.limits), desk.limits)
        voice = loaded.voices.get(asked.voice_name)
        if not await has_words(asked.input, voice.language):
            raise nothing_to_say()
    except ServiceError as error:
        desk.metrics.ended("refused")
        return error_response(error)
    return Spoken(desk, loaded, asked, voice)


async def has_words(text: str, language: str) -> bool:
    """Say whether a person would say anything at all of this text."""
    # Nearly every text has a letter, and then reading it here would be reading it twice.
    if any(character.isalnum() for character in text):
        return True
    # Thousands of dashes take a tenth of a second to read: others are heard meanwhile.
    tokens = await asyncio.to_thread(read, text, language)
    return any(c.isalnum() for token in tokens for c in token.spoken)


def slices(samples: Samples, first: int = SLICE) -> list[Samples]:
    """Cut sound into what is encoded and written at once; no sound is one empty slice."""
    begins = [0, *range(first, samples.size, SLICE)]
    return [samples[at:end] for at, end in pairwise([*begins, samples.size])]


class Spoken(StreamedResponse):
    """The answer to one request for speech."""

    def __init__(self, desk: ServerState, loaded: Loaded, asked: Asked, voice: Voice) -> None:
        """Nothing is spoken before somebody listens."""
        super().__init__(desk.limits, "the speech did not finish")
        self._state, self._loaded, self._asked, self._voice = desk, loaded, asked, voice
        self._began = time.monotonic()
        self._sounded = False

    def ended(self, outcome: str) -> None:
        """Note how it went."""
        self._state.metrics.ended(outcome)
        took_ms = (time.monotonic() - self._began) * 1000
        log.info(
            "speech %s characters=%d format=%s total_ms=%.0f",
            outcome,
            len(self._asked.input),
            self._asked.response_format,
            took_ms,
        )

    def interrupted(self, error: ServiceError) -> tuple[bytes, str] | None:
        """Say it as an event; sound that breaks off has no other way than to have no end."""
        return (sse.failed(error), sse.MEDIA_TYPE) if self._as_events else None

    @property
    def _as_events(self) -> bool:
        return self._asked.stream_format == "sse"

    async def produce(self, send: Send) -> None:
        """Speak until all is said."""
        feed = Feed.of(self._asked.input, self._voice.language)
        listener = Listener(waits_for_all=not self._asked.stream)
        speaking = self._loaded.speaker.speak(feed, self._voice, self._asked.speed, listener)
        async with aclosing(speaking) as pieces:
            # The encoder is opened while the first inference runs.
            opening = asyncio.create_task(self._encoder())
            try:
                first, encoder = await _first_sound(pieces), await opening
            finally:
                opening.cancel()
            if first is None:
                raise nothing_to_say()
            if self._asked.stream:
                await self._stream(first, pieces, encoder, send)
            else:
                await self._join(first, pieces, encoder, send)

    async def _encoder(self) -> Encoder:
        return open_encoder(self._asked.response_format, streamed=self._asked.stream)

    async def _stream(
        self, piece: Piece | None, pieces: AsyncIterator[Piece], encoder: Encoder, send: Send
    ) -> None:
        as_events = self._as_events
        while piece is not None:
            text: str | None = piece.text
            for part in slices(piece.samples, SLICE if self._sounded else _FIRST_SLICE):
                data = encoder.encode(part)
                # A piece that the encoder keeps for now is told all the same.
                if data or (as_events and text is not None):
                    await self._say(send, sse.delta(data, text) if as_events else data)
                text = None
            self._state.metrics.said(piece.samples.size / SAMPLE_RATE)
            piece = await anext(pieces, None)
        rest = encoder.finish()
        if as_events:
            rest = (sse.delta(rest) if rest else b"") + sse.done()
        await self._say(send, rest, last=True)

    async def _join(
        self, piece: Piece | None, pieces: AsyncIterator[Piece], encoder: Encoder, send: Send
    ) -> None:
        whole = bytearray()
        while piece is not None:
            for part in slices(piece.samples):
                whole += encoder.encode(part)
                await asyncio.sleep(0)
            self._state.metrics.said(piece.samples.size / SAMPLE_RATE)
            piece = await anext(pieces, None)
        whole += encoder.finish()
        # Block by block: one write of it all would never notice that nobody reads.
        for at in range(0, len(whole), _BLOCK_BYTES):
            last = at + _BLOCK_BYTES >= len(whole)
            await self._say(
                send, bytes(whole[at : at + _BLOCK_BYTES]), last=last, length=len(whole)
            )

    async def _say(
        self, send: Send, data: bytes, *, last: bool = False, length: int | None = None
    ) -> None:
        if not self._sounded and data:
            self._sounded = True
            self._state.metrics.first_sound(time.monotonic() - self._began)
        kind = sse.MEDIA_TYPE if self._as_events else MEDIA_TYPES[self._asked.response_format]
        await self.write(send, data, kind, last=last, length=length)


async def _first_sound(pieces: AsyncIterator[Piece]) -> Piece | None:
    """Return the first piece that can be heard, with all the text up to its end."""
    text = ""
    async for piece in pieces:
        text += piece.text
        if piece.samples.size:
            return replace(piece, text=text)
    return None
