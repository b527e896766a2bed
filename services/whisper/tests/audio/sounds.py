"""Audio files in many formats, made in memory."""

import io
import struct
import zlib
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream

Pcm = npt.NDArray[np.int16]


def tone(seconds: float, rate: int = 16_000, hertz: float = 440) -> Pcm:
    """Return a tone."""
    at = np.arange(round(seconds * rate)) / rate
    return np.asarray(9000 * np.sin(2 * np.pi * hertz * at), np.int16)


def wav(data: bytes, rate: int = 16_000, channels: int = 1, bits: int = 16, kind: int = 1) -> bytes:
    """Return a wav file of these bytes, with a header that may be wrong."""
    step = channels * bits // 8
    head = struct.pack("<HHIIHH", kind, channels, rate, rate * step & 0xFFFF_FFFF, step, bits)
    parts = b"fmt " + struct.pack("<I", len(head)) + head
    parts += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(parts)) + b"WAVE" + parts


def encoded(container: str, codec: str, pcm: Pcm, rate: int = 16_000, **options: Any) -> bytes:
    """Return a file in this container, such as mp4, with this codec."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, **options)
        assert isinstance(stream, AudioStream)
        stream.layout = "mono"
        frame = AudioFrame.from_ndarray(pcm[None, :], format="s16", layout="mono")
        frame.sample_rate = rate
        resampler = av.AudioResampler(stream.codec_context.format, "mono", rate, 960)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            file.mux(stream.encode(piece))
        file.mux(stream.encode(None))
    return out.getvalue()


def png() -> bytes:
    """Return a small picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(b"\0" * 25 * 8))
    return b"\x89PNG\r\n\x1a\n" + head + rows + chunk(b"IEND", b"")
