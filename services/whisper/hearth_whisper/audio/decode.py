"""Any file with sound in it, as blocks of mono samples at 16 kHz.

A stranger's file is read here: it may lie about its length, name other files, or never end.
"""

import threading
from collections.abc import Iterator
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError

from hearth_serving.errors import ServiceError
from hearth_whisper.audio.source import Source
from hearth_whisper.recognising import SAMPLE_RATE, Samples

# What opens other files, the network or a device instead of reading the bytes it is given: a list
# of names in an upload would be answered with what those files say.
_ELSEWHERE = frozenset([
    "alsa", "concat", "dash", "fbdev", "hds", "hls", "image2", "image2pipe", "imf", "jack",
    "kmsgrab", "lavfi", "oss", "pulse", "rtp", "rtsp", "sap", "sdp", "smoothstreaming", "sndio",
    "video4linux2,v4l2", "webm_dash_manifest", "x11grab", "xcbgrab",
])  # fmt: skip
_FORMATS = ",".join(sorted(av.formats_available - _ELSEWHERE))
# What no recorder makes. A few bytes could become any number of samples: a codec may say that
# they are silence, and a rate of 1 Hz makes hours of each second's worth.
_MOST_PACKET_BYTES = 8 * 1024 * 1024
_MOST_FRAME_SAMPLES = 2 * 1024 * 1024
_MOST_FRAME_S = 60
_RATES = range(2_000, 768_001)
_MOST_CHANNELS = 64
# Also for the frames that are decoded to find out what is in the file.
_DECODING = {"max_samples": str(_MOST_FRAME_SAMPLES)}
_OPTIONS = {"format_whitelist": _FORMATS, "protocol_whitelist": "none", **_DECODING}
_BLOCK = SAMPLE_RATE * 4

_Pcm = npt.NDArray[np.int16]


class Recording:
    """The sound of one open file, once: `for block in recording`, in one thread."""

    def __init__(
        self, source: Source, container: InputContainer, stream: AudioStream, most_s: float
    ) -> None:
        """Read `stream`, but no more than `most_s` of it."""
        self._source, self._container = source, container
        self._stream, self._most_s = stream, most_s
        self._lock = threading.Lock()
        self._begun = self._stopped = False
        self.seconds = 0.0
        """What was read until now."""

    def __iter__(self) -> Iterator[Samples]:
        """Yield float32 within ±1, four seconds at a time; a damaged file gives what it holds.

        Raises ServiceError when it is too long, or when nothing of what is there can be read.
        """
        with self._lock:
            if self._stopped or self._begun:
                return
            self._begun = True
        try:
            for block in _blocks(_resampled(self._frames())):
                yield block.astype(np.float32) / np.float32(32768)
        finally:
            # Left to the collector, each would keep some kilobytes for ever.
            self._container.close()

    def close(self) -> None:
        """End it before its next packet, from any thread; a second time does nothing."""
        self._source.end()
        with self._lock:
            self._stopped = True
            if not self._begun:
                self._container.close()

    def _frames(self) -> Iterator[AudioFrame]:
        packets = self._container.demux(self._stream)
        some, broken = False, False
        while not self._stopped:
            try:
                packet = next(packets, None)
                if packet is None:
                    break
                if packet.size > _MOST_PACKET_BYTES:
                    raise _unreadable()
                for frame in packet.decode():
                    some = True
                    self._count(frame)
                    yield frame
            except EOFError:
                break
            except FFmpegError:
                # One bad packet says nothing of the next; after the last, demux ends by itself.
                broken = True
            except ValueError:  # the file was closed, because nobody wants it
                if not self._source.ended:
                    raise
        if not self._stopped and (self._source.refused or (broken and not some)):
            raise _unreadable()

    def _count(self, frame: AudioFrame) -> None:
        """Count a frame before anything is made of it."""
        rate, channels = frame.sample_rate, frame.layout.nb_channels
        _check(rate, channels)
        if frame.samples > _MOST_FRAME_S * rate:
            raise _unreadable()
        self.seconds += frame.samples / rate
        if self.seconds > self._most_s:
            raise _too_long(self._most_s)


def open_sound(source: Source, most_s: float) -> Recording:
    """Open what was uploaded; raises ServiceError where no sound can be found, or too much.

    What it costs is bounded by the source, and ends with it.
    """
    try:
        file = cast(Any, source)
        container = av.open(file, "r", metadata_errors="ignore", options=_OPTIONS)
    except (FFmpegError, UnicodeError, MemoryError) as error:
        raise _unreadable() from error
    except ValueError as error:
        if not source.ended:
            raise
        raise _unreadable() from error
    source.opened()
    try:
        if source.refused:
            raise _unreadable()
        return Recording(source, container, _stream_of(container, most_s), most_s)
    except ServiceError:
        container.close()
        raise


def _stream_of(container: InputContainer, most_s: float) -> AudioStream:
    stream = container.streams.best("audio")
    if not isinstance(stream, AudioStream):
        raise ServiceError("this file has no audio", param="file", code="no_audio")
    # Many a container says how long it is, and then nobody waits for hours to hear that it is too
    # long. It may lie: what is read is counted as well.
    if container.duration is not None and container.duration / av.time_base > most_s + 60:
        raise _too_long(most_s)
    context = stream.codec_context
    # What is not known yet, each frame says.
    _check(context.sample_rate or SAMPLE_RATE, context.layout.nb_channels)
    context.options = _DECODING
    return stream


def _check(rate: int, channels: int) -> None:
    if rate not in _RATES or channels > _MOST_CHANNELS:
        raise _unreadable()


def _blocks(frames: Iterator[AudioFrame]) -> Iterator[_Pcm]:
    """Join frames: thousands of small steps would take much longer than a few large ones."""
    held: list[_Pcm] = []
    count = 0
    for frame in frames:
        held.append(frame.to_ndarray()[0])
        count += held[-1].size
        if count >= _BLOCK:
            whole = np.concatenate(held)
            rest = whole.size % _BLOCK
            for at in range(0, whole.size - rest, _BLOCK):
                yield whole[at : at + _BLOCK]
            held, count = [whole[whole.size - rest :]], rest
    if count:
        yield np.concatenate(held)


def _resampled(frames: Iterator[AudioFrame]) -> Iterator[AudioFrame]:
    """Yield mono frames; a sound may change its rate and its channels in the middle."""
    resampler, shape = None, None
    try:
        for frame in frames:
            here: Any = (frame.format.name, frame.layout.name, frame.sample_rate)
            if resampler is None or here != shape:
                if resampler:
                    yield from resampler.resample(None)
                resampler, shape = AudioResampler("s16", "mono", SAMPLE_RATE), here
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


def _too_long(most_s: float) -> ServiceError:
    message = f"this audio is longer than {most_s / 3600:g} hours; send it in parts"
    return ServiceError(message, param="file", code="audio_too_long")
