"""Decode any file with audio into blocks of mono samples at 16 kHz.

The files are untrusted: one may lie about its length, name other files, or never end.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError

from hearth_serving.errors import ServiceError
from hearth_whisper.audio.bounded_reader import BoundedReader
from hearth_whisper.recognition import SAMPLE_RATE, Samples

# These demuxers open other files, the network or a device: a playlist in an upload would be
# answered with the content of the files that it names.
_REFERENCING_FORMATS = frozenset([
    "alsa", "concat", "dash", "fbdev", "hds", "hls", "image2", "image2pipe", "imf", "jack",
    "kmsgrab", "lavfi", "oss", "pulse", "rtp", "rtsp", "sap", "sdp", "smoothstreaming", "sndio",
    "video4linux2,v4l2", "webm_dash_manifest", "x11grab", "xcbgrab",
])  # fmt: skip
_FORMATS = ",".join(sorted(av.formats_available - _REFERENCING_FORMATS))
# No recorder exceeds these. A few bytes could become any number of samples: a codec may code
# silence, and at 1 Hz each second becomes hours of audio.
_MAX_PACKET_BYTES = 8 * 1024 * 1024
_MAX_FRAME_SAMPLES = 2 * 1024 * 1024
_MAX_FRAME_S = 60
_RATES = range(2_000, 768_001)
_MAX_CHANNELS = 64
# Applies to the frames that are decoded while the file is probed, too.
_CODEC_OPTIONS = {"max_samples": str(_MAX_FRAME_SAMPLES)}
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "none", **_CODEC_OPTIONS}
_BLOCK = SAMPLE_RATE * 4

_Int16Samples = npt.NDArray[np.int16]

# A crafted file can take seconds to open. asyncio's default pool is shared, and waited for at
# the end, so it must not be full of them; nor may they take all processors.
_OPENING_POOL = ThreadPoolExecutor(4, "open")


class AudioFile:
    """The audio of one open file, once: `for block in file`, in one thread."""

    def __init__(
        self, reader: BoundedReader, container: InputContainer, stream: AudioStream, max_s: float
    ) -> None:
        """Read `stream`, but no more than `max_s` of it."""
        self._reader, self._container = reader, container
        self._stream, self._max_s = stream, max_s
        self._lock = threading.Lock()
        self._started = self._stopped = False
        self.seconds = 0.0
        """The length of what was read until now."""

    def __iter__(self) -> Iterator[Samples]:
        """Yield float32 within ±1, four seconds at a time; of a damaged file, what it contains.

        Raises ServiceError when it is too long, or when none of it can be decoded.
        """
        with self._lock:
            if self._stopped or self._started:
                return
            self._started = True
        try:
            for block in _blocks(_resampled(self._frames())):
                yield block.astype(np.float32) / np.float32(32768)
        finally:
            # Left to the garbage collector, each would leak some kilobytes.
            self._container.close()

    def close(self) -> None:
        """End it before its next packet, from any thread; closing twice is harmless."""
        self._reader.end()
        with self._lock:
            self._stopped = True
            if not self._started:
                self._container.close()

    def _frames(self) -> Iterator[AudioFrame]:
        packets = self._container.demux(self._stream)
        decoded, damaged = False, False
        while not self._stopped:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                if packet.size > _MAX_PACKET_BYTES:
                    raise _unreadable()
                for frame in packet.decode():
                    decoded = True
                    self._count(frame)
                    yield frame
            except EOFError:
                break
            except FFmpegError:
                # The packets after a damaged one may be intact; after the last, demux ends.
                damaged = True
            except ValueError:  # the file was closed because its request was cancelled
                if not self._reader.ended:
                    raise
        if not self._stopped and (self._reader.limit_exceeded or (damaged and not decoded)):
            raise _unreadable()

    def _count(self, frame: AudioFrame) -> None:
        """Check and count a frame before it is resampled."""
        rate, channels = frame.sample_rate, frame.layout.nb_channels
        _check(rate, channels)
        if frame.samples > _MAX_FRAME_S * rate:
            raise _unreadable()
        self.seconds += frame.samples / rate
        if self.seconds > self._max_s:
            raise _too_long(self._max_s)


def open_audio(reader: BoundedReader, max_s: float) -> AudioFile:
    """Open an upload; raises ServiceError where there is no audio, or too much.

    The reader bounds the cost, and can end it.
    """
    try:
        file = cast(Any, reader)
        container = av.open(file, "r", metadata_errors="ignore", options=_OPTIONS)
    except (FFmpegError, UnicodeError, MemoryError) as error:
        raise _unreadable() from error
    except ValueError as error:
        if not reader.ended:
            raise
        raise _unreadable() from error
    reader.opened()
    try:
        if reader.limit_exceeded:
            raise _unreadable()
        return AudioFile(reader, container, _audio_stream(container, max_s), max_s)
    except ServiceError:
        container.close()
        raise


async def open_upload(file: IO[bytes], max_s: float) -> AudioFile:
    """Open an upload in a separate thread, which a cancellation ends; raises as `open_audio`."""
    reader = BoundedReader(file)
    opening = _OPENING_POOL.submit(open_audio, reader, max_s)
    try:
        return await asyncio.wrap_future(opening)
    except asyncio.CancelledError:
        reader.end()
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: Future[AudioFile]) -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result().close()


def _audio_stream(container: InputContainer, max_s: float) -> AudioStream:
    stream = container.streams.best("audio")
    if not isinstance(stream, AudioStream):
        raise ServiceError("this file has no audio", param="file", code="no_audio")
    # Rejects a long file at once if the container states its length. That may be wrong: the
    # decoded audio is counted as well.
    if container.duration is not None and container.duration / av.time_base > max_s + 60:
        raise _too_long(max_s)
    context: AudioCodecContext | None = stream.codec_context
    # Without a decoder for it, such as a wav file with 0 bits per sample.
    if context is None:
        raise _unreadable()
    # A rate that is not known yet is checked with each frame.
    _check(context.sample_rate or SAMPLE_RATE, context.layout.nb_channels)
    context.options = _CODEC_OPTIONS
    return stream


def _check(rate: int, channels: int) -> None:
    if rate not in _RATES or channels > _MAX_CHANNELS:
        raise _unreadable()


def _blocks(frames: Iterator[AudioFrame]) -> Iterator[_Int16Samples]:
    """Join frames: thousands of small steps would take much longer than a few large ones."""
    held: list[_Int16Samples] = []
    count = 0
    for frame in frames:
        held.append(frame.to_ndarray()[0])
        count += held[-1].size
        if count >= _BLOCK:
            joined = np.concatenate(held)
            rest = joined.size % _BLOCK
            for start in range(0, joined.size - rest, _BLOCK):
                yield joined[start : start + _BLOCK]
            held, count = [joined[joined.size - rest :]], rest
    if count:
        yield np.concatenate(held)


def _resampled(frames: Iterator[AudioFrame]) -> Iterator[AudioFrame]:
    """Yield mono frames; rate and channels may change in the middle of a file."""
    resampler, resampler_input = None, None
    try:
        for frame in frames:
            frame_format: Any = (frame.format.name, frame.layout.name, frame.sample_rate)
            if resampler is None or frame_format != resampler_input:
                if resampler:
                    yield from resampler.resample(None)
                resampler = AudioResampler("s16", "mono", SAMPLE_RATE)
                resampler_input = frame_format
            yield from resampler.resample(frame)
        if resampler:
            yield from resampler.resample(None)
    except FFmpegError as error:
        message = "the audio cannot be resampled to 16 kHz mono; convert the file to wav"
        raise ServiceError(message, param="file", code="unreadable_audio") from error


def _unreadable() -> ServiceError:
    message = (
        "no audio can be decoded from this file: is it another kind of file, or is it truncated? "
        "flac, mp3, mp4, m4a, ogg, opus, wav, webm and most other formats are supported"
    )
    return ServiceError(message, param="file", code="unreadable_audio")


def _too_long(max_s: float) -> ServiceError:
    message = f"this audio is longer than {max_s / 3600:g} hours; send it in parts"
    return ServiceError(message, param="file", code="audio_too_long")
