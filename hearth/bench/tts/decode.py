"""Decodes the answers of TTS servers, and notes when each part of the sound could be decoded.

A frame of sound can be decoded as soon as its last byte has arrived. So the bytes are timestamped
at arrival and decoded afterwards: decoding takes no time from the server that is measured, and no
decoder's read-ahead makes a server look slower than it is.
"""

from __future__ import annotations

import bisect
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame

from hearth.clients import ClientError
from hearth.clients.sound import RATE, Chunk

FORMATS = ("pcm", "wav", "mp3", "opus", "aac", "flac")
"""What OpenAI's speech endpoint offers."""
_OPUS_RATE = 48_000
_OGG_HEADER, _OGG_CONTINUED, _OGG_FIRST = 27, 1, 2
_WAV_PCM, _WAV_EXTENSIBLE, _WAV_HEADER_BYTES = 1, 0xFFFE, 65_536


@dataclass(frozen=True, slots=True)
class Sound:
    """Decoded mono sound, each chunk with the time from which it could be decoded."""

    rate: int
    chunks: list[Chunk]


def decode(kind: str, arrived: Sequence[Chunk]) -> Sound:
    """Return the sound in `arrived`, whose bytes have one of `FORMATS`.

    Raises:
        ClientError: the bytes have another format.
    """
    if kind == "pcm":
        return Sound(RATE, list(arrived))
    if kind == "wav":
        return _wav(arrived)
    data = b"".join(chunk.pcm for chunk in arrived)
    ends = list(itertools.accumulate(len(chunk.pcm) for chunk in arrived))
    chunks, rate, end = [], RATE, 0
    try:
        for end, frame in _opus(data) if kind == "opus" else _parsed(kind, data):
            rate = frame.sample_rate
            chunks.append(Chunk(arrived[bisect.bisect_left(ends, end)].at_s, _pcm(frame)))
    except av.FFmpegError as error:
        raise ClientError(f"broken {kind} after byte {end}: {error.strerror}") from error
    if not chunks:
        raise ClientError(f"no sound in {len(data)} bytes of {kind}")
    return Sound(rate, chunks)


def _parsed(kind: str, data: bytes) -> Iterator[tuple[int, AudioFrame]]:
    """Yield the frames of mp3, aac or flac with the offset at which each one's bytes end."""
    context: AudioCodecContext = av.CodecContext.create(kind, "r")  # type: ignore[assignment]
    end = _tag_bytes(data)
    packets, broken = list(context.parse(data[end:])), 0
    # A parser returns its buffered rest bit by bit.
    while rest := context.parse(None):
        packets += rest
    for packet in packets:
        end += packet.size
        try:
            yield from ((end, frame) for frame in context.decode(packet))
        except av.FFmpegError:
            broken += 1
            # The first packet may be a table of contents and no sound.
            if broken > 1:
                raise
    yield from ((end, frame) for frame in context.decode(None))


def _opus(data: bytes) -> Iterator[tuple[int, AudioFrame]]:
    """Yield the frames of opus in ogg with the offset at which each one's page ends."""
    context: AudioCodecContext | None = None
    for end, first, packet in _ogg_packets(data):
        if first:
            if not packet.startswith(b"OpusHead"):
                raise ClientError(f"not Opus: the stream starts with {packet[:8]!r}")
            context = av.CodecContext.create("libopus", "r")
            assert context is not None  # noqa: S101 - for the type checker
            context.extradata, context.sample_rate, context.layout = packet, _OPUS_RATE, "mono"
        elif context is not None and not packet.startswith(b"OpusTags"):
            yield from ((end, frame) for frame in context.decode(av.Packet(packet)))


def _tag_bytes(data: bytes) -> int:
    """Return the length of the tag before an mp3's sound."""
    if data[:3] != b"ID3" or len(data) < 10:
        return 0
    size = 0
    for byte in data[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size


def _pcm(frame: AudioFrame) -> bytes:
    """Return the frame as 16-bit mono at its own rate."""
    (same,) = av.AudioResampler("s16", "mono", frame.sample_rate).resample(frame)
    # A plane is padded for the processor.
    return bytes(same.planes[0])[: same.samples * 2]


def _ogg_packets(data: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Yield (end, first, packet): the packet is complete once `end` bytes of `data` are there.

    `first` marks the first packet of a stream; several streams may follow each other. A page counts
    when all of it is there, for only then can its checksum be verified.
    """
    at, rest = 0, b""
    while at < len(data):
        if data[at : at + 4] != b"OggS":
            raise ClientError(f"not Ogg: at byte {at} it has {data[at : at + 4]!r}")
        if at + _OGG_HEADER > len(data):
            return
        kind, count = data[at + 5], data[at + 26]
        table = data[at + _OGG_HEADER : at + _OGG_HEADER + count]
        body = at + _OGG_HEADER + count
        end = body + sum(table)
        if end > len(data) or len(table) < count:
            return
        if not kind & _OGG_CONTINUED:
            rest = b""
        first = bool(kind & _OGG_FIRST)
        for lacing in table:
            rest += data[body : body + lacing]
            body += lacing
            # 255 means that the packet continues in the next segment.
            if lacing < 255:
                yield end, first, rest
                first, rest = False, b""
        at = end


def _wav(arrived: Sequence[Chunk]) -> Sound:
    """Return the sound behind a WAV header, whatever length the header promises."""
    data = b"".join(chunk.pcm for chunk in arrived)
    rate, start, size = _wav_header(data)
    # A stream does not know its length: then the header has 0 or a very large one.
    end, at, chunks = start + size if size else len(data), 0, []
    for chunk in arrived:
        pcm = chunk.pcm[max(0, start - at) : max(0, end - at)]
        at += len(chunk.pcm)
        if pcm:
            chunks.append(Chunk(chunk.at_s, pcm))
    return Sound(rate, chunks)


def _wav_header(data: bytes) -> tuple[int, int, int]:
    """Return the rate, and the start and size of the sound."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ClientError(f"not WAV: it starts with {data[:12]!r}")
    at, rate = 12, 0
    while at + 8 <= min(len(data), _WAV_HEADER_BYTES):
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        if name == b"data":
            if not rate:
                raise ClientError("not WAV: sound before its format")
            return rate, at, size
        if name == b"fmt ":
            if size < 16 or at + 16 > len(data):
                raise ClientError("not WAV: its format is cut short")
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", data, at)
            if kind not in (_WAV_PCM, _WAV_EXTENSIBLE) or channels != 1 or bits != 16 or not rate:
                raise ClientError(
                    f"WAV of kind {kind}, {channels} channels and {bits} bits: "
                    "only mono of 16 bits is supported"
                )
        at += size + size % 2
    raise ClientError("this WAV file has no sound")
