"""Segments join without a click, a jump in level or the model's own silence."""

import numpy as np
import numpy.typing as npt
import pytest

from hearth_kokoro.engines import SAMPLE_RATE, Samples
from hearth_kokoro.synthesis.playback import SegmentJoiner, pause_samples, trim
from hearth_kokoro.text.tokens import Pause

MS = SAMPLE_RATE // 1000


def tone(seconds: float, level: float = 0.3, hertz: float = 180.0) -> Samples:
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (level * np.sin(2 * np.pi * hertz * time + 1.0)).astype(np.float32)


def quiet(seconds: float, level: float = 0.0) -> Samples:
    noise: npt.NDArray[np.float64] = np.random.default_rng(1).normal(
        0, 1, round(seconds * SAMPLE_RATE)
    )
    return (level * noise).astype(np.float32)


def level_of(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


@pytest.mark.parametrize("noise", [0.0, 0.0005])
def test_the_models_own_silence_is_removed(noise: float) -> None:
    sound = np.concatenate([quiet(0.3, noise), tone(1.0), quiet(0.4, noise)])
    trimmed = trim(sound)
    loud = np.flatnonzero(np.abs(trimmed) > 0.01)
    assert loud[0] <= 15 * MS
    assert 1.0 * SAMPLE_RATE <= trimmed.size <= 1.035 * SAMPLE_RATE


def test_a_soft_consonant_is_kept() -> None:
    soft = quiet(0.08, 0.3 * 10 ** (-30 / 20))
    trimmed = trim(np.concatenate([quiet(0.3), soft, tone(0.5), soft, quiet(0.3)]))
    assert trimmed.size >= 0.66 * SAMPLE_RATE


def test_silence_alone_becomes_empty() -> None:
    assert trim(quiet(0.5)).size == 0
    assert trim(quiet(0.0)).size == 0
    assert SegmentJoiner().join(quiet(0.0), Pause.NONE, 1.0).size == 0


@pytest.mark.parametrize("pause", list(Pause))
def test_joins_have_no_larger_steps_than_the_sound(pause: Pause) -> None:
    joiner = SegmentJoiner()
    segments = [joiner.join(trim(tone(0.7, hertz=h)), pause, 1.0) for h in (180.0, 211.0, 173.0)]
    steps = np.abs(np.diff(np.concatenate([[0], *segments, [0]])))
    assert steps.max() <= 1.05 * np.abs(np.diff(tone(0.7, hertz=211.0))).max()


def test_pauses_follow_the_punctuation_and_the_speed() -> None:
    sizes = [pause_samples(pause, 1.0) for pause in Pause]
    assert sizes[Pause.NONE] == sizes[Pause.WORD] == 0
    assert 80 * MS <= sizes[Pause.CLAUSE] < sizes[Pause.SENTENCE] < sizes[Pause.PARAGRAPH]
    assert pause_samples(Pause.SENTENCE, 2.0) == sizes[Pause.SENTENCE] // 2
    assert pause_samples(Pause.SENTENCE, 0.25) == 2 * sizes[Pause.SENTENCE]
    joined = SegmentJoiner().join(trim(tone(0.5)), Pause.SENTENCE, 1.0)
    assert not joined[-sizes[Pause.SENTENCE] :].any()


def test_a_join_between_words_has_no_gap() -> None:
    joiner = SegmentJoiner()
    joined = np.concatenate([joiner.join(trim(tone(0.7)), Pause.WORD, 1.0) for _ in range(2)])
    frames = joined[: joined.size // (20 * MS) * 20 * MS].reshape(-1, 20 * MS)
    levels = np.sqrt(np.mean(np.square(frames), axis=1))
    assert levels.min() > 0.3 * levels.max()


@pytest.mark.parametrize(("other", "left_db"), [(0.22, 0.1), (0.4, 0.1), (0.1, 6.6), (0.05, 12.7)])
def test_the_level_follows_earlier_segments_by_3_db_at_most(other: float, left_db: float) -> None:
    joiner = SegmentJoiner()
    before = joiner.join(trim(tone(2.0, 0.3)), Pause.WORD, 1.0)
    after = joiner.join(trim(tone(2.0, other)), Pause.WORD, 1.0)
    middle = slice(50 * MS, -50 * MS)
    apart = abs(20 * np.log10(level_of(after[middle]) / level_of(before[middle])))
    assert apart <= left_db
    moved = abs(20 * np.log10(level_of(after[middle]) / level_of(tone(2.0, other)[middle])))
    assert moved <= 3.01


def test_no_sample_exceeds_full_scale() -> None:
    joiner = SegmentJoiner()
    joiner.join(tone(1.0, 0.9), Pause.WORD, 1.0)
    peaky = tone(1.0, 0.5)
    peaky[5000] = 0.99
    assert np.abs(joiner.join(peaky, Pause.WORD, 1.0)).max() <= 1.0


def test_the_input_is_not_changed() -> None:
    sound = tone(0.5)
    before = sound.copy()
    SegmentJoiner().join(sound, Pause.WORD, 1.0)
    np.testing.assert_array_equal(sound, before)
