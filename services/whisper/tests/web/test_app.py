"""Health, status, models, metrics, keys, origins and the page."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hearth_whisper.recognising import Options, Sound

from .conftest import House, Opened, ScriptedText, ScriptedWork

PATHS = ("/status", "/metrics", "/v1/models")


async def test_it_answers_while_the_model_loads(open_house: Opened) -> None:
    async with open_house(ScriptedWork(ready=False, model=None)) as house:
        health = await house.client.get("/health")
        assert (health.status_code, health.json()) == (503, {"status": "starting"})
        assert (await house.client.get("/status")).json()["ready"] is False
        listed = (await house.client.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["whisper-1"]
        # A file waits for the model; nobody knows yet what it will be called.
        assert (await house.write(model="tiny")).status_code == 200
        house.work.ready, house.work.model = True, "tiny.en"
        health = await house.client.get("/health")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})


async def test_the_name_is_checked_once_the_model_is_chosen(open_house: Opened) -> None:
    class Choosing(ScriptedWork):
        async def file(self, sound: Sound, options: Options) -> ScriptedText:
            self.model = "tiny.en"
            return await super().file(sound, options)

    for name, status in (("tiny", 404), ("tiny.en", 200)):
        async with open_house(Choosing(ready=False, model=None)) as house:
            assert (await house.write(model=name)).status_code == status
            assert house.work.open_texts == 0


async def test_models(house: House) -> None:
    listed = (await house.client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["tiny.en", "whisper-1"]
    assert (await house.client.get("/v1/models/tiny.en")).json()["object"] == "model"
    missing = await house.client.get("/v1/models/large")
    assert missing.status_code == 404
    assert "tiny.en" in missing.json()["error"]["message"]


async def test_what_is_not_there_has_openais_shape(house: House) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/audio/transcriptions", 405),
        ("PUT", "/v1/audio/translations", 405),
    ):
        answer = await house.client.request(method, path)
        assert answer.status_code == status
        assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_the_key_opens_everything_and_nothing_else_does(open_house: Opened) -> None:
    async with open_house(key="right") as house:
        assert (await house.client.get("/health")).status_code == 200
        assert (await house.client.get("/")).status_code == 200
        assert (await house.write()).status_code == 401
        assert not house.work.asked
        for path in PATHS:
            for key in ("", "Bearer wrong", "Basic right"):
                answer = await house.client.get(path, headers={"authorization": key})
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "invalid_api_key"
            right = {"authorization": "Bearer right"}
            assert (await house.client.get(path, headers=right)).status_code == 200


async def test_pages_of_other_sites_are_turned_away(open_house: Opened) -> None:
    async with open_house(origins=("https://chat.lan",)) as house:
        path = "/v1/models"
        answer = await house.client.get(path, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        for origin in ("https://chat.lan", house.url):
            assert (await house.client.get(path, headers={"origin": origin})).status_code == 200


async def test_status_says_what_there_is(house: House) -> None:
    await house.write()
    told = (await house.client.get("/status")).json()
    assert (told["model"], told["device"], told["ready"]) == ("tiny.en", "cpu", True)
    assert (told["live"], told["live_slots"], told["upload_bytes"]) == (0, 8, 0)
    assert told["memory_bytes"] > 1e6
    assert told["requests"]["done"] == 1
    assert told["file_s"]["n"] == 1
    assert told["final_latency_ms"]["n"] == 0
    assert "vad" in told


async def test_metrics_count_outcomes_and_name_nobody(house: House) -> None:
    await house.write(prompt="zanzibar")
    await house.write(b"zanzibar")
    house.desk.metrics.final(0.25)
    page = (await house.client.get("/metrics")).text
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
    assert found["whisper_process_resident_memory_bytes", None] > 1e6
    for word in ("zanzibar", "kettle", "speech.wav"):
        assert word not in page


async def test_it_ends_in_seconds_while_somebody_waits(open_house: Opened) -> None:
    async with open_house(stop_s=1) as house:
        house.work.gate.clear()
        asking = asyncio.create_task(house.write())
        await house.until(lambda: bool(house.work.heard))
    assert house.work.ended
    assert house.work.open_texts == 0
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever way the line breaks
        (await asking).raise_for_status()


async def test_the_page_is_there(house: House) -> None:
    page = await house.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert 'data-key-wanted="no"' in page.text


async def test_what_will_never_listen_says_why(open_house: Opened) -> None:
    told: list[Any] = []

    async def load() -> None:
        told.append("asked")
        raise OSError("no such model")

    async with open_house(load=load) as house:
        await house.until(lambda: bool(told))
        assert (await house.client.get("/health")).status_code == 200
