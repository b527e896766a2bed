"""The real library with random weights: what must hold for any weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from hearth_whisper.recognition import SAMPLE_RATE, Options, RecognitionCancelled, Samples
from hearth_whisper.recognition.queues import DirectAccess
from hearth_whisper.recognition.whisper import WhisperRecogniser

EN = Options("en", vad=False)


def noise(seconds: float) -> Samples:
    """Return noise, which the VAD does not take for speech."""
    made = np.random.default_rng(7).standard_normal(round(seconds * SAMPLE_RATE), np.float32)
    return made * np.float32(0.1)


class Counted(DirectAccess):
    """Counts the steps, and cancels after so many."""

    def __init__(self, most: int = 1000) -> None:
        super().__init__(Event())
        self.steps, self._most = 0, most

    @contextmanager
    def __call__(self) -> Iterator[None]:
        if self.steps == self._most:
            raise RecognitionCancelled
        self.steps += 1
        yield


def test_a_window_takes_one_encoding_and_one_decoding(model: WhisperRecogniser) -> None:
    steps = Counted()
    (segment,) = model.recognise(noise(3), EN, steps).segments
    assert segment.text.split()
    assert (segment.start_s, segment.end_s) == (0, 3)
    assert segment.temperature == 0
    assert steps.steps == 2


def test_language_detection_needs_no_extra_encoding(model: WhisperRecogniser) -> None:
    for seconds in (3, 31):
        steps = Counted()
        found = model.recognise(noise(seconds), Options(vad=False), steps)
        assert found.language in model.languages
        assert 0 < found.language_probability <= 1
        # Until now one encoding and one language detection.
        assert steps.steps == 2
        next(found.segments)
        assert steps.steps == 3


@pytest.mark.parametrize("seconds", [0.1, 0.5, 3, 30, 41])
def test_times_are_inside_the_audio_and_in_order(model: WhisperRecogniser, seconds: float) -> None:
    options = Options("en", word_timestamps=True, vad=False)
    segments = list(model.recognise(noise(seconds), options, DirectAccess(Event())).segments)
    last = 0.0
    for segment in segments:
        assert last <= segment.start_s <= segment.end_s <= seconds
        last = segment.start_s
        for word in segment.words:
            assert 0 <= word.start_s <= word.end_s <= seconds
            assert 0 <= word.probability <= 1


@pytest.mark.parametrize("audio", [noise(5), noise(5) * 0, noise(0), noise(0.01)])
def test_audio_without_speech_has_no_segments(model: WhisperRecogniser, audio: Samples) -> None:
    steps = Counted()
    found = model.recognise(audio, Options(), steps)
    assert list(found.segments) == []
    assert steps.steps == 0


def test_it_is_cancelled_between_encoding_and_decoding(model: WhisperRecogniser) -> None:
    steps = Counted(most=1)
    found = model.recognise(noise(3), EN, steps)
    with pytest.raises(RecognitionCancelled):
        list(found.segments)
    assert steps.steps == 1


def test_greedy_decoding_gives_a_text(model: WhisperRecogniser) -> None:
    options = Options("en", "a house", greedy=True, vad=False)
    (segment,) = model.recognise(noise(2), options, DirectAccess(Event())).segments
    assert segment.text.split()


def test_the_english_model_supports_english_only(tiny_en: Path) -> None:
    model = WhisperRecogniser(tiny_en, "cpu", 1)
    assert not model.multilingual
    assert model.languages == ("en",)
    found = model.recognise(noise(1), Options(vad=False), DirectAccess(Event()))
    assert (found.language, found.language_probability) == ("en", 1)
    assert list(found.segments)
