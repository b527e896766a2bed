"""The puller with a fake Ollama: what it pulls, records, refuses and removes."""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_ollama import GB, MB, FakeOllama, House, model
from hearth_model_puller import ollama

GOOD, OTHER = "a" * 64, "b" * 64


def publish(fake: FakeOllama, **sizes: int) -> None:
    fake.registry.update({f"{name}:latest": (GOOD, size) for name, size in sizes.items()})


async def test_pulls_in_order_and_reports_ready_with_size_and_digest(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, big=9 * MB, mid=5 * MB, tiny=MB)
    sizes = {"big": 9 * MB, "mid": 5 * MB, "tiny": MB}
    house.want(*(model(n, s, digest=f"sha256:{GOOD}") for n, s in sizes.items()), first=("mid",))
    pause_s = await house.run_steps(house.puller(), 4)
    assert fake.pulls == ["mid:latest", "tiny:latest", "big:latest"]
    assert pause_s == 60
    for name, size in sizes.items():
        entry = house.progress()[name]
        assert (entry["state"], entry["percent"], entry["total_bytes"]) == ("ready", 100, size)
        assert entry["digest"] == GOOD
    assert {record["state"] for record in house.pulled().values()} == {"pulled"}


async def test_a_broken_connection_is_retried_later_and_resumed(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=8 * MB)
    fake.faults["m:latest"] = ["cut 1"]
    house.want(model("m", 8 * MB))
    puller = house.puller()
    pause_s = await house.run_steps(puller, 2)
    entry = house.progress()["m"]
    assert (entry["state"], entry["percent"]) == ("failed", 50)
    assert entry["reason"].startswith("RemoteProtocolError")
    assert entry["retry_at"]
    assert fake.pulls == ["m:latest"]
    assert 2.5 <= pause_s <= 5
    house.clock.now += pause_s
    await house.run_steps(puller, 2)
    assert fake.started_at == [0, 4 * MB]
    assert house.progress()["m"]["state"] == "ready"


async def test_the_delay_grows_with_each_failure_up_to_a_maximum(
    house: House, fake: FakeOllama
) -> None:
    house.want(model("unknown", MB))
    puller = house.puller()
    pauses = []
    for _ in range(10):
        await house.run_steps(puller, 2)
        pauses.append(puller.retries.wait_s("unknown:latest"))
        house.clock.now += pauses[-1]
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert "file does not exist" in house.progress()["unknown"]["reason"]


async def test_failures_are_dated_from_the_first_until_the_download_advances(
    house: House, fake: FakeOllama
) -> None:
    house.want(model("m", 8 * MB))
    fake.faults["m:latest"] = ["", "", "cut 1", ""]
    since = []
    for number in range(4):
        if number == 2:
            # From now on there is something to download.
            publish(fake, m=8 * MB)
        # Each time after a restart, which forgets the delays, and no date.
        await house.run_steps(house.puller(), 2)
        since.append(house.progress()["m"]["failing_since"])
        house.clock.now += 3600
    assert since[0] is not None
    assert since[1] == since[0]
    assert since[0] < since[2]
    assert since[3] is None


async def test_a_failed_model_does_not_delay_the_next(house: House, fake: FakeOllama) -> None:
    publish(fake, b=2 * MB)
    house.want(model("a", MB), model("b", 2 * MB))
    await house.run_steps(house.puller(), 3)
    assert house.progress()["a"]["state"] == "failed"
    assert house.progress()["b"]["state"] == "ready"


