"""Health, status, models, metrics, keys, origins and the page."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hearth_whisper.recognition import Audio, Options

from .conftest import OpenServer, RunningServer, ScriptedScheduler, ScriptedTranscription

PATHS = ("/status", "/metrics", "/v1/models")


async def test_the_server_responds_while_the_model_loads(open_server: OpenServer) -> None:
    async with open_server(ScriptedScheduler(ready=False, model=None)) as server:
        health = await server.client.get("/health")
        assert (health.status_code, health.json()) == (503, {"status": "starting"})
        assert (await server.client.get("/status")).json()["ready"] is False
        listed = (await server.client.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["whisper-1"]
        # A file waits for the model, whose name is not known yet.
        assert (await server.transcribe(model="tiny")).status_code == 200
        server.scheduler.ready, server.scheduler.model = True, "tiny.en"
        health = await server.client.get("/health")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})


async def test_the_model_name_is_checked_after_the_selection(open_server: OpenServer) -> None:
    class Choosing(ScriptedScheduler):
        async def transcribe_file(self, audio: Audio, options: Options) -> ScriptedTranscription:
            self.model = "tiny.en"
            return await super().transcribe_file(audio, options)

    for name, status in (("tiny", 404), ("tiny.en", 200)):
        async with open_server(Choosing(ready=False, model=None)) as server:
            assert (await server.transcribe(model=name)).status_code == status
            assert server.scheduler.open_texts == 0


async def test_models(server: RunningServer) -> None:
    listed = (await server.client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["tiny.en", "whisper-1"]
    assert (await server.client.get("/v1/models/tiny.en")).json()["object"] == "model"
    missing = await server.client.get("/v1/models/large")
    assert missing.status_code == 404
    assert "tiny.en" in missing.json()["error"]["message"]


async def test_an_unknown_path_gets_an_openai_error(server: RunningServer) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/audio/transcriptions", 405),
        ("PUT", "/v1/audio/translations", 405),
    ):
        response = await server.client.request(method, path)
        assert response.status_code == status
        assert response.json()["error"]["type"] == "invalid_request_error"


async def test_all_paths_but_health_require_the_key(open_server: OpenServer) -> None:
    async with open_server(key="right") as server:
        assert (await server.client.get("/health")).status_code == 200
        assert (await server.client.get("/")).status_code == 200
        assert (await server.transcribe()).status_code == 401
        assert not server.scheduler.calls
        for path in PATHS:
            for key in ("", "Bearer wrong", "Basic right"):
                response = await server.client.get(path, headers={"authorization": key})
                assert response.status_code == 401
                assert response.json()["error"]["code"] == "invalid_api_key"
            right = {"authorization": "Bearer right"}
            assert (await server.client.get(path, headers=right)).status_code == 200


async def test_pages_of_other_sites_are_rejected(open_server: OpenServer) -> None:
    async with open_server(origins=("https://chat.lan",)) as server:
        path = "/v1/models"
        response = await server.client.get(path, headers={"origin": "https://evil.example"})
        assert response.status_code == 403
        for origin in ("https://chat.lan", server.url):
            assert (await server.client.get(path, headers={"origin": origin})).status_code == 200


async def test_status(server: RunningServer) -> None:
    await server.transcribe()
    status = (await server.client.get("/status")).json()
    assert (status["model"], status["device"], status["ready"]) == ("tiny.en", "cpu", True)
    assert (status["live"], status["live_slots"], status["upload_bytes"]) == (0, 8, 0)
    assert status["memory_bytes"] > 1e6
    assert status["requests"]["done"] == 1
    assert status["file_s"]["n"] == 1
    assert status["final_latency_ms"]["n"] == 0
    assert "vad" in status


async def test_metrics_count_outcomes_and_contain_no_names(server: RunningServer) -> None:
    await server.transcribe(prompt="zanzibar")
    await server.transcribe(b"zanzibar")
    server.state.metrics.observe_final(0.25)
    page = (await server.client.get("/metrics")).text
    found = {
        (sample.name, sample.labels.get("outcome")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert found["whisper_requests_total", "done"] == 1
    assert found["whisper_requests_total", "refused"] == 1
    assert found["whisper_requests_total", "left"] == 0
    assert found["whisper_audio_seconds_total", None] == pytest.approx(1.0)
    assert found["whisper_file_seconds_count", None] == 1
    assert found["whisper_final_latency_seconds_sum", None] == 0.25
    assert found["whisper_live", None] == found["whisper_upload_bytes", None] == 0
    assert found["process_resident_memory_bytes", None] > 1e6
    for word in ("zanzibar", "kettle", "speech.wav"):
        assert word not in page


async def test_the_canary_is_in_no_figure(server: RunningServer) -> None:
    def figures(page: str) -> list[str]:
        return [line for line in page.splitlines() if line.startswith("whisper_")]

    before = figures((await server.client.get("/metrics")).text)
    server.client.headers["x-hearth-canary"] = "1"
    assert (await server.transcribe()).status_code == 200
    assert (await server.transcribe(b"no audio")).status_code == 400
    assert figures((await server.client.get("/metrics")).text) == before
    status = (await server.client.get("/status")).json()
    assert (status["requests"]["done"], status["file_s"]["n"]) == (0, 0)
    del server.client.headers["x-hearth-canary"]
    await server.transcribe()
    assert (
        'whisper_requests_total{outcome="done"} 1.0' in (await server.client.get("/metrics")).text
    )


async def test_the_server_stops_in_seconds_with_open_requests(open_server: OpenServer) -> None:
    async with open_server(stop_s=1) as server:
        server.scheduler.gate.clear()
        asking = asyncio.create_task(server.transcribe())
        await server.until(lambda: bool(server.scheduler.blocks))
    assert server.scheduler.ended
    assert server.scheduler.open_texts == 0
    with pytest.raises(Exception):  # noqa: B017, PT011 - the kind of connection error varies
        (await asking).raise_for_status()


async def test_the_page_is_served(server: RunningServer) -> None:
    page = await server.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert 'data-key-wanted="no"' in page.text


async def test_a_failed_load_reports_its_reason(open_server: OpenServer) -> None:
    calls: list[Any] = []

    async def load() -> None:
        calls.append("load")
        raise OSError("no such model")

    async with open_server(load=load) as server:
        await server.until(lambda: bool(calls))
        assert (await server.client.get("/health")).status_code == 200
