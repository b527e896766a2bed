"""Ten minutes of the house's own voice, coughs, hums, babble and noise interrupt nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

from hearth_voice import microphone
from hearth_voice.barge_in import BargeIn
from hearth_voice.microphone import Microphone

from .sounds import SPOKEN_RATE, babble, cough, hum, noise, pcm, silence, spoken

_STEP_S = 0.02
SAID = (
    "The kettle is on, and the kitchen is warm, and the soup is on the table.",
    "It will rain tomorrow, so take an umbrella with you when you leave the house.",
    "Dinner is at seven, as it is every day, and there will be bread and cheese.",
    "The window in the hall is closed, and the door to the garden is open.",
)


@pytest.mark.long
@pytest.mark.parametrize("minute", range(10))
def test_nothing_interrupts(minute: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(microphone, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    rng = np.random.default_rng(minute)
    said = [spoken(text, 140 + 10 * (minute % 3)) for text in SAID]
    played = np.resize(np.concatenate(said), 60 * SPOKEN_RATE)
    level, delay_s = 10 ** ((-6, -12, -20)[minute % 3] / 20), (0.08, 0.15, 0.3, 0.45)[minute % 4]
    heard = np.concatenate([silence(delay_s), played])[: played.size] * np.float32(level)
    for second in range(2, 58, 4):
        disturbance = (
            cough(int(rng.integers(1000))),
            hum(0.35, float(rng.uniform(95, 240))),
            noise(1.5, -35, int(rng.integers(1000))),
            babble(2, -38),
        )[int(rng.integers(4))]
        at = second * SPOKEN_RATE
        heard[at : at + disturbance.size] += disturbance
    ear, measured, question = Microphone(), BargeIn(), spoken("What time is dinner today?")
    measured.add(pcm(question), is_talker=True)
    # The last of it is no interruption.
    measured.add(pcm(silence(0.5)), is_talker=False)
    ear.plays(pcm(played))
    position, step = question.size + SPOKEN_RATE // 2, round(_STEP_S * SPOKEN_RATE)
    for at in range(0, heard.size - step, step):
        clock[0] += _STEP_S
        left = ear.hear(pcm(heard[at : at + step]))
        measured.add(left, is_talker=False)
        position += len(left) // 2
        assert not measured.is_speech(position - SPOKEN_RATE // 5), at / SPOKEN_RATE
