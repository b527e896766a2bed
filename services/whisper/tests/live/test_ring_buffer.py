"""What may still be needed is there, and nothing else for long."""

import numpy as np
import pytest

from hearth_whisper.live.ring_buffer import RingBuffer
from hearth_whisper.recognising import SAMPLE_RATE


def test_sound_is_found_by_its_position_whatever_was_forgotten() -> None:
    tape, whole = RingBuffer(), np.arange(40 * SAMPLE_RATE, dtype=np.float32)
    for begin in range(0, whole.size, 7001):
        tape.add(whole[begin : begin + 7001], 0.0)
        tape.forget(max(0, tape.end - 3 * SAMPLE_RATE))
        first = max(0, tape.end - 2 * SAMPLE_RATE)
        assert np.array_equal(tape.between(first, tape.end), whole[first : tape.end])


def test_an_hour_takes_no_more_room_than_a_minute() -> None:
    tape, second = RingBuffer(), np.zeros(SAMPLE_RATE, np.float32)
    most = 0
    for _ in range(3600):
        tape.add(second, 0.0)
        tape.forget(max(0, tape.end - 2 * SAMPLE_RATE))
        most = max(most, tape._sound.size)
    assert most < 10 * SAMPLE_RATE
    assert len(tape._arrivals) < 40


def test_it_knows_when_a_position_was_here() -> None:
    tape = RingBuffer()
    for index in range(5):
        tape.add(np.zeros(100, np.float32), float(index))
    assert [tape.arrived(at) for at in (1, 100, 101, 500)] == [0, 0, 1, 4]


def test_what_is_taken_is_a_copy() -> None:
    tape = RingBuffer()
    tape.add(np.ones(10, np.float32), 0.0)
    tape.between(0, 10)[:] = 5
    assert tape.between(0, 10) == pytest.approx(np.ones(10))
