"""Encodes samples as they are synthesised, in each format.

A codec with frames holds back the samples that do not fill a frame, and its look-ahead. They are
returned with the next segment or at the end.
"""

import io
import struct
import time
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import av
import numpy as np
import numpy.typing as npt
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream

from hearth_kokoro.engines import SAMPLE_RATE, Samples

_UNKNOWN = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class _Codec:
    media_type: str
    container: str
    name: str
    sample_format: str
    bits_per_s: int | None
    codec_options: dict[str, str]
    # Makes the container buffer nothing; only for streams.
    stream_options: dict[str, str]


_CODECS = {
    # With a bit reservoir a frame waits for the next ones.
    "mp3": _Codec(
        "audio/mpeg", "mp3", "libmp3lame", "s16p", 96_000,
        {"reservoir": "0"}, {"write_xing": "0", "id3v2_version": "0"},
    ),
    "opus": _Codec(
        "audio/ogg", "ogg", "libopus", "s16", 48_000,
        {"application": "audio", "frame_duration": "20"}, {"page_duration": "20000"},
    ),
    "aac": _Codec("audio/aac", "adts", "aac", "fltp", 96_000, {}, {}),
    "flac": _Codec(
        "audio/flac", "flac", "flac", "s16", None,
        {"compression_level": "1"}, {"metadata_header_padding": "0"},
    ),
}  # fmt: skip

MEDIA_TYPES = {
    **{name: codec.media_type for name, codec in _CODECS.items()},
    "wav": "audio/wav",
    # Raw samples have no header, so the content type describes them.
    "pcm": f"audio/pcm;rate={SAMPLE_RATE};channels=1;format=s16le",
}
"""Content type of each format."""

HELD_MS = {"mp3": 48, "opus": 47, "aac": 86, "flac": 24, "wav": 0, "pcm": 0}
"""The most sound that each format holds back after a segment: frames and look-ahead."""


class Encoder(Protocol):
    """Encodes the sound of one response; not safe for threads."""

    def encode(self, samples: Samples) -> bytes:
        """Return the bytes that are ready."""
        ...

    def finish(self) -> bytes:
        """Return the rest; the encoder cannot be used after this."""
        ...


class TimedEncoder:
    """An encoder that measures itself."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._seconds = encoder, 0.0

    def encode(self, samples: Samples) -> bytes:
        """Return the bytes that are ready."""
        start = time.perf_counter()
        data = self._encoder.encode(samples)
        self._seconds += time.perf_counter() - start
        return data

    def finish(self) -> bytes:
        """Return the rest."""
        return self._encoder.finish()

    def lap_s(self) -> float:
        """Return how many seconds it has encoded since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def open_encoder(format_name: str, *, streamed: bool = True) -> TimedEncoder:
    """Open an encoder; one that is not `streamed` returns everything in `finish`.

    Only then the header can contain the length.
    """
    if format_name in _CODECS:
        return TimedEncoder(_CodecEncoder(_CODECS[format_name], streamed))
    return TimedEncoder(_PcmEncoder(format_name == "wav", streamed))


def open_file_encoder(format_name: str, file: BinaryIO) -> Encoder:
    """Open an encoder of mp3, opus, aac or flac that writes a whole file, with its length."""
    return _CodecEncoder(_CODECS[format_name], streamed=False, file=file)


def wav_header(data_bytes: int | None) -> bytes:
    """Return the header of a mono 16-bit file; None means an unknown length, as at OpenAI."""
    known = data_bytes is not None and data_bytes + 36 < _UNKNOWN
    size, riff = (data_bytes, (data_bytes or 0) + 36) if known else (_UNKNOWN, _UNKNOWN)
    sound = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLE_RATE, SAMPLE_RATE * 2, 2, 16)
    return (
        struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + sound + struct.pack("<4sI", b"data", size)
    )


def to_pcm(samples: Samples) -> npt.NDArray[np.int16]:
    """Return 16-bit samples; values beyond full scale are clipped."""
    scaled: Samples = np.rint(np.clip(np.nan_to_num(samples), -1.0, 1.0) * np.float32(32767))
    return scaled.astype("<i2")


class _PcmEncoder:
    def __init__(self, wav: bool, streamed: bool) -> None:
        self._wav, self._streamed = wav, streamed
        self._header = wav_header(None) if wav and streamed else b""
        self._buffered: list[bytes] = []

    def encode(self, samples: Samples) -> bytes:
        data = self._header + to_pcm(samples).tobytes()
        self._header = b""
        if self._streamed:
            return data
        self._buffered.append(data)
        return b""

    def finish(self) -> bytes:
        data, self._buffered = b"".join(self._buffered), []
        whole = wav_header(len(data)) if self._wav and not self._streamed else self._header
        self._header = b""
        return whole + data


class _WriteOnlyBuffer:
    """A file without seek: written bytes wait here until they are taken."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, data: bytes) -> int:
        self._bytes += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._bytes)
        self._bytes.clear()
        return taken


class _CodecEncoder:
    def __init__(self, codec: _Codec, streamed: bool, file: BinaryIO | None = None) -> None:
        self._file: _WriteOnlyBuffer | BinaryIO = file or (
            _WriteOnlyBuffer() if streamed else io.BytesIO()
        )
        options = {**codec.stream_options, "flush_packets": "1"} if streamed else {}
        self._container = av.open(
            self._file, "w", format=codec.container, container_options=options, buffer_size=4096
        )
        stream = self._container.add_stream(
            codec.name, rate=SAMPLE_RATE, options=dict(codec.codec_options)
        )
        assert isinstance(stream, AudioStream)  # noqa: S101 - the type that PyAV promises for audio
        context: AudioCodecContext = stream.codec_context
        context.layout = "mono"
        context.format = codec.sample_format
        if codec.bits_per_s:
            context.bit_rate = codec.bits_per_s
        self._container.start_encoding()
        self._stream, self._sample_format, self._at = stream, codec.sample_format, 0

    def encode(self, samples: Samples) -> bytes:
        if samples.size:
            floating = self._sample_format.startswith("flt")
            mono = (samples if floating else to_pcm(samples)).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(mono, format=self._sample_format, layout="mono")
            frame.sample_rate, frame.pts = SAMPLE_RATE, self._at
            self._at += samples.size
            self._container.mux(self._stream.encode(frame))
        return self._file.take() if isinstance(self._file, _WriteOnlyBuffer) else b""

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        if isinstance(self._file, _WriteOnlyBuffer):
            return self._file.take()
        return self._file.getvalue() if isinstance(self._file, io.BytesIO) else b""
