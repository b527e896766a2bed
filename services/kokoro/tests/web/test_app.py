"""Health, status, voices, models, metrics, keys and origins."""

import asyncio
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, AuthenticationError, InternalServerError, RateLimitError
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from .conftest import RunningServer, ScriptedSynthesizer, StartServer, busy

PATHS = ("/status", "/metrics", "/v1/models", "/v1/audio/voices")


async def test_it_answers_while_the_model_loads(start_server: StartServer) -> None:
    warm = asyncio.Event()
    async with start_server(load=warm.wait) as server:
        health = await server.client.get("/health")
        assert (health.status_code, health.json()) == (503, {"status": "starting"})
        assert (await server.client.get("/status")).json()["ready"] is False
        answer = await server.say()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        warm.set()
        await server.until(lambda: server.state.loaded is not None)
        health = await server.client.get("/health")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})


async def test_models_and_voices(server: RunningServer) -> None:
    models = (await server.client.get("/v1/models")).json()
    assert [model["id"] for model in models["data"]] == ["kokoro", "tts-1", "tts-1-hd"]
    assert (await server.client.get("/v1/models/tts-1")).json()["object"] == "model"
    assert (await server.client.get("/v1/models/gpt-9")).status_code == 404
    voices = (await server.client.get("/v1/audio/voices")).json()
    assert {"id": "ef_dora", "name": "ef_dora", "language": "es"} in voices["voices"]
    assert voices["openai_voices"]["nova"] == "af_nova"


async def test_unknown_paths_return_errors_in_openais_format(server: RunningServer) -> None:
    for method, path, status in (("GET", "/v1/nothing", 404), ("GET", "/v1/audio/speech", 405)):
        answer = await server.client.request(method, path)
        assert answer.status_code == status
        assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_only_the_key_gives_access(start_server: StartServer) -> None:
    async with start_server(key="right") as server:
        assert (await server.client.get("/health")).status_code == 200
        wrong: list[Any] = [
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic right"},
            {"Authorization": "right"},
            {"Authorization": "Bearer"},
            [("Authorization", "Bearer right"), ("Authorization", "Bearer right")],
        ]
        for path in PATHS:
            for headers in wrong:
                answer = await server.client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "invalid_api_key"
            right = {"Authorization": "Bearer right"}
            assert (await server.client.get(path, headers=right)).status_code == 200


async def test_the_official_client_raises_the_matching_errors(start_server: StartServer) -> None:
    synthesizer = ScriptedSynthesizer(error=busy())
    async with start_server(synthesizer, key="right") as server:

        async def ask(key: str) -> None:
            async with AsyncOpenAI(
                base_url=f"{server.url}/v1", api_key=key, max_retries=0
            ) as client:
                await client.audio.speech.create(model="tts-1", voice="nova", input="One two.")

        with pytest.raises(AuthenticationError):
            await ask("wrong")
        with pytest.raises(RateLimitError):
            await ask("right")
        synthesizer.error = RuntimeError("broken")
        with pytest.raises(InternalServerError):
            await ask("right")


