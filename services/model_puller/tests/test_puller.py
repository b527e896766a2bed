"""The puller against a fake Ollama: what it pulls, records, refuses and removes."""

from __future__ import annotations

import asyncio
import json

import pytest

from fake_ollama import GB, MB, FakeOllama, House, model
from hearth_model_puller import ollama

GOOD, OTHER = "a" * 64, "b" * 64


def offer(fake: FakeOllama, **sizes: int) -> None:
    fake.registry.update({f"{name}:latest": (GOOD, size) for name, size in sizes.items()})


async def test_pulls_in_order_and_says_ready_with_size_and_digest(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, big=9 * MB, mid=5 * MB, tiny=MB)
    sizes = {"big": 9 * MB, "mid": 5 * MB, "tiny": MB}
    house.want(*(model(n, s, digest=f"sha256:{GOOD}") for n, s in sizes.items()), first=("mid",))
    pause_s = await house.work(house.puller(), 4)
    assert fake.pulls == ["mid:latest", "tiny:latest", "big:latest"]
    assert pause_s == 60
    for name, size in sizes.items():
        entry = house.progress()[name]
        assert (entry["state"], entry["percent"], entry["total_bytes"]) == ("ready", 100, size)
        assert entry["digest"] == GOOD
    assert {record["state"] for record in house.pulled().values()} == {"pulled"}


async def test_a_cut_connection_is_retried_later_and_goes_on_where_it_was(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=8 * MB)
    fake.faults["m:latest"] = ["cut 1"]
    house.want(model("m", 8 * MB))
    puller = house.puller()
    pause_s = await house.work(puller, 2)
    entry = house.progress()["m"]
    assert (entry["state"], entry["percent"]) == ("failed", 50)
    assert entry["reason"].startswith("RemoteProtocolError")
    assert entry["retry_at"]
    assert fake.pulls == ["m:latest"]
    assert 2.5 <= pause_s <= 5
    house.clock.now += pause_s
    await house.work(puller, 2)
    assert fake.started_at == [0, 4 * MB]
    assert house.progress()["m"]["state"] == "ready"


async def test_waits_longer_after_each_failure_with_a_ceiling_and_never_stops(
    house: House, fake: FakeOllama
) -> None:
    house.want(model("unknown", MB))
    puller = house.puller()
    pauses = []
    for _ in range(10):
        await house.work(puller, 2)
        pauses.append(puller.retries.wait_s("unknown:latest"))
        house.clock.now += pauses[-1]
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert "file does not exist" in house.progress()["unknown"]["reason"]


async def test_one_that_fails_does_not_hold_up_the_next(house: House, fake: FakeOllama) -> None:
    offer(fake, b=2 * MB)
    house.want(model("a", MB), model("b", 2 * MB))
    await house.work(house.puller(), 3)
    assert house.progress()["a"]["state"] == "failed"
    assert house.progress()["b"]["state"] == "ready"


