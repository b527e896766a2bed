"""The real VAD with synthesised speech, in the batches of a stream."""

import numpy as np
import pytest

from hearth_whisper.live.endpointing import (
    FRAME,
    Endpointer,
    SpeechEnded,
    SpeechEvent,
    SpeechResumed,
    SpeechStarted,
)
from hearth_whisper.live.vad import SileroModel, VadStream, describe, shared_model
from hearth_whisper.recognition import SAMPLE_RATE, Samples

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
def silero() -> SileroModel:
    return SileroModel()


def events_of(silero: SileroModel, audio: Samples, noise: float = 0.0) -> list[SpeechEvent]:
    noises = np.random.default_rng(1).normal(0, 1, audio.size).astype(np.float32)
    samples, vad, endpointer = audio + np.float32(noise) * noises, VadStream(silero), Endpointer()
    received: list[SpeechEvent] = []
    at = 0
    while at + endpointer.batch_frames * FRAME <= samples.size:
        count = endpointer.batch_frames * FRAME
        for frame in vad.process(samples[at : at + count]):
            received += endpointer.process(frame)
        at += count
    return received


@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_a_sentence_is_one_utterance_with_exact_start_and_end(
    silero: SileroModel, text: str, noise: float
) -> None:
    spoken = speak(text)
    events = events_of(silero, np.concatenate([silence(1), spoken, silence(1.5)]), noise)
    ends = [event for event in events if isinstance(event, SpeechEnded)]
    starts = [event for event in events if isinstance(event, SpeechStarted)]
    assert (len(starts), len(ends)) == (1, 1)
    begin, end = SAMPLE_RATE, SAMPLE_RATE + spoken.size
    assert starts[0].speech_start - begin == pytest.approx(0, abs=0.07 * SAMPLE_RATE)
    assert starts[0].audio_start <= begin
    assert ends[0].speech_end - end == pytest.approx(0, abs=0.1 * SAMPLE_RATE)
    assert ends[0].audio_end >= end


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_the_end_of_speech_is_not_late(silero: SileroModel, noise: float) -> None:
    """The network reports speech for 30 to 80 ms too long; that must not add to the latency."""
    for text in SENTENCES:
        spoken = speak(text)
        events = events_of(silero, np.concatenate([silence(1), spoken, silence(1.5)]), noise)
        (ended,) = [event for event in events if isinstance(event, SpeechEnded)]
        assert ended.speech_end - SAMPLE_RATE - spoken.size <= 0.02 * SAMPLE_RATE


def test_a_long_pause_separates_utterances_and_a_short_one_does_not(silero: SileroModel) -> None:
    one, two = speak(SENTENCES[3]), speak(SENTENCES[2])
    events = events_of(silero, np.concatenate([silence(1), one, silence(1), two, silence(1)]))
    assert [event.utterance for event in events if isinstance(event, SpeechEnded)] == [1, 2]
    events = events_of(silero, np.concatenate([silence(1), one, silence(0.35), two, silence(1)]))
    assert [event.utterance for event in events if isinstance(event, SpeechEnded)] == [1]
    assert any(isinstance(event, SpeechResumed) for event in events)


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01, 0.1])
def test_silence_and_noise_are_no_speech(silero: SileroModel, noise: float) -> None:
    assert events_of(silero, silence(20), noise) == []


def test_a_tone_is_no_speech(silero: SileroModel) -> None:
    at = np.arange(10 * SAMPLE_RATE) / SAMPLE_RATE
    tone = (0.3 * np.sin(2 * np.pi * 1000 * at)).astype(np.float32)
    assert events_of(silero, tone) == []


def test_the_batch_size_does_not_change_the_result(silero: SileroModel) -> None:
    audio = np.concatenate([silence(0.5), speak(SENTENCES[1]), silence(0.5)])
    audio = audio[: audio.size // FRAME * FRAME]
    whole = VadStream(silero).process(audio)
    vad, pieces = VadStream(silero), []
    for begin in range(0, audio.size, 3 * FRAME):
        pieces += vad.process(audio[begin : begin + 3 * FRAME])
    assert [f.levels for f in pieces] == [f.levels for f in whole]
    assert [f.probability for f in pieces] == pytest.approx(
        [f.probability for f in whole], abs=1e-4
    )


def test_streams_are_independent(silero: SileroModel) -> None:
    audio = speak(SENTENCES[2])[: 30 * FRAME]
    alone = VadStream(silero).process(audio)
    one, two = VadStream(silero), VadStream(silero)
    between = []
    for begin in range(0, audio.size, FRAME):
        between += one.process(audio[begin : begin + FRAME])
        two.process(silence(FRAME / SAMPLE_RATE))
    assert [f.probability for f in between] == pytest.approx(
        [f.probability for f in alone], abs=1e-4
    )


def test_the_process_has_one_network_and_reports_its_cost() -> None:
    shared_model.cache_clear()
    assert describe() == {}
    assert shared_model() is shared_model()
    VadStream(shared_model()).process(silence(1.024))
    assert describe()["ms_per_s"] > 0
