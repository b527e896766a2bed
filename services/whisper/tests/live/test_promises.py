"""The whole of it with the real work and the real detector: a scripted model, and a made-up one.

Random weights prove no text; what is asserted of them holds for any model.
"""

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hearth_whisper.recognising import SAMPLE_RATE, Recogniser
from hearth_whisper.recognising.maker import load_folder
from hearth_whisper.recognising.model import Loaded
from hearth_whisper.recognising.work import Work
from hearth_whisper.web import stream as stream_module
from tests.mock_upstreams.__main__ import DEFAULT_CACHE
from tests.mock_upstreams.whisper import prepare

from ..scripted import ScriptedRecogniser
from ..web.conftest import Opened
from .line import Dialled
from .promises import check
from .scripted import silence
from .speech import speak

SENTENCES = (
    "The kitchen light is off, and the door to the garden is closed.",
    "Turn off the lamps.",
    "Yes.",
)


class RealWork(Work):
    """The real one, with what the house of the files' tests looks for in a scripted one."""

    def __init__(self, model: Recogniser, draft: Recogniser) -> None:
        super().__init__(lambda: Loaded(model, draft, "a test"))
        self.gate = asyncio.Event()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is muted here: where nothing comes for seconds, the machine stands still."""
    monkeypatch.setattr(stream_module, "_GAP_S", 60.0)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return made-up weights: the lab's where they are, else our own."""
    writable = DEFAULT_CACHE.is_dir() and os.access(DEFAULT_CACHE, os.W_OK)
    return prepare(DEFAULT_CACHE if writable else tmp_path_factory.mktemp("weights"), "tiny.en")


async def talked(
    open_house: Opened, dial: Dialled, work: RealWork, sound: Any, pace: float, **start: Any
) -> list[dict[str, Any]]:
    async with open_house(cast(Any, work)) as house:
        await house.until(lambda: work.ready, within_s=60)
        async with dial(house) as line:
            await line.tell(type="start", **start)
            await line.talk(sound, (3200,), pace)
            await line.tell(type="end")
            return await line.until("done", within_s=120)


def a_talk() -> Any:
    pieces = [silence(0.5)]
    for sentence in SENTENCES:
        pieces += [speak(sentence), silence(0.9)]
    return np.concatenate(pieces)


async def test_with_a_scripted_model(open_house: Opened, dial: Dialled) -> None:
    work = RealWork(ScriptedRecogniser(), ScriptedRecogniser(name="draft"))
    sound = a_talk()
    told = await talked(open_house, dial, work, sound, pace=4, words=True)
    finals = check(told, sound.size / SAMPLE_RATE)
    assert len(finals) == len(SENTENCES)
    assert all(final["text"].startswith("one") for final in finals)
    assert [len(final["words"]) for final in finals] == [len(f["text"].split()) for f in finals]
    assert any(event["type"] == "partial" and event["stable"] for event in told)


async def test_with_a_model_of_the_real_shape(
    open_house: Opened, dial: Dialled, weights: Path
) -> None:
    model = load_folder(weights, "cpu", 1, 1)
    sound = a_talk()
    told = await talked(open_house, dial, RealWork(model, model), sound, pace=2)
    finals = check(told, sound.size / SAMPLE_RATE)
    assert len(finals) == len(SENTENCES)
    assert {final["language"] for final in finals} == {"en"}


@pytest.mark.parametrize("partials", [True, False])
async def test_silence_and_noise_give_nothing(
    open_house: Opened, dial: Dialled, partials: bool
) -> None:
    model = ScriptedRecogniser(level=0)
    noise = np.random.default_rng(3).normal(0, 0.01, 10 * SAMPLE_RATE).astype(np.float32)
    sound = np.concatenate([silence(5), noise])
    told = await talked(open_house, dial, RealWork(model, model), sound, 0, partials=partials)
    assert check(told, 15) == []
    assert model.asked == []
