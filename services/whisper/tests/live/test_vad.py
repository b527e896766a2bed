"""The real detector hears real speech, in the pieces in which a stream brings it."""

import numpy as np
import pytest

from hearth_whisper.live.turns import FRAME, Cue, Ended, Resumed, Started, Turns
from hearth_whisper.live.vad import Silero, VadStream, figures, shared
from hearth_whisper.recognising import SAMPLE_RATE, Samples

from .scripted import silence
from .speech import speak

SENTENCES = (
    "Yes.",
    "What time is it?",
    "Turn off the lamps.",
    "The kitchen light is off, and the door to the garden is closed.",
    "Give me six fish.",
)


@pytest.fixture(scope="module")
def silero() -> Silero:
    return Silero()


def cues_of(silero: Silero, sound: Samples, noise: float = 0.0) -> list[Cue]:
    noises = np.random.default_rng(1).normal(0, 1, sound.size).astype(np.float32)
    heard, ear, turns = sound + np.float32(noise) * noises, VadStream(silero), Turns()
    told: list[Cue] = []
    at = 0
    while at + turns.patience * FRAME <= heard.size:
        count = turns.patience * FRAME
        for frame in ear.hear(heard[at : at + count]):
            told += turns.hear(frame)
        at += count
    return told


@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_a_sentence_is_one_utterance_and_begins_and_ends_where_it_does(
    silero: Silero, text: str, noise: float
) -> None:
    spoken = speak(text)
    cues = cues_of(silero, np.concatenate([silence(1), spoken, silence(1.5)]), noise)
    ends = [cue for cue in cues if isinstance(cue, Ended)]
    begins = [cue for cue in cues if isinstance(cue, Started)]
    assert (len(begins), len(ends)) == (1, 1)
    begin, end = SAMPLE_RATE, SAMPLE_RATE + spoken.size
    assert begins[0].at - begin == pytest.approx(0, abs=0.07 * SAMPLE_RATE)
    assert begins[0].begin <= begin
    assert ends[0].at - end == pytest.approx(0, abs=0.1 * SAMPLE_RATE)
    assert ends[0].upto >= end


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_speech_is_over_when_its_last_sound_is(silero: Silero, noise: float) -> None:
    """The detector hears on for 30 to 80 ms; a talker does not wait for that as well."""
    for text in SENTENCES:
        spoken = speak(text)
        cues = cues_of(silero, np.concatenate([silence(1), spoken, silence(1.5)]), noise)
        (ended,) = [cue for cue in cues if isinstance(cue, Ended)]
        assert ended.at - SAMPLE_RATE - spoken.size <= 0.02 * SAMPLE_RATE


def test_two_sentences_are_two_and_a_short_pause_is_none(silero: Silero) -> None:
    one, two = speak(SENTENCES[3]), speak(SENTENCES[2])
    cues = cues_of(silero, np.concatenate([silence(1), one, silence(1), two, silence(1)]))
    assert [cue.utterance for cue in cues if isinstance(cue, Ended)] == [1, 2]
    cues = cues_of(silero, np.concatenate([silence(1), one, silence(0.35), two, silence(1)]))
    assert [cue.utterance for cue in cues if isinstance(cue, Ended)] == [1]
    assert any(isinstance(cue, Resumed) for cue in cues)


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01, 0.1])
def test_neither_silence_nor_noise_is_somebody(silero: Silero, noise: float) -> None:
    assert cues_of(silero, silence(20), noise) == []


def test_a_tone_is_nobody(silero: Silero) -> None:
    at = np.arange(10 * SAMPLE_RATE) / SAMPLE_RATE
    tone = (0.3 * np.sin(2 * np.pi * 1000 * at)).astype(np.float32)
    assert cues_of(silero, tone) == []


def test_the_sizes_of_the_pieces_change_nothing(silero: Silero) -> None:
    sound = np.concatenate([silence(0.5), speak(SENTENCES[1]), silence(0.5)])
    sound = sound[: sound.size // FRAME * FRAME]
    whole = VadStream(silero).hear(sound)
    ear, pieces = VadStream(silero), []
    for begin in range(0, sound.size, 3 * FRAME):
        pieces += ear.hear(sound[begin : begin + 3 * FRAME])
    assert [f.levels for f in pieces] == [f.levels for f in whole]
    assert [f.probability for f in pieces] == pytest.approx(
        [f.probability for f in whole], abs=1e-4
    )


def test_streams_do_not_hear_each_other(silero: Silero) -> None:
    sound = speak(SENTENCES[2])[: 30 * FRAME]
    alone = VadStream(silero).hear(sound)
    one, two = VadStream(silero), VadStream(silero)
    between = []
    for begin in range(0, sound.size, FRAME):
        between += one.hear(sound[begin : begin + FRAME])
        two.hear(silence(FRAME / SAMPLE_RATE))
    assert [f.probability for f in between] == pytest.approx(
        [f.probability for f in alone], abs=1e-4
    )


def test_the_process_has_one_detector_and_tells_what_it_took() -> None:
    shared.cache_clear()
    assert figures() == {}
    assert shared() is shared()
    VadStream(shared()).hear(silence(1.024))
    assert figures()["ms_per_s"] > 0
