"""Hours of sound come in pieces of bounded length, whole and in order, cut where it is quiet."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_whisper.recognising import SAMPLE_RATE, Samples
from hearth_whisper.recognising.pieces import pieces


def counted(seconds: float) -> Samples:
    """Return samples that are all different, so that each says where it stood."""
    return np.arange(round(seconds * SAMPLE_RATE), dtype=np.float32)


@settings(deadline=None)
@given(blocks=st.lists(st.integers(0, 30_000), max_size=12), most=st.sampled_from([0.5, 1.0, 2.0]))
def test_nothing_is_lost_doubled_or_too_long(blocks: list[int], most: float) -> None:
    whole = np.arange(sum(blocks), dtype=np.float32)
    ends = np.cumsum(blocks)
    split = np.split(whole, ends[:-1]) if blocks else []
    found = list(pieces(iter(split), most))
    assert all(0 < one.samples.size <= most * SAMPLE_RATE for one in found)
    got = np.concatenate([one.samples for one in found]) if found else whole[:0]
    assert np.array_equal(got, whole)
    for one in found:
        assert one.samples[0] == round(one.start_s * SAMPLE_RATE)


def test_it_is_cut_in_the_quietest_place_near_the_end() -> None:
    sound = np.ones(round(60 * SAMPLE_RATE), np.float32)
    sound[round(47.0 * SAMPLE_RATE) : round(48.0 * SAMPLE_RATE)] = 0
    first, second = pieces(sound, 50)
    assert 47.0 < second.start_s < 48.0
    assert first.samples.size + second.samples.size == sound.size


def test_blocks_are_asked_for_only_when_they_are_needed() -> None:
    asked = 0

    def endless() -> Iterator[Samples]:
        nonlocal asked
        while True:
            asked += 1
            yield counted(1)

    found = pieces(endless(), 5)
    next(found)
    assert asked == 6


def test_of_a_large_block_only_a_piece_at_a_time_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[int] = []
    join = np.concatenate

    def counting(parts: list[Samples]) -> Samples:
        copied.append(sum(part.size for part in parts))
        return join(parts)

    monkeypatch.setattr(np, "concatenate", counting)
    found = list(pieces(iter([counted(20)]), 2))
    assert sum(one.samples.size for one in found) == 20 * SAMPLE_RATE
    assert max(copied) <= 2 * 2 * SAMPLE_RATE


@pytest.mark.parametrize("seconds", [0.001, 0.1, 4.99, 5.0])
def test_what_is_short_is_one_piece(seconds: float) -> None:
    (one,) = pieces(counted(seconds), 5)
    assert (one.start_s, one.samples.size) == (0, round(seconds * SAMPLE_RATE))


def test_of_nothing_comes_nothing() -> None:
    assert list(pieces(np.zeros(0, np.float32))) == []
