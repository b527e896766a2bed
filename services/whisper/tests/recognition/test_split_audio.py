"""Hours of audio are split into chunks of bounded length, complete, in order, cut at pauses."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth_whisper.recognition import SAMPLE_RATE, Samples
from hearth_whisper.recognition.transcription import split_audio


def counted(seconds: float) -> Samples:
    """Return samples that are all different, so that each identifies its position."""
    return np.arange(round(seconds * SAMPLE_RATE), dtype=np.float32)


@settings(deadline=None)
@given(blocks=st.lists(st.integers(0, 30_000), max_size=12), most=st.sampled_from([0.5, 1.0, 2.0]))
def test_chunks_contain_every_sample_once_and_are_bounded(blocks: list[int], most: float) -> None:
    whole = np.arange(sum(blocks), dtype=np.float32)
    ends = np.cumsum(blocks)
    split = np.split(whole, ends[:-1]) if blocks else []
    found = list(split_audio(iter(split), most))
    assert all(0 < one.samples.size <= most * SAMPLE_RATE for one in found)
    got = np.concatenate([one.samples for one in found]) if found else whole[:0]
    assert np.array_equal(got, whole)
    for one in found:
        assert one.samples[0] == round(one.start_s * SAMPLE_RATE)


def test_the_cut_is_at_the_quietest_place_near_the_end() -> None:
    sound = np.ones(round(60 * SAMPLE_RATE), np.float32)
    sound[round(47.0 * SAMPLE_RATE) : round(48.0 * SAMPLE_RATE)] = 0
    first, second = split_audio(sound, 50)
    assert 47.0 < second.start_s < 48.0
    assert first.samples.size + second.samples.size == sound.size


def test_blocks_are_pulled_only_when_needed() -> None:
    pulled = 0

    def endless() -> Iterator[Samples]:
        nonlocal pulled
        while True:
            pulled += 1
            yield counted(1)

    found = split_audio(endless(), 5)
    next(found)
    assert pulled == 6


def test_a_large_block_is_copied_chunk_by_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[int] = []
    join = np.concatenate

    def counting(parts: list[Samples]) -> Samples:
        copied.append(sum(part.size for part in parts))
        return join(parts)

    monkeypatch.setattr(np, "concatenate", counting)
    found = list(split_audio(iter([counted(20)]), 2))
    assert sum(one.samples.size for one in found) == 20 * SAMPLE_RATE
    assert max(copied) <= 2 * 2 * SAMPLE_RATE


@pytest.mark.parametrize("seconds", [0.001, 0.1, 4.99, 5.0])
def test_short_audio_is_one_chunk(seconds: float) -> None:
    (one,) = split_audio(counted(seconds), 5)
    assert (one.start_s, one.samples.size) == (0, round(seconds * SAMPLE_RATE))


def test_empty_audio_has_no_chunks() -> None:
    assert list(split_audio(np.zeros(0, np.float32))) == []
