"""Whatever kind of PCM a satellite sends, Whisper hears the same sound."""

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import SAMPLE_RATE, Samples
from hearth_whisper.wyoming.chunks import Chunks

from .conftest import tone

AS_WIDE = {
    1: lambda x: np.round(x * 127 + 128).astype("u1"),
    2: lambda x: np.round(x * 32_767).astype("<i2"),
    4: lambda x: np.round(x * 2_147_483_647).astype("<i4"),
}


def recorded(sound: bytes, rate: int, width: int, channels: int, by: int = 1024) -> Samples:
    recording = Chunks(60)
    heard = [
        recording.read(rate, width, channels, sound[at : at + by])
        for at in range(0, len(sound), by)
    ]
    return np.concatenate([np.zeros(0, np.float32), *heard])


def wave(rate: int, seconds: float = 1.0, hertz: float = 440.0) -> Samples:
    found = 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate)
    return found.astype(np.float32)


@pytest.mark.parametrize("by", [1, 3, 777, 65_536])
def test_the_size_of_chunks_does_not_matter(by: int) -> None:
    sound = tone(0.3)
    heard = recorded(sound, SAMPLE_RATE, 2, 1, by)
    assert np.array_equal(heard, np.frombuffer(sound, "<i2") / np.float32(32_768))
    assert heard.dtype == np.float32


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_every_width_and_number_of_channels_is_the_same_sound(width: int, channels: int) -> None:
    mono = wave(SAMPLE_RATE)
    sound = AS_WIDE[width](np.repeat(mono[:, np.newaxis], channels, axis=1)).tobytes()
    heard = recorded(sound, SAMPLE_RATE, width, channels, by=1023)
    assert heard.size == mono.size
    assert float(np.abs(heard - mono).max()) < (0.01 if width == 1 else 0.0001)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_every_rate_is_the_same_sound(rate: int) -> None:
    sound = AS_WIDE[2](wave(rate)).tobytes()
    heard, right = recorded(sound, rate, 2, 1), wave(SAMPLE_RATE)
    assert abs(heard.size - right.size) <= SAMPLE_RATE // 200
    # The filter rings at both ends.
    middle = slice(1600, 14_000)
    assert float(np.abs(heard[middle] - right[middle]).max()) < 0.02


def test_opposite_channels_cancel_out_and_do_not_overflow() -> None:
    loud = np.array([[32_767, -32_768], [32_767, 32_767]] * 100, "<i2")
    heard = recorded(loud.tobytes(), SAMPLE_RATE, 2, 2)
    assert set(np.round(heard, 3)) <= {np.float32(0.0), np.float32(1.0)}


def test_nothing_is_nothing() -> None:
    assert recorded(b"", 48_000, 2, 1).size == 0
    assert Chunks(1).seconds == 0
    # Half a sample is none.
    assert recorded(b"\1", 48_000, 2, 1).size == 0


@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
def test_it_never_grows_beyond_its_length(rate: int) -> None:
    recording = Chunks(2)
    for _ in range(20):
        recording.read(rate, 2, 1, bytes(rate // 5))
    assert recording.seconds == 2
    with pytest.raises(ServiceError, match="at most 2 s") as refused:
        recording.read(rate, 2, 1, bytes(2))
    assert refused.value.status == 413