async def test_too_little_disk_is_said_and_nothing_is_pulled(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=6 * GB)
    house.want(model("m", 6 * GB))
    house.free = 7 * GB - 1
    puller = house.puller()
    await house.work(puller, 2)
    assert fake.pulls == []
    entry = house.progress()["m"]
    assert entry["state"] == "failed"
    assert "the disk has 7.0 GB free and 7.0 GB are needed" in entry["reason"]
    house.free = 7 * GB
    house.clock.now += 10
    await house.work(puller, 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_room_on_the_disk_is_seen_within_seconds_however_long_it_lacked(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=6 * GB)
    house.want(model("m", 6 * GB))
    house.free = 0
    puller = house.puller()
    for _ in range(10):
        await house.work(puller, 2)
        house.clock.now += puller.retries.wait_s("m:latest")
    assert await house.work(puller, 2) == 10
    assert puller.retries.wait_s("m:latest") == 600
    house.free = 7 * GB
    await house.work(puller, 2)
    assert house.progress()["m"]["state"] == "ready"
    assert await house.work(puller) == 60


async def test_a_disk_that_fills_up_meanwhile_is_said_in_ollamas_words(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=MB)
    fake.faults["m:latest"] = ["error write /models/blobs/x: no space left on device"]
    house.want(model("m", MB))
    await house.work(house.puller(), 2)
    assert "no space left on device" in house.progress()["m"]["reason"]


async def test_too_big_for_the_memory_is_not_pulled_and_a_card_counts(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=MB)
    big = {**model("m", MB), "memory_bytes": 20 * GB}
    house.want(big)
    puller = house.puller()
    await house.work(puller, 2)
    assert fake.pulls == []
    assert house.progress()["m"]["state"] == "too_big"
    house.want(big, accelerator_bytes=8 * GB)
    await house.work(puller, 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_a_wrong_manifest_is_removed_and_refused_for_a_day_over_restarts(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=MB)
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.work(house.puller(), 2)
    assert fake.disk == {}
    entry = house.progress()["m"]
    assert entry["state"] == "failed"
    assert "served manifest sha256:bbbbbbbbbbbb, the lock says sha256:aaaaaaaaaaaa" in str(entry)
    await house.work(house.puller(), 3)
    assert fake.pulls == ["m:latest"]
    house.want(model("m", MB, digest=OTHER))
    await house.work(house.puller(), 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_the_registry_gets_another_chance_after_a_day(house: House, fake: FakeOllama) -> None:
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.work(house.puller(), 2)
    offer(fake, m=MB)
    house.clock.now += 24 * 3600
    await house.work(house.puller(), 2)
    assert house.progress()["m"]["state"] == "ready"


async def test_a_kill_between_the_pull_and_the_record_is_recovered(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=MB)
    fake.faults["m:latest"] = ["cut at the end"]
    house.want(model("m", MB))
    await house.work(house.puller(), 1)
    assert house.pulled()["m:latest"]["state"] == "pulling"
    assert "m:latest" in fake.disk
    await house.work(house.puller(), 1)
    assert house.pulled()["m:latest"]["state"] == "pulled"
    assert fake.pulls == ["m:latest"]
    house.want()
    await house.work(house.puller(), 1)
    assert fake.disk == {}


async def test_a_kill_before_a_wrong_manifest_was_checked_still_refuses_it(
    house: House, fake: FakeOllama
) -> None:
    fake.registry["m:latest"] = (OTHER, MB)
    fake.faults["m:latest"] = ["cut at the end"]
    house.want(model("m", MB, digest=GOOD))
    await house.work(house.puller(), 1)
    await house.work(house.puller(), 1)
    assert fake.disk == {}
    assert house.progress()["m"]["state"] == "failed"


async def test_a_new_digest_in_the_lock_pulls_ours_again(house: House, fake: FakeOllama) -> None:
    offer(fake, m=MB)
    house.want(model("m", MB, digest=GOOD))
    puller = house.puller()
    await house.work(puller, 2)
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=OTHER))
    await house.work(puller, 2)
    assert fake.pulls == ["m:latest"] * 2
    assert house.progress()["m"]["digest"] == OTHER
    assert house.progress()["m"]["state"] == "ready"


async def test_removes_only_what_it_pulled(house: House, fake: FakeOllama) -> None:
    offer(fake, ours=MB)
    fake.disk = {"theirs:latest": (GOOD, MB), "both:latest": (GOOD, MB)}
    house.want(model("ours", MB), model("both", MB))
    await house.work(house.puller(), 3)
    assert house.progress()["both"]["state"] == "ready"
    house.want()
    await house.work(house.puller(), 2)
    assert fake.deleted == ["ours:latest"]
    assert house.pulled() == {}


async def test_what_somebody_pulled_after_our_refusal_is_theirs(
    house: House, fake: FakeOllama
) -> None:
    fake.registry["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.work(house.puller(), 2)
    assert fake.deleted == ["m:latest"]
    fake.disk["m:latest"] = (OTHER, MB)
    house.want()
    await house.work(house.puller(), 1)
    assert fake.deleted == ["m:latest"]


async def test_what_somebody_put_in_the_place_of_ours_stays(house: House, fake: FakeOllama) -> None:
    offer(fake, m=MB)
    house.want(model("m", MB))
    await house.work(house.puller(), 2)
    fake.disk["m:latest"] = (OTHER, MB)
    house.want()
    await house.work(house.puller(), 1)
    assert fake.deleted == []


async def test_anothers_model_with_another_digest_is_named_and_left(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=MB)
    fake.disk["m:latest"] = (OTHER, MB)
    house.want(model("m", MB, digest=GOOD))
    await house.work(house.puller(), 2)
    assert (fake.deleted, fake.pulls) == ([], [])
    assert "Hearth did not pull it" in house.progress()["m"]["reason"]


async def test_an_unreadable_list_removes_nothing(house: House, fake: FakeOllama) -> None:
    offer(fake, m=MB)
    house.want(model("m", MB))
    puller = house.puller()
    await house.work(puller, 2)
    house.models_file.write_text('{"models": [')
    await house.work(puller, 2)
    document = json.loads((house.folder / "progress.json").read_text())
    assert "not JSON" in document["note"]
    house.models_file.unlink()
    await house.work(puller, 2)
    await house.work(house.puller(), 2)
    assert list(fake.disk) == ["m:latest"]


async def test_an_unreadable_record_removes_nothing(house: House, fake: FakeOllama) -> None:
    offer(fake, m=MB)
    house.want(model("m", MB))
    await house.work(house.puller(), 2)
    (house.folder / "pulled.json").write_text("{")
    house.want()
    await house.work(house.puller(), 2)
    assert list(fake.disk) == ["m:latest"]
    assert (house.folder / "pulled.json.unreadable").exists()


async def test_read_only_says_what_is_missing_and_changes_nothing(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, a=MB, b=MB)
    fake.disk["a:latest"] = (GOOD, MB)
    house.want(model("a", MB), model("b", MB))
    await house.work(house.puller(read_only=True), 3)
    assert house.progress()["a"]["state"] == "ready"
    assert house.progress()["b"]["state"] == "missing"
    assert "ollama pull b" in house.progress()["b"]["reason"]
    assert (fake.pulls, fake.deleted) == ([], [])
    assert not (house.folder / "pulled.json").exists()


async def test_a_model_that_leaves_the_list_while_it_comes_is_let_go(
    house: House, fake: FakeOllama
) -> None:
    offer(fake, m=MB)
    house.want(model("m", MB))
    puller = house.puller()
    await house.work(puller, 0)
    puller._reread()
    (wanted,) = puller.wanted.models
    puller.have_bytes[wanted.key] = 0
    follow = puller._follow(wanted)
    assert follow(ollama.Progress(status="pulling aa"))
    house.want()
    house.clock.now += 2
    assert not follow(ollama.Progress(status="pulling aa"))


@pytest.mark.parametrize("fault", ["hold 1", "drip 1"])
async def test_a_pull_that_stands_still_is_given_up_even_if_it_goes_on_talking(
    house: House, fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(ollama, "STALL_S", 0.2)
    offer(fake, m=MB)
    fake.faults["m:latest"] = [fault]
    house.want(model("m", MB))
    async with asyncio.timeout(5):
        await house.work(house.puller(), 2)
    assert "stood still" in house.progress()["m"]["reason"]


async def test_without_ollama_it_waits_and_says_so(house: House, fake: FakeOllama) -> None:
    house.want(model("m", MB))
    puller = house.puller()
    async with ollama.client_for("http://127.0.0.1:9") as nobody:
        puller.client = nobody
        assert await house.work(puller, 1) == 2
    document = json.loads((house.folder / "progress.json").read_text())
    assert document["note"].startswith("Ollama does not answer")
    assert document["models"]["m"]["state"] == "waiting"


async def test_an_idle_puller_wakes_up_when_the_list_changes(
    house: House, fake: FakeOllama
) -> None:
    house.want()
    puller = house.puller()
    await house.work(puller, 1)
    start = house.clock.now
    house.want(model("m", MB))
    await puller._rest(60)
    assert house.clock.now - start == 2


def test_speed_counts_the_last_seconds_and_not_what_was_there() -> None:
    from hearth_model_puller.rate import Rate

    now = [0.0]
    rate = Rate(lambda: now[0])
    rate.take(5 * GB)
    assert rate.per_s() == 0
    for _ in range(30):
        now[0] += 1
        rate.take(5 * GB + int(now[0]) * MB)
    assert rate.per_s() == MB
