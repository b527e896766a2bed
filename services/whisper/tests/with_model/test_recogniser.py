"""The real library with a made-up model: what must hold whatever the weights say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Stop, Stopped
from hearth_whisper.recognising.steps import Alone
from hearth_whisper.recognising.whisper import WhisperRecogniser

EN = Options("en", vad=False)


def noise(seconds: float) -> Samples:
    """Return sound that a voice detector takes for no speech."""
    made = np.random.default_rng(7).standard_normal(round(seconds * SAMPLE_RATE), np.float32)
    return made * np.float32(0.1)


class Counted(Alone):
    """Counts the steps, and stops after so many."""

    def __init__(self, most: int = 1000) -> None:
        super().__init__(Stop())
        self.steps, self._most = 0, most

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if self.steps == self._most:
            raise Stopped
        self.steps += 1
        yield


def test_a_window_is_one_encoding_and_one_decoding(model: WhisperRecogniser) -> None:
    steps = Counted()
    (segment,) = model.recognise(noise(3), EN, steps).segments
    assert segment.text.split()
    assert (segment.start_s, segment.end_s) == (0, 3)
    assert segment.temperature == 0
    assert steps.steps == 2


def test_finding_the_language_costs_no_encoding_of_its_own(model: WhisperRecogniser) -> None:
    for seconds in (3, 31):
        steps = Counted()
        found = model.recognise(noise(seconds), Options(vad=False), steps)
        assert found.language in model.languages
        assert 0 < found.language_probability <= 1
        # So far one encoding and one look at the languages.
        assert steps.steps == 2
        next(found.segments)
        assert steps.steps == 3


@pytest.mark.parametrize("seconds", [0.1, 0.5, 3, 30, 41])
def test_times_lie_inside_the_sound_and_in_order(model: WhisperRecogniser, seconds: float) -> None:
    options = Options("en", words=True, vad=False)
    segments = list(model.recognise(noise(seconds), options, Alone(Stop())).segments)
    last = 0.0
    for segment in segments:
        assert last <= segment.start_s <= segment.end_s <= seconds
        last = segment.start_s
        for word in segment.words:
            assert 0 <= word.start_s <= word.end_s <= seconds
            assert 0 <= word.probability <= 1


@pytest.mark.parametrize("sound", [noise(5), noise(5) * 0, noise(0), noise(0.01)])
def test_what_is_no_speech_says_nothing(model: WhisperRecogniser, sound: Samples) -> None:
    steps = Counted()
    found = model.recognise(sound, Options(), steps)
    assert list(found.segments) == []
    assert steps.steps == 0


def test_it_stops_between_hearing_and_speaking(model: WhisperRecogniser) -> None:
    steps = Counted(most=1)
    found = model.recognise(noise(3), EN, steps)
    with pytest.raises(Stopped):
        list(found.segments)
    assert steps.steps == 1


def test_a_quick_one_gives_a_text(model: WhisperRecogniser) -> None:
    options = Options("en", "a house", quick=True, vad=False)
    (segment,) = model.recognise(noise(2), options, Alone(Stop())).segments
    assert segment.text.split()


def test_the_english_one_knows_english_only(tiny_en: Path) -> None:
    model = WhisperRecogniser(tiny_en, "cpu", 1)
    assert not model.multilingual
    assert model.languages == ("en",)
    found = model.recognise(noise(1), Options(vad=False), Alone(Stop()))
    assert (found.language, found.language_probability) == ("en", 1)
    assert list(found.segments)
