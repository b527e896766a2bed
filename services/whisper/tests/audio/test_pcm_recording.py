"""PCM in any supported format becomes the same samples."""

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.audio.pcm import PcmRecording
from hearth_whisper.recognition import SAMPLE_RATE, Samples

from ..wyoming.conftest import tone

AS_WIDE = {
    1: lambda x: np.round(x * 127 + 128).astype("u1"),
    2: lambda x: np.round(x * 32_767).astype("<i2"),
    4: lambda x: np.round(x * 2_147_483_647).astype("<i4"),
}


def recorded(sound: bytes, rate: int, width: int, channels: int, by: int = 1024) -> Samples:
    recording = PcmRecording(60)
    samples = [
        recording.read(rate, width, channels, sound[at : at + by])
        for at in range(0, len(sound), by)
    ]
    return np.concatenate([np.zeros(0, np.float32), *samples])


def wave(rate: int, seconds: float = 1.0, hertz: float = 440.0) -> Samples:
    found = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)
    return found.astype(np.float32)


@pytest.mark.parametrize("by", [1, 3, 777, 65_536])
def test_the_size_of_chunks_does_not_matter(by: int) -> None:
    sound = tone(0.3)
    samples = recorded(sound, SAMPLE_RATE, 2, 1, by)
    assert np.array_equal(samples, np.frombuffer(sound, "<i2") / np.float32(32_768))
    assert samples.dtype == np.float32


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_every_width_and_number_of_channels_gives_the_same_audio(width: int, channels: int) -> None:
    mono = wave(SAMPLE_RATE)
    sound = AS_WIDE[width](np.repeat(mono[:, np.newaxis], channels, axis=1)).tobytes()
    samples = recorded(sound, SAMPLE_RATE, width, channels, by=1023)
    assert samples.size == mono.size
    assert float(np.abs(samples - mono).max()) < (0.01 if width == 1 else 0.0001)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_every_rate_gives_the_same_audio(rate: int) -> None:
    sound = AS_WIDE[2](wave(rate)).tobytes()
    samples, right = recorded(sound, rate, 2, 1), wave(SAMPLE_RATE)
    assert abs(samples.size - right.size) <= SAMPLE_RATE // 200
    # The filter rings at both ends.
    middle = slice(1600, 14_000)
    assert float(np.abs(samples[middle] - right[middle]).max()) < 0.02


def test_opposite_channels_cancel_out_and_do_not_overflow() -> None:
    loud = np.array([[32_767, -32_768], [32_767, 32_767]] * 100, "<i2")
    samples = recorded(loud.tobytes(), SAMPLE_RATE, 2, 2)
    assert set(np.round(samples, 3)) <= {np.float32(0.0), np.float32(1.0)}


def test_no_data_gives_no_samples() -> None:
    assert recorded(b"", 48_000, 2, 1).size == 0
    assert PcmRecording(1).seconds == 0
    # Half a sample is not returned.
    assert recorded(b"\1", 48_000, 2, 1).size == 0


@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
def test_a_recording_has_a_maximum_length(rate: int) -> None:
    recording = PcmRecording(2)
    for _ in range(20):
        recording.read(rate, 2, 1, bytes(rate // 5))
    assert recording.seconds == 2
    with pytest.raises(ServiceError, match="at most 2 s") as refused:
        recording.read(rate, 2, 1, bytes(2))
    assert refused.value.status == 413
