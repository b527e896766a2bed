"""Decodes the answers of TTS servers, and notes when each part of the sound could be decoded.

A frame of sound can be decoded as soon as its last byte has arrived. So the bytes are timestamped
at arrival and decoded afterwards: decoding takes no time from the server that is measured, and no
decoder's read-ahead makes a server look slower than it is.
"""

from __future__ import annotations

import bisect
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

from hearth.clients import ClientError
from hearth.clients.sound import RATE, Chunk

FORMATS = ("pcm", "wav", "mp3", "opus", "aac", "flac")
"""What OpenAI's speech endpoint offers."""
_CONTAINERS, _CODECS = {"opus": "ogg"}, {"wav": "pcm_s16le"}
"""FFmpeg's names of a format's container and codec, where it has others."""


@dataclass(frozen=True, slots=True)
class Sound:
    """Decoded mono sound, each chunk with the time from which it could be decoded."""

    rate: int
    chunks: list[Chunk]


def decode_sound(kind: str, arrived: Sequence[Chunk]) -> Sound:
    """Return the sound in `arrived`, whose bytes have one of `FORMATS`.

    Raises:
        ClientError: the bytes have another format.
    """
    if kind == "pcm":
        return Sound(RATE, list(arrived))
    data = b"".join(chunk.pcm for chunk in arrived)
    ends = list(itertools.accumulate(len(chunk.pcm) for chunk in arrived))
    chunks, rate, end = list[Chunk](), RATE, 0
    try:
        with av.open(io.BytesIO(data), "r", format=_CONTAINERS.get(kind, kind)) as container:
            _verify(kind, container)
            if kind == "wav":
                rate, chunks = _wav(container, arrived)
            else:
                for end, frame in _frames(container, data if kind == "opus" else b""):
                    rate = frame.sample_rate
                    chunks.append(Chunk(arrived[bisect.bisect_left(ends, end)].at_s, _pcm(frame)))
    except av.FFmpegError as error:
        if chunks:
            raise ClientError(f"broken {kind} after byte {end}: {error.strerror}") from error
    if not chunks:
        raise ClientError(f"no sound in {len(data)} bytes of {kind}: {data[:40]!r}")
    return Sound(rate, chunks)


def _verify(kind: str, container: InputContainer) -> None:
    context = container.streams.audio[0].codec_context if container.streams.audio else None
    codec = context.codec.canonical_name if context else "an unknown codec"
    if context is None or codec != _CODECS.get(kind, kind):
        raise ClientError(f"{kind} with {codec} is not supported")
    if kind == "wav" and context.channels != 1:
        raise ClientError(f"wav with {context.channels} channels is not supported")


def _frames(container: InputContainer, ogg: bytes) -> Iterator[tuple[int, AudioFrame]]:
    """Yield each frame with the offset at which its bytes end; at most one packet may be broken."""
    # A page of Ogg counts when all of it is there: only then can its checksum be verified.
    pages = [*(match.start() for match in re.finditer(b"OggS", ogg)), len(ogg)]
    end = broken = 0
    for packet in container.demux(audio=0):
        # The last packet is empty, and returns what the decoder has kept.
        if packet.pos is not None:
            end = pages[bisect.bisect(pages, packet.pos)] if ogg else packet.pos + packet.size
        try:
            yield from ((end, frame) for frame in packet.decode())
        except av.FFmpegError:
            broken += 1
            # The last packet of a stream that was cut is broken.
            if broken > 1:
                raise


def _pcm(frame: AudioFrame) -> bytes:
    """Return the frame as 16-bit mono at its own rate."""
    (same,) = av.AudioResampler("s16", "mono", frame.sample_rate).resample(frame)
    # A plane is padded for the processor.
    return bytes(same.planes[0])[: same.samples * 2]


def _wav(container: InputContainer, arrived: Sequence[Chunk]) -> tuple[int, list[Chunk]]:
    """Return the rate, and the sound behind the header, whatever length the header promises.

    A packet has 85 ms of it, so its chunks are cut where they arrived.
    """
    stream = container.streams.audio[0]
    spans = [(p.pos, p.pos + p.size) for p in container.demux(stream) if p.pos is not None]
    start, end = (spans[0][0], spans[-1][1]) if spans else (0, 0)
    at, chunks = 0, []
    for chunk in arrived:
        if pcm := chunk.pcm[max(0, start - at) : max(0, end - at)]:
            chunks.append(Chunk(chunk.at_s, pcm))
        at += len(chunk.pcm)
    return stream.rate, chunks
