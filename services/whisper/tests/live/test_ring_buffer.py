"""Audio stays until it is discarded, in bounded memory."""

import numpy as np
import pytest

from hearth_whisper.live.ring_buffer import RingBuffer
from hearth_whisper.recognition import SAMPLE_RATE


def test_audio_is_addressed_by_its_position_after_discards() -> None:
    buffer, whole = RingBuffer(), np.arange(40 * SAMPLE_RATE, dtype=np.float32)
    for begin in range(0, whole.size, 7001):
        buffer.append(whole[begin : begin + 7001], 0.0)
        buffer.discard(max(0, buffer.end - 3 * SAMPLE_RATE))
        first = max(0, buffer.end - 2 * SAMPLE_RATE)
        assert np.array_equal(buffer.between(first, buffer.end), whole[first : buffer.end])


def test_an_hour_takes_no_more_memory_than_a_minute() -> None:
    buffer, second = RingBuffer(), np.zeros(SAMPLE_RATE, np.float32)
    most = 0
    for _ in range(3600):
        buffer.append(second, 0.0)
        buffer.discard(max(0, buffer.end - 2 * SAMPLE_RATE))
        most = max(most, buffer._samples.size)
    assert most < 10 * SAMPLE_RATE
    assert len(buffer._arrivals) < 40


def test_arrived_at_returns_the_time_of_a_position() -> None:
    buffer = RingBuffer()
    for index in range(5):
        buffer.append(np.zeros(100, np.float32), float(index))
    assert [buffer.arrived_at(at) for at in (1, 100, 101, 500)] == [0, 0, 1, 4]


def test_between_returns_a_copy() -> None:
    buffer = RingBuffer()
    buffer.append(np.ones(10, np.float32), 0.0)
    buffer.between(0, 10)[:] = 5
    assert buffer.between(0, 10) == pytest.approx(np.ones(10))
