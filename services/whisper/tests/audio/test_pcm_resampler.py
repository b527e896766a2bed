"""PCM in chunks of any size and at any rate becomes the same samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_whisper.audio.pcm import PcmResampler


def wave(rate: int, seconds: float = 1.0) -> bytes:
    at = np.arange(round(rate * seconds)) / rate
    return (20_000 * np.sin(2 * np.pi * 440 * at)).astype("<i2").tobytes()


# Slow runs on a busy machine are not failures.
@settings(deadline=None)
@given(st.lists(st.integers(0, 700), max_size=40))
def test_chunks_may_end_anywhere(sizes: list[int]) -> None:
    data, pcm = wave(16_000, 0.3), PcmResampler()
    made, at = [], 0
    for size in [*sizes, len(data)]:
        made.append(pcm.read(data[at : at + size]))
        at += size
    assert np.array_equal(np.concatenate(made), np.frombuffer(data, "<i2") / np.float32(32768))


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled_without_a_seam(rate: int) -> None:
    pcm, data = PcmResampler(rate), wave(rate)
    made = np.concatenate([pcm.read(data[at : at + 333]) for at in range(0, len(data), 333)])
    expected = np.frombuffer(wave(16_000), "<i2") / np.float32(32768)
    # At both ends the filter lacks input.
    assert 16_000 - 48 <= made.size <= 16_000
    assert np.abs(made[200:-200] - expected[200 : made.size - 200]).max() < 0.001


def test_samples_are_within_one() -> None:
    made = PcmResampler().read(np.array([-32768, 32767], "<i2").tobytes())
    assert made.min() == -1
    assert made.max() < 1
    assert made.dtype == np.float32
