"""Sessions with the real scheduler and the real VAD, with a scripted model and a made-up one.

Random weights give random texts; the assertions hold for any model.
"""

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hearth_whisper.recognition import SAMPLE_RATE, Recogniser
from hearth_whisper.recognition.model import LoadedModel
from hearth_whisper.recognition.model_selection import load_recogniser
from hearth_whisper.recognition.scheduler import Scheduler
from hearth_whisper.web import stream as stream_module
from tests.mock_upstreams.__main__ import DEFAULT_CACHE
from tests.mock_upstreams.whisper import prepare

from ..scripted import ScriptedRecogniser
from ..web.conftest import OpenServer
from .client import ConnectStream
from .invariants import check
from .scripted import silence
from .speech import speak

SENTENCES = (
    "The kitchen light is off, and the door to the garden is closed.",
    "Turn off the lamps.",
    "Yes.",
)


class RealScheduler(Scheduler):
    """The real scheduler with the `gate` that the test server expects."""

    def __init__(self, model: Recogniser, draft: Recogniser) -> None:
        super().__init__(lambda: LoadedModel(model, draft, "a test"))
        self.gate = asyncio.Event()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the detection of gaps: here a gap means that the machine is slow."""
    monkeypatch.setattr(stream_module, "_MAX_GAP_S", 60.0)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return random weights: the lab's if they exist, else our own."""
    writable = DEFAULT_CACHE.is_dir() and os.access(DEFAULT_CACHE, os.W_OK)
    return prepare(DEFAULT_CACHE if writable else tmp_path_factory.mktemp("weights"), "tiny.en")


async def stream_events(
    open_server: OpenServer,
    connect_stream: ConnectStream,
    scheduler: RealScheduler,
    sound: Any,
    pace: float,
    **start: Any,
) -> list[dict[str, Any]]:
    async with open_server(cast(Any, scheduler)) as server:
        await server.until(lambda: scheduler.ready, within_s=60)
        async with connect_stream(server) as client:
            await client.send(type="start", **start)
            await client.send_audio(sound, (3200,), pace)
            await client.send(type="end")
            return await client.until("done", within_s=120)


def recording() -> Any:
    pieces = [silence(0.5)]
    for sentence in SENTENCES:
        pieces += [speak(sentence), silence(0.9)]
    return np.concatenate(pieces)


async def test_with_a_scripted_model(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    scheduler = RealScheduler(ScriptedRecogniser(), ScriptedRecogniser(name="draft"))
    sound = recording()
    events = await stream_events(open_server, connect_stream, scheduler, sound, pace=4, words=True)
    finals = check(events, sound.size / SAMPLE_RATE)
    assert len(finals) == len(SENTENCES)
    assert all(final["text"].startswith("one") for final in finals)
    assert [len(final["words"]) for final in finals] == [len(f["text"].split()) for f in finals]
    assert any(event["type"] == "partial" and event["stable"] for event in events)


async def test_with_a_real_model_and_random_weights(
    open_server: OpenServer, connect_stream: ConnectStream, weights: Path
) -> None:
    model = load_recogniser(weights, "cpu", 1, 1)
    sound = recording()
    events = await stream_events(
        open_server, connect_stream, RealScheduler(model, model), sound, pace=2
    )
    finals = check(events, sound.size / SAMPLE_RATE)
    assert len(finals) == len(SENTENCES)
    assert {final["language"] for final in finals} == {"en"}


@pytest.mark.parametrize("partials", [True, False])
async def test_silence_and_noise_have_no_events(
    open_server: OpenServer, connect_stream: ConnectStream, partials: bool
) -> None:
    model = ScriptedRecogniser(level=0)
    noise = np.random.default_rng(3).normal(0, 0.01, 10 * SAMPLE_RATE).astype(np.float32)
    sound = np.concatenate([silence(5), noise])
    events = await stream_events(
        open_server, connect_stream, RealScheduler(model, model), sound, 0, partials=partials
    )
    assert check(events, 15) == []
    assert model.calls == []
