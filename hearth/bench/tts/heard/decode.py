"""Decodes what a speech server sent, and says when each part of the sound could be decoded.

A frame of sound can be decoded as soon as the last of its bytes is there. So the bytes are stamped
as they arrive and decoded afterwards: decoding takes no time from the server that is measured, and
no decoder's read-ahead makes a server look slower than it is.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hearth.bench.tts.heard import ogg, wav
from hearth.clients import ClientError
from hearth.clients.sound import RATE, Chunk

if TYPE_CHECKING:
    from av import Packet
    from av.audio.codeccontext import AudioCodecContext
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream

FORMATS = ("pcm", "wav", "mp3", "opus", "aac", "flac")
"""What OpenAI's speech endpoint offers."""
_OPUS_RATE = 48_000


@dataclass(frozen=True, slots=True)
class Sound:
    """Decoded mono sound, each chunk with the time at which it could be decoded."""

    rate: int
    chunks: list[Chunk]


def decode(kind: str, arrived: Sequence[Chunk]) -> Sound:
    """Return the sound in `arrived`, whose bytes are of one of `FORMATS`.

    Raises:
        ClientError: the bytes are not of that format.
    """
    if kind == "pcm":
        return Sound(RATE, list(arrived))
    if kind == "wav":
        read = wav.read(arrived)
        return Sound(read.rate, read.chunks)
    data = b"".join(chunk.pcm for chunk in arrived)
    ends = list(itertools.accumulate(len(chunk.pcm) for chunk in arrived))
    chunks, rate = [], RATE
    for end, frame in _opus(data) if kind == "opus" else _parsed(kind, data):
        rate = frame.sample_rate
        chunks.append(Chunk(arrived[bisect.bisect_left(ends, end)].at_s, _bytes(frame)))
    if not chunks:
        raise ClientError(f"no {kind}: {len(data)} bytes in which no sound is found")
    return Sound(rate, chunks)


def _parsed(kind: str, data: bytes) -> Iterator[tuple[int, AudioFrame]]:
    """Yield the frames of mp3, aac or flac with the offset at which each one's bytes end."""
    import av

    context: AudioCodecContext = av.CodecContext.create(kind, "r")  # type: ignore[assignment]
    end = _tag_bytes(data)
    broken = 0
    for packet in _split(context, data[end:]):
        end += packet.size
        try:
            for frame in context.decode(packet):
                yield end, _mono(frame)
        except av.FFmpegError as error:
            broken += 1
            # What an encoder puts first may be a table of contents and no sound.
            if broken > 1:
                raise ClientError(f"broken {kind} at byte {end}: {error.strerror}") from error
    for frame in context.decode(None):
        yield end, _mono(frame)


def _split(context: AudioCodecContext, data: bytes) -> Iterator[Packet[AudioStream]]:
    yield from context.parse(data)
    # A parser hands out what it kept back only bit by bit.
    while rest := context.parse(None):
        yield from rest


def _opus(data: bytes) -> Iterator[tuple[int, AudioFrame]]:
    """Yield the frames of opus in ogg with the offset at which each one's page ends."""
    import av

    context: AudioCodecContext | None = None
    for end, first, packet in ogg.packets(data):
        if first:
            if not packet.startswith(b"OpusHead"):
                raise ClientError(f"no opus: the stream begins with {packet[:8]!r}")
            context = av.CodecContext.create("libopus", "r")
            assert context is not None  # noqa: S101 - says so to the type checker
            context.extradata, context.sample_rate, context.layout = packet, _OPUS_RATE, "mono"
        elif context is not None and not packet.startswith(b"OpusTags"):
            try:
                for frame in context.decode(av.Packet(packet)):
                    yield end, _mono(frame)
            except av.FFmpegError as error:
                raise ClientError(f"broken opus at byte {end}: {error.strerror}") from error


def _tag_bytes(data: bytes) -> int:
    """Return the length of the tag that stands before an mp3's sound."""
    if data[:3] != b"ID3" or len(data) < 10:
        return 0
    size = 0
    for byte in data[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size


def _mono(frame: AudioFrame) -> AudioFrame:
    """Return the frame as 16-bit mono at its own rate."""
    import av

    (same,) = av.AudioResampler("s16", "mono", frame.sample_rate).resample(frame)
    return same


def _bytes(frame: AudioFrame) -> bytes:
    # A plane is padded to what suits the processor.
    return bytes(frame.planes[0])[: frame.samples * 2]