async def test_a_full_disk_is_reported_and_nothing_is_pulled(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=6 * GB)
    house.want(model("m", 6 * GB))
    house.free = 7 * GB - 1
    puller = house.puller()
    await house.run_steps(puller, 2)
    assert fake.pulls == []
    entry = house.progress()["m"]
    assert entry["state"] == "failed"
    assert "the disk has 7.0 GB free and 7.0 GB are needed" in entry["reason"]
    house.free = 7 * GB
    house.clock.now += 10
    await house.run_steps(puller, 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_free_disk_space_is_noticed_within_seconds_after_any_delay(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=6 * GB)
    house.want(model("m", 6 * GB))
    house.free = 0
    puller = house.puller()
    for _ in range(10):
        await house.run_steps(puller, 2)
        house.clock.now += puller.retries.wait_s("m:latest")
    assert await house.run_steps(puller, 2) == 10
    assert puller.retries.wait_s("m:latest") == 600
    house.free = 7 * GB
    await house.run_steps(puller, 2)
    assert house.progress()["m"]["state"] == "ready"
    assert await house.run_steps(puller) == 60


async def test_a_disk_that_fills_during_a_pull_is_reported_with_ollamas_message(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=MB)
    fake.faults["m:latest"] = ["error write /models/blobs/x: no space left on device"]
    house.want(model("m", MB))
    await house.run_steps(house.puller(), 2)
    assert "no space left on device" in house.progress()["m"]["reason"]


async def test_a_model_too_big_for_memory_is_not_pulled_but_an_accelerator_counts(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=MB)
    big = {**model("m", MB), "memory_bytes": 20 * GB}
    house.want(big)
    puller = house.puller()
    await house.run_steps(puller, 2)
    assert fake.pulls == []
    assert house.progress()["m"]["state"] == "too_big"
    house.want(big, accelerator_bytes=8 * GB)
    await house.run_steps(puller, 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_a_wrong_manifest_is_removed_and_refused_for_a_day_even_after_restarts(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=MB)
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.run_steps(house.puller(), 2)
    assert fake.disk == {}
    entry = house.progress()["m"]
    assert entry["state"] == "failed"
    assert "served manifest sha256:bbbbbbbbbbbb, the lock has sha256:aaaaaaaaaaaa" in str(entry)
    await house.run_steps(house.puller(), 3)
    assert fake.pulls == ["m:latest"]
    house.want(model("m", MB, digest=OTHER))
    await house.run_steps(house.puller(), 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_a_refused_model_is_retried_after_a_day(house: House, fake: FakeOllama) -> None:
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.run_steps(house.puller(), 2)
    publish(fake, m=MB)
    house.clock.now += 24 * 3600
    await house.run_steps(house.puller(), 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_a_kill_between_pull_and_record_is_repaired(house: House, fake: FakeOllama) -> None:
    publish(fake, m=MB)
    fake.faults["m:latest"] = ["cut at the end"]
    house.want(model("m", MB))
    await house.run_steps(house.puller(), 1)
    assert house.pulled()["m:latest"]["state"] == "pulling"
    assert "m:latest" in fake.disk
    await house.run_steps(house.puller(), 1)
    assert house.pulled()["m:latest"]["state"] == "pulled"
    assert fake.pulls == ["m:latest"]
    house.want()
    await house.run_steps(house.puller(), 1)
    assert fake.disk == {}


async def test_a_wrong_manifest_is_refused_after_a_kill_before_the_check(
    house: House, fake: FakeOllama
) -> None:
    fake.registry["m:latest"] = (OTHER, MB)
    fake.faults["m:latest"] = ["cut at the end"]
    house.want(model("m", MB, digest=GOOD))
    await house.run_steps(house.puller(), 1)
    await house.run_steps(house.puller(), 1)
    assert fake.disk == {}
    assert house.progress()["m"]["state"] == "failed"


async def test_a_new_digest_in_the_lock_pulls_the_model_again(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=MB)
    house.want(model("m", MB, digest=GOOD))
    puller = house.puller()
    await house.run_steps(puller, 2)
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=OTHER))
    await house.run_steps(puller, 2)
    assert fake.pulls == ["m:latest"] * 2
    assert house.progress()["m"]["digest"] == OTHER
    assert house.progress()["m"]["state"] == "ready"


async def test_removes_only_what_it_pulled(house: House, fake: FakeOllama) -> None:
    publish(fake, ours=MB)
    fake.disk = {"theirs:latest": (GOOD, MB), "both:latest": (GOOD, MB)}
    house.want(model("ours", MB), model("both", MB))
    await house.run_steps(house.puller(), 3)
    assert house.progress()["both"]["state"] == "ready"
    house.want()
    await house.run_steps(house.puller(), 2)
    assert fake.deleted == ["ours:latest"]
    assert house.pulled() == {}


async def test_a_model_that_somebody_pulled_after_our_refusal_stays(
    house: House, fake: FakeOllama
) -> None:
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.run_steps(house.puller(), 2)
    assert fake.deleted == ["m:latest"]
    fake.disk["m:latest"] = (OTHER, MB)
    house.want()
    await house.run_steps(house.puller(), 1)
    assert fake.deleted == ["m:latest"]


async def test_a_model_that_replaced_ours_stays(house: House, fake: FakeOllama) -> None:
    publish(fake, m=MB)
    house.want(model("m", MB))
    await house.run_steps(house.puller(), 2)
    fake.disk["m:latest"] = (OTHER, MB)
    house.want()
    await house.run_steps(house.puller(), 1)
    assert fake.deleted == []


async def test_a_foreign_model_with_another_digest_is_reported_and_stays(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=MB)
    fake.disk["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.run_steps(house.puller(), 2)
    assert (fake.deleted, fake.pulls) == ([], [])
    assert "Hearth did not pull it" in house.progress()["m"]["reason"]


async def test_an_unreadable_list_removes_nothing(house: House, fake: FakeOllama) -> None:
    publish(fake, m=MB)
    house.want(model("m", MB))
    puller = house.puller()
    await house.run_steps(puller, 2)
    house.models_file.write_text('{"models": [')
    await house.run_steps(puller, 2)
    document = json.loads((house.folder / "progress.json").read_text())
    assert "not JSON" in document["note"]
    house.models_file.unlink()
    await house.run_steps(puller, 2)
    await house.run_steps(house.puller(), 2)
    assert list(fake.disk) == ["m:latest"]


async def test_unreadable_records_remove_nothing(house: House, fake: FakeOllama) -> None:
    publish(fake, m=MB)
    house.want(model("m", MB))
    await house.run_steps(house.puller(), 2)
    (house.folder / "pulled.json").write_text("{")
    house.want()
    await house.run_steps(house.puller(), 2)
    assert list(fake.disk) == ["m:latest"]
    assert (house.folder / "pulled.json.unreadable").exists()


async def test_read_only_reports_missing_models_and_changes_nothing(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, a=MB, b=MB)
    fake.disk["a:latest"] = (GOOD, MB)
    house.want(model("a", MB), model("b", MB))
    await house.run_steps(house.puller(read_only=True), 3)
    assert house.progress()["a"]["state"] == "ready"
    assert house.progress()["b"]["state"] == "missing"
    assert "ollama pull b" in house.progress()["b"]["reason"]
    assert (fake.pulls, fake.deleted) == ([], [])
    assert not (house.folder / "pulled.json").exists()


async def test_a_pull_stops_if_its_model_is_removed_from_the_list(
    house: House, fake: FakeOllama
) -> None:
    publish(fake, m=MB)
    house.want(model("m", MB))
    puller = house.puller()
    await house.run_steps(puller, 0)
    puller._reload()
    (wanted,) = puller.wanted.models
    puller.partial_bytes[wanted.key] = 0
    on_progress = puller._progress_callback(wanted)
    assert on_progress(ollama.PullProgress(status="pulling aa"))
    house.want()
    house.clock.now += 2
    assert not on_progress(ollama.PullProgress(status="pulling aa"))


@pytest.mark.parametrize("fault", ["hold 1", "drip 1"])
async def test_a_stalled_pull_is_stopped_even_if_events_arrive(
    house: House, fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(ollama, "STALL_S", 0.2)
    publish(fake, m=MB)
    fake.faults["m:latest"] = [fault]
    house.want(model("m", MB))
    async with asyncio.timeout(5):
        await house.run_steps(house.puller(), 2)
    assert "stalled" in house.progress()["m"]["reason"]


async def test_without_ollama_it_waits_and_reports_it(house: House, fake: FakeOllama) -> None:
    house.want(model("m", MB))
    puller = house.puller()
    async with ollama.client_for("http://127.0.0.1:9") as unreachable:
        puller.client = unreachable
        assert await house.run_steps(puller, 1) == 2
    document = json.loads((house.folder / "progress.json").read_text())
    assert document["note"].startswith("Ollama does not answer")
    assert document["models"]["m"]["state"] == "waiting"


async def test_an_idle_puller_resumes_when_the_list_changes(house: House, fake: FakeOllama) -> None:
    house.want()
    puller = house.puller()
    await house.run_steps(puller, 1)
    start = house.clock.now
    house.want(model("m", MB))
    await puller._sleep(60)
    assert house.clock.now - start == 2


def test_the_rate_covers_the_last_seconds_and_ignores_earlier_bytes() -> None:
    now = [0.0]
    rate = ollama.DownloadRate(lambda: now[0])
    rate.add(5 * GB)
    assert rate.bytes_per_s() == 0
    for _ in range(30):
        now[0] += 1
        rate.add(5 * GB + int(now[0]) * MB)
    assert rate.bytes_per_s() == MB