async def test_pages_of_other_sites_are_rejected(start_server: StartServer) -> None:
    async with start_server(origins=("https://chat.lan",)) as server:
        for origin in ("https://evil.example", "null", "http://[", ""):
            answer = await server.client.get("/v1/models", headers={"origin": origin})
            assert answer.status_code == 403
        for origin in ("https://chat.lan", server.url):
            answer = await server.client.get("/v1/models", headers={"origin": origin})
            assert answer.status_code == 200
        answer = await server.client.get("/v1/models", headers={"origin": "https://chat.lan"})
        assert answer.headers["access-control-allow-origin"] == "https://chat.lan"
        requested = {
            "origin": "https://chat.lan",
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        answer = await server.client.options("/v1/audio/speech", headers=requested)
        assert answer.status_code == 200


async def test_without_origins_there_is_no_cors(server: RunningServer) -> None:
    requested = {"origin": server.url, "access-control-request-method": "POST"}
    answer = await server.client.options("/v1/audio/speech", headers=requested)
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_metrics_count_outcomes_without_names(server: RunningServer) -> None:
    await server.say("One two three.", voice="af_heart")
    await server.say("One two three.", voice="nobody")
    page = (await server.client.get("/metrics")).text
    found = {
        (sample.name, sample.labels.get("outcome")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert found["kokoro_requests_total", "done"] == 1
    assert found["kokoro_requests_total", "refused"] == 1
    assert found["kokoro_requests_total", "left"] == 0
    assert found["kokoro_ttfa_seconds_count", None] == 1
    assert found["kokoro_audio_seconds_total", None] == pytest.approx(
        0.3 * len(server.synthesizer.spoken)
    )
    assert found["process_resident_memory_bytes", None] > 1e6
    assert "heart" not in page
    status = (await server.client.get("/status")).json()
    counted = {outcome: found["kokoro_requests_total", outcome] for outcome in status["requests"]}
    assert status["requests"] == counted
    assert set(counted) == {outcome for name, outcome in found if name == "kokoro_requests_total"}
    assert status["ttfa_ms"]["n"] == 1
    summed_ms = 1000 * found["kokoro_ttfa_seconds_sum", None]
    assert status["ttfa_ms"]["median"] == pytest.approx(summed_ms, abs=0.01)


async def test_it_stops_while_a_client_waits_for_sound(start_server: StartServer) -> None:
    # The synthesis takes 60 s and the timeout is half of that, so the server did not wait for it.
    # A separate client: the server fixture's client would disconnect before the server stops.
    async with asyncio.timeout(30), httpx.AsyncClient(trust_env=False, timeout=None) as client:  # noqa: S113
        async with start_server(ScriptedSynthesizer(piece_s=60), stop_s=1) as server:
            request = client.post(f"{server.url}/v1/audio/speech", json={"input": "One two."})
            response = asyncio.create_task(request)
            await server.until(lambda: server.synthesizer.active == 1)
        assert server.synthesizer.closed
        with pytest.raises(httpx.HTTPError):
            (await response).raise_for_status()


def samples(page: str) -> dict[tuple[str, str | None], float]:
    """Return each sample by its name and its first label's value, but those of the process."""
    return {
        (sample.name, next(iter(sample.labels.values()), None)): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


async def test_the_canary_is_in_no_figure(server: RunningServer) -> None:
    before = samples((await server.client.get("/metrics")).text)
    status = (await server.client.get("/status")).json()
    server.client.headers["x-hearth-canary"] = "1"
    assert (await server.say()).status_code == 200
    assert (await server.say("", voice="none")).status_code == 400
    uri = server.url.replace("http", "ws") + "/v1/audio/stream"
    async with connect(uri, additional_headers={"x-hearth-canary": "1"}) as socket:
        await socket.send('{"text": "One two three."}')
        await socket.send('{"type": "end"}')
        async for _ in socket:
            pass
    assert samples((await server.client.get("/metrics")).text) == before
    after = (await server.client.get("/status")).json()
    assert [after[name] for name in ("requests", "ttfa_ms")] == [
        status[name] for name in ("requests", "ttfa_ms")
    ]
    del server.client.headers["x-hearth-canary"]
    await server.say()
    assert samples((await server.client.get("/metrics")).text)["kokoro_requests_total", "done"] == 1


async def test_each_stage_of_a_segment_is_measured(server: RunningServer) -> None:
    await server.say("One two three four.")
    found = samples((await server.client.get("/metrics")).text)
    segments = len(server.synthesizer.spoken)
    assert found["kokoro_stage_seconds_count", "encoding"] == segments
    assert 0 < found["kokoro_stage_seconds_sum", "encoding"] < 5
    # This synthesizer has neither: they are counters at 0, which Prometheus sees grow.
    for stage in ("phonemes", "inference"):
        assert found["kokoro_stage_seconds_count", stage] == 0
