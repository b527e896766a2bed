"""Run the patched code: pieces, turns of the event loop, one thread for the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hearth_kokoro_patch import plan

from .conftest import SHAPES, Release, Run

TEXT = "One. Two! Three? Four"
STREAM = """
import asyncio, json, kokoro
from api.src.services.tts_service import TTSService
def sound(piece):
    return (piece if isinstance(piece, bytes) else piece.audio).decode()
async def stream(text):
    return [sound(piece) async for piece in TTSService().generate_audio_stream(text, "v")]
"""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("steps", [(), ("sentences",), ("sentences", "yielding", "threads")])
def test_each_sentence_becomes_a_piece(
    release: Release, run: Run, shape: str, steps: tuple[str, ...]
) -> None:
    folder = release(shape)
    plan(folder, frozenset(steps)).apply()
    pieces = run(folder, f"{STREAM}\nprint(json.dumps(asyncio.run(stream({TEXT!r}))))")
    whole = ["One.", "Two!", "Three?", "Four", ""] if steps else [TEXT, ""]
    assert pieces == whole


TURNS = f"""{STREAM}
async def main():
    heard = []
    async def neighbour():
        for _ in range(5):
            heard.append("turn")
            await asyncio.sleep(0)
    other = asyncio.create_task(neighbour())
    async for piece in TTSService().generate_audio_stream({TEXT!r}, "v"):
        heard.append("piece")
    await other
    return heard
print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.parametrize("shape", ["v0.2.0", "v0.8"])
def test_other_tasks_run_after_each_piece(release: Release, run: Run, shape: str) -> None:
    folder = release(shape)
    plan(folder, frozenset({"sentences"})).apply()
    heard = run(folder, TURNS)
    assert heard[:5] == ["piece"] * 5, "unpatched, no other task runs before the last piece"
    plan(folder, frozenset({"sentences", "yielding"})).apply()
    heard = run(folder, TURNS)
    assert "turn" in heard[heard.index("piece") + 1 : len(heard) - heard[::-1].index("piece")]


# The model waits until the event loop has had a turn; a blocked loop never gives the sign.
WAITS = f"""{STREAM}
import threading
sign, answered = threading.Event(), []
def gate(piece):
    answered.append(sign.wait(WITHIN_S))
kokoro.GATE = gate
async def main():
    async def health():
        await asyncio.sleep(0)
        sign.set()
    async with asyncio.TaskGroup() as group:
        group.create_task(stream({TEXT!r}))
        group.create_task(stream({TEXT!r}))
        group.create_task(health())
    return dict(answered=answered, threads=sorted(set(kokoro.THREADS)), most=kokoro.AT_ONCE["most"])
print(json.dumps(asyncio.run(main())))
"""


def waits(run: Run, folder: Path, within_s: float) -> Any:
    return run(folder, WAITS.replace("WITHIN_S", str(within_s)))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_event_loop_responds_during_inference(release: Release, run: Run, shape: str) -> None:
    folder = release(shape)
    plan(folder, frozenset({"sentences", "yielding"})).apply()
    assert waits(run, folder, 0.05)["answered"][0] is False
    plan(folder).apply()
    seen = waits(run, folder, 30)
    assert set(seen["answered"]) == {True}
    assert seen["threads"] == ["hearth-kokoro_0"], "one thread, which is not the event loop's"
    assert seen["most"] == 1, "the model and the phonemizer do not support two calls at once"


@pytest.mark.parametrize("shape", ["v0.6", "v0.8"])
def test_the_phonemizer_runs_in_the_same_thread(release: Release, run: Run, shape: str) -> None:
    folder = release(shape)
    plan(folder).apply()
    code = """
import asyncio, json, kokoro
from api.src.inference.kokoro_v1 import KokoroV1
async def main():
    pieces = KokoroV1().generate("A b. C", "v", return_timestamps=True)
    timed = [piece.word_timestamps async for piece in pieces]
    return dict(timed=timed, threads=sorted(set(kokoro.PHONEMIZED_IN)))
print(json.dumps(asyncio.run(main())))
"""
    seen = run(folder, code)
    assert [[word for word, _ in words] for words in seen["timed"]] == [["A", "b."], ["C"]]
    assert seen["threads"] == ["hearth-kokoro_0"]


@pytest.mark.parametrize(
    ("shape", "call"),
    [
        ("v0.2.0", 'service.generate_audio("One. Two", "v")'),
        ("v0.2.1", 'service.generate_audio("One. Two", "v")'),
        ("v0.2.3", 'service.generate_from_phonemes("a|b", "v")'),
        ("v0.8", 'service.generate_from_phonemes("a|b", "v")'),
    ],
)
def test_other_calls_of_the_service_run_in_that_thread_too(
    release: Release, run: Run, shape: str, call: str
) -> None:
    folder = release(shape)
    code = f"""{STREAM}
async def main():
    service = TTSService()
    output = await {call}
    return dict(output=output.decode(), threads=sorted(set(kokoro.THREADS[-1:])))
print(json.dumps(asyncio.run(main())))
"""
    before = run(folder, code)
    plan(folder).apply()
    after = run(folder, code)
    assert after["output"] == before["output"] != ""
    assert (before["threads"], after["threads"]) == (["MainThread"], ["hearth-kokoro_0"])


@pytest.mark.parametrize("shape", SHAPES)
def test_errors_of_the_model_are_caught_where_they_were_before(
    release: Release, run: Run, shape: str
) -> None:
    folder = release(shape)
    code = f"""{STREAM}
from api.src.inference.kokoro_v1 import KokoroV1
async def main(error):
    kokoro.BROKEN.append(error)
    heard = []
    try:
        async for piece in KokoroV1().generate("One. Two", "v"):
            heard.append(sound(piece))
    except Exception as error:
        heard.append(repr(error))
    return heard
print(json.dumps([asyncio.run(main(MemoryError("card"))), asyncio.run(main(ValueError("odd")))]))
"""
    assert run(folder, code) == [["One. Two", "MemoryError('card')"], ["ValueError('odd')"]]
    plan(folder).apply()
    assert run(folder, code) == [["One.", "Two", "MemoryError('card')"], ["ValueError('odd')"]]
