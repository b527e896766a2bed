"""`/v1/audio/jobs`, over a socket, with the real synthesizer and a scripted engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from hearth_kokoro.engines import Samples, StopSignal, Styles
from hearth_kokoro.synthesis.synthesizer import Synthesizer

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices
from .conftest import RunningServer, StartServer
from .decoding import hear

TEXT = "A first clause, and then a sentence that goes on. Another one follows it!\n\n"
CHAPTER = TEXT * 1350


def small() -> ScriptedEngine:
    """Return an engine whose sound is short, so that a chapter is made in a second."""
    return ScriptedEngine(sound_s=0.001, per_phoneme_s=0.005)


@asynccontextmanager
async def opened(
    start_server: StartServer, folder: Path, engine: ScriptedEngine
) -> AsyncIterator[RunningServer]:
    synthesizer = Synthesizer(engine, ScriptedVoices(), ScriptedPhonemizer(), clock=engine.clock)
    await synthesizer.start()
    engine.requested.clear()
    try:
        async with start_server(cast(Any, synthesizer), state_folder=folder) as server:
            yield server
    finally:
        engine.gate.set()


async def send(server: RunningServer, text: str = CHAPTER, **fields: Any) -> httpx.Response:
    return await server.client.post("/v1/audio/jobs", json={"input": text, **fields})


async def state(server: RunningServer, id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await server.client.get(f"/v1/audio/jobs/{id}")).json()
    return found


async def until_done(server: RunningServer, id: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        # The server is called as a client calls it.
        while (found := await state(server, id))["status"] not in ("done", "failed"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


async def until(met: Any) -> None:
    async with asyncio.timeout(10):
        # Another thread makes it true.
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_chapter_becomes_a_file_with_progress_and_ranges(
    start_server: StartServer, tmp_path: Path
) -> None:
    assert len(CHAPTER) > 100_000
    engine = small()
    async with opened(start_server, tmp_path, engine) as server:
        engine.gate.clear()
        answer = await send(server)
        job = answer.json()
        assert (answer.status_code, job["status"]) == (202, "queued")
        assert answer.headers["location"] == f"/v1/audio/jobs/{job['id']}"
        await until(lambda: engine.requested)
        assert (await state(server, job["id"]))["eta_s"] > 400
        path = f"/v1/audio/jobs/{job['id']}/audio"
        early = await server.client.get(path)
        assert (early.status_code, early.json()["error"]["code"]) == (409, "job_not_done")
        engine.gate.set()
        done = await until_done(server, job["id"])
        assert (done["characters_done"], done["error"]) == (len(CHAPTER), None)
        whole = await server.client.get(path)
        assert whole.headers["content-type"] == "audio/mpeg"
        assert "attachment" in whole.headers["content-disposition"]
        assert len(whole.content) == done["bytes"]
        assert hear(whole.content, "mp3").seconds == pytest.approx(done["audio_s"], abs=0.2)
        rest = await server.client.get(path, headers={"Range": "bytes=1000-"})
        assert (rest.status_code, rest.content) == (206, whole.content[1000:])
        assert (await server.client.delete(f"/v1/audio/jobs/{job['id']}")).status_code == 204
        assert (await server.client.get(path)).status_code == 404
    assert list((tmp_path / "jobs").iterdir()) == []


async def test_a_restart_goes_on_where_it_was(start_server: StartServer, tmp_path: Path) -> None:
    text = TEXT * 60
    engine = small()
    async with opened(start_server, tmp_path / "a", engine) as server:
        id = (await send(server, text, response_format="pcm")).json()["id"]
        await until_done(server, id)
        expected = (await server.client.get(f"/v1/audio/jobs/{id}/audio")).content
    stopped = small()
    async with opened(start_server, tmp_path / "b", stopped) as server:
        advance = stopped.clock.advance

        def stop_at_the_third(seconds: float) -> None:
            advance(seconds)
            if len(stopped.requested) == 3:
                stopped.gate.clear()

        stopped.clock.advance = stop_at_the_third  # type: ignore[method-assign]
        id = (await send(server, text, response_format="pcm")).json()["id"]
        await until(lambda: len(stopped.requested) == 4)
        before = await state(server, id)
    again = small()
    async with opened(start_server, tmp_path / "b", again) as server:
        done = await until_done(server, id)
        sound = (await server.client.get(f"/v1/audio/jobs/{id}/audio")).content
    assert 0 < before["characters_done"] < len(text)
    assert done["characters_done"] == len(text)
    # Nothing was made twice, and nothing is missing.
    assert stopped.requested[3].startswith(again.requested[0]) or again.requested[0].startswith(
        stopped.requested[3]
    )
    assert len(sound) == pytest.approx(len(expected), rel=0.05)


async def test_live_speech_goes_first_and_interrupts_a_file(
    start_server: StartServer, tmp_path: Path
) -> None:
    engine = small()
    async with opened(start_server, tmp_path, engine) as server:
        engine.gate.clear()
        id = (await send(server)).json()["id"]
        await until(lambda: len(engine.requested) == 1)
        status = (await server.client.get("/status")).json()
        # Benchmarks and checks wait for live work only.
        assert (status["active"], status["waiting"]) == (0, 0)
        live = asyncio.create_task(server.say("Good morning. It is late.", response_format="pcm"))
        await until(lambda: len(engine.stopped) == 1)
        engine.gate.set()
        assert (await live).status_code == 200
        spoken = [
            requested for requested in engine.requested[1:4] if requested in engine.requested[0]
        ]
        assert engine.requested[1].startswith("Good")
        assert spoken == [] or engine.requested.index(spoken[0]) > 1
        assert (await server.client.delete(f"/v1/audio/jobs/{id}")).status_code == 204


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
async def test_every_format(start_server: StartServer, tmp_path: Path, name: str) -> None:
    async with opened(start_server, tmp_path, ScriptedEngine()) as server:
        id = (await send(server, TEXT, response_format=name)).json()["id"]
        done = await until_done(server, id)
        sound = (await server.client.get(f"/v1/audio/jobs/{id}/audio")).content
        assert hear(sound, name).seconds == pytest.approx(done["audio_s"], abs=0.2)


class Failing(ScriptedEngine):
    """Fails at some inferences."""

    fails: range = range(0)

    def infer(self, phonemes: str, voice: Styles, speed: float, stop: StopSignal) -> Samples:
        sound = ScriptedEngine.infer(self, phonemes, voice, speed, stop)
        if len(self.requested) in self.fails:
            raise RuntimeError("the card is away")
        return sound


@pytest.mark.parametrize(("fails", "ends"), [(range(2, 4), "done"), (range(2, 99), "failed")])
async def test_a_failure_is_repeated_and_then_reported(
    start_server: StartServer, tmp_path: Path, fails: range, ends: str
) -> None:
    engine = Failing(sound_s=0.001)
    async with opened(start_server, tmp_path, engine) as server:
        engine.fails = fails
        id = (await send(server, TEXT * 20)).json()["id"]
        done = await until_done(server, id)
        assert done["status"] == ends
        assert "card" not in str(done["error"])
        audio = await server.client.get(f"/v1/audio/jobs/{id}/audio")
        assert audio.status_code == (200 if ends == "done" else 409)


async def test_a_job_is_stopped_and_removed(start_server: StartServer, tmp_path: Path) -> None:
    engine = small()
    async with opened(start_server, tmp_path, engine) as server:
        engine.gate.clear()
        first, second = [(await send(server)).json()["id"] for _ in range(2)]
        await until(lambda: len(engine.requested) == 1)
        assert (await server.client.delete(f"/v1/audio/jobs/{first}")).status_code == 204
        await until(lambda: len(engine.requested) == 2)
        assert (await state(server, second))["status"] == "speaking"
        assert (await server.client.delete(f"/v1/audio/jobs/{first}")).status_code == 404


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"input": "..."}, 400, "empty_input"),
        ({"input": "x" * 200_001}, 400, "string_above_max_length"),
        ({"voice": "nobody"}, 400, None),
        ({"response_format": "midi"}, 400, "invalid_value"),
        ({"speed": 9}, 400, "invalid_value"),
    ],
)
async def test_a_wrong_request_is_rejected(
    start_server: StartServer, tmp_path: Path, fields: dict[str, Any], status: int, code: str | None
) -> None:
    async with opened(start_server, tmp_path, small()) as server:
        answer = await server.client.post("/v1/audio/jobs", json={"input": TEXT, **fields})
        assert answer.status_code == status, answer.text
        assert code in (None, answer.json()["error"]["code"])


async def test_a_server_without_a_folder_says_so(server: RunningServer) -> None:
    answer = await send(server)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_state_folder")
