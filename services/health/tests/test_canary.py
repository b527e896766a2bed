"""The canary against servers that work, fail, are busy, or are used by somebody."""

import array
import asyncio
import io
import json
import math
import time
import wave
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hearth_health import canary
from hearth_health.app import make_app
from hearth_health.canary import Canary, Result, check_sound, heard, phrase
from hearth_health.config import CanaryConfig, Config, Target
from hearth_health.snapshot import SnapshotFile

from .conftest import Write

TARGETS = (
    Target("speech", "kokoro", "http://kokoro:8880"),
    Target("transcription", "whisper", "http://whisper:8000"),
    Target("models", "ollama", "http://ollama:11434", embeds=("nomic",)),
)
SPEECH, LISTENING, TOKEN = "speech of kokoro", "transcription by whisper", "one token of small:1b"


def sound(seconds: float = 2.0, loud: float = 0.3, rate: int = 24_000) -> bytes:
    waves = (math.sin(at / 20) for at in range(round(seconds * rate)))
    samples = array.array("h", (round(32_767 * loud * one) for one in waves))
    file = io.BytesIO()
    with wave.open(file, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(2)
        made.setframerate(rate)
        made.writeframes(samples.tobytes())
    return file.getvalue()


SOUND = sound()


class House:
    """Three servers in one, and a clock that their work moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.costs_s = 0.1
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.marks: set[str | None] = set()
        self.spoken = SOUND
        self.heard: str | None = None
        self.times: dict[str, list[float]] = {}
        self.status: dict[str, Any] = {"active": 0, "live": 0, "files": {"active": 0}}
        self.broken: Callable[[str], Response | None] = lambda _: None
        self.hangs = False
        # Until when each model stays loaded, from now.
        self.loaded: dict[str, timedelta] = {"small:1b": timedelta(minutes=4)}
        every = ["GET", "POST"]
        self.app = Starlette(routes=[Route("/{path:path}", self._answer, methods=every)])

    def sent(self, path: str) -> list[dict[str, Any]]:
        return [body for at, body in self.calls if at == path]

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        self.marks.add(request.headers.get("x-hearth-canary"))
        if path == "/status":
            return JSONResponse(self.status)
        if path == "/api/ps":
            ends = {name: datetime.now(UTC) + left for name, left in self.loaded.items()}
            models = [{"name": name, "expires_at": at.isoformat()} for name, at in ends.items()]
            return JSONResponse({"models": models})
        raw = await request.body()
        is_form = path.endswith("transcriptions")
        self.calls.append((path, {"form": raw} if is_form else json.loads(raw)))
        self.times.setdefault(path, []).append(self.now)
        if self.hangs:
            await asyncio.sleep(30)
        self.now += self.costs_s
        if (response := self.broken(path)) is not None:
            return response
        if path == "/v1/audio/speech":
            return Response(self.spoken, media_type="audio/wav")
        if is_form:
            said = self.sent("/v1/audio/speech")[-1]["input"]
            return JSONResponse({"text": said if self.heard is None else self.heard})
        if path == "/api/embed":
            return JSONResponse({"embeddings": [[0.5]]})
        return JSONResponse({"response": "a", "done": True, "eval_count": 1})


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def settings(tmp_path: Path) -> CanaryConfig:
    return CanaryConfig(tmp_path / "canary.json", targets=TARGETS)


Make = Callable[..., Canary]


@pytest.fixture
def make(house: House, config: Config, write: Write, settings: CanaryConfig) -> Make:
    """Return a canary for a house of which the watcher has just written."""

    def made(**changes: Any) -> Canary:
        write()
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=house.app))
        found = Canary(
            replace(settings, **changes),
            SnapshotFile(config.snapshot),
            client,
            clock=lambda: house.now,
            cards=settings.results.parent / "cards",
            cores=2,
        )
        house.now += canary.FIRST_S
        return found

    return made


async def wait(bird: Canary, house: House, seconds: float) -> None:
    """Let time pass, tick by tick."""
    end = house.now + seconds
    while house.now < end:
        house.now += canary.TICK_S
        await bird.tick()


async def work(bird: Canary, house: House) -> dict[str, Result]:
    """Let it try everything once more, for which a model has to be idle."""
    await wait(bird, house, 310)
    return bird.results


async def test_a_house_that_works_is_shown_to_do_so(make: Make, house: House) -> None:
    bird = make()
    results = await work(bird, house)
    assert {(one.what, one.kind, one.about, one.state, one.ok) for one in results.values()} == {
        (SPEECH, "speech", "kokoro", "ok", True),
        (LISTENING, "transcription", "whisper", "ok", True),
        (TOKEN, "model", "small:1b", "ok", True),
    }
    assert results[SPEECH].text == "2.0 s of sound"
    assert results[LISTENING].text == "understood"
    assert results[TOKEN].seconds == pytest.approx(0.1)
    # Each request is marked, and the sound is what was spoken.
    assert house.marks == {"1"}
    assert SOUND in house.sent("/v1/audio/transcriptions")[0]["form"]
    said = [body["input"] for body in house.sent("/v1/audio/speech")]
    assert len(said) == len(set(said)) == 2


async def test_the_results_are_written_for_the_watcher(
    make: Make, house: House, settings: CanaryConfig
) -> None:
    bird = make()
    await work(bird, house)
    bird.write()
    document = json.loads(settings.results.read_text())
    assert document["version"] == 1
    # Two sounds, two texts and a token, each 0.1 s on two cores.
    assert document["spent_s"] == pytest.approx(1.0)
    (speech,) = (one for one in document["results"] if one["what"] == SPEECH)
    assert {"state": "ok", "ok": True, "about": "kokoro"}.items() <= speech.items()


def test_phrases_are_new_and_short() -> None:
    said = {phrase() for _ in range(200)}
    assert len(said) > 190
    assert all(20 < len(one) < 60 for one in said)
    assert heard("The yellow garden has 7 apples.", "THE BLUE GARDEN, 7 apple(s)") == 1
    assert heard("The yellow garden has 7 apples.", "the yellow garden has seven apples") == 3
    assert heard("The yellow garden has 7 apples.", "the has") == 0


async def test_what_failed_before_a_repair_says_nothing_after_it(
    make: Make, house: House, write: Write
) -> None:
    def row(up: bool, state: str = "") -> None:
        write(rows=[{"name": "kokoro", "up": up, "state": state}])

    bird = make()
    house.broken = lambda path: Response(status_code=500) if "speech" in path else None
    # It fails once before it is seen to be down, and stays down.
    await wait(bird, house, 5)
    row(up=False, state="stopped")
    await wait(bird, house, 60)
    assert len(house.sent("/v1/audio/speech")) == 1
    assert SPEECH not in bird.results
    # After the repair it fails once more, and then works.
    row(up=True)
    await wait(bird, house, canary.FIRST_S + 5)
    assert len(house.sent("/v1/audio/speech")) == 2
    assert bird.results[SPEECH].ok is None
    house.broken = lambda _: None
    await wait(bird, house, 20)
    assert bird.results[SPEECH].ok is True


async def test_one_that_is_down_for_its_failing_work_is_tried_on(
    make: Make, house: House, write: Write
) -> None:
    bird = make()
    house.broken = lambda path: Response(status_code=500) if "speech" in path else None
    await wait(bird, house, 30)
    assert bird.results[SPEECH].ok is False
    write(rows=[{"name": "kokoro", "up": False, "state": "failing"}])
    await wait(bird, house, 60)
    assert bird.results[SPEECH].ok is False
    house.broken = lambda _: None
    await wait(bird, house, 20)
    assert bird.results[SPEECH].ok is True


async def test_a_try_during_which_a_service_breaks_and_is_repaired_is_no_failure(
    make: Make, house: House, write: Write
) -> None:
    bird = make()

    def fails(path: str) -> Response | None:
        return Response(status_code=500) if "speech" in path else None

    def breaks_meanwhile(path: str) -> Response | None:
        if answer := fails(path):
            write(rows=[{"name": "kokoro", "up": False, "state": "silent"}])
            bird.forget_broken()
            write(rows=[{"name": "kokoro", "up": True, "state": ""}])
        return answer

    house.broken = fails
    await wait(bird, house, 5)
    house.broken = breaks_meanwhile
    await wait(bird, house, 16)
    assert len(house.sent("/v1/audio/speech")) == 2
    assert SPEECH not in bird.results
    house.broken = fails
    await wait(bird, house, canary.FIRST_S + 5)
    assert len(house.sent("/v1/audio/speech")) == 3
    assert bird.results[SPEECH].ok is None
    await wait(bird, house, 16)
    assert bird.results[SPEECH].ok is False


async def test_it_is_written_when_a_service_last_worked(
    make: Make, house: House, settings: CanaryConfig
) -> None:
    bird = make()
    await work(bird, house)
    house.broken = lambda _: Response(status_code=500)
    await wait(bird, house, 400)
    bird.write()
    found = json.loads(settings.results.read_text())["worked"]
    assert {name: one["kind"] for name, one in found.items()} == {
        "kokoro": "speech",
        "whisper": "transcription",
        "ollama": "model",
    }
    assert all(0 <= time.time() - one["at"] < 60 for one in found.values())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no WAV file"),
        (b"<html>", "no WAV file"),
        (SOUND[:30], "no WAV file"),
        (sound(loud=0.001), "silent"),
        (sound(seconds=0.1), "lasts 0.1 s"),
        (sound(seconds=31, rate=8000), "lasts 31.0 s"),
    ],
)
def test_what_nobody_would_hear_is_no_speech(data: bytes, why: str) -> None:
    with pytest.raises(canary.TryError, match=why):
        check_sound(data)
    assert check_sound(SOUND) == pytest.approx(2.0)


async def test_the_second_failure_in_a_row_is_one_and_ends_with_its_cause(
    make: Make, house: House
) -> None:
    bird = make()
    await work(bird, house)
    house.spoken = sound(loud=0.0)
    house.now += 300
    await bird.tick()
    assert bird.results[SPEECH].ok
    await wait(bird, house, canary.AGAIN_S)
    failed = bird.results[SPEECH]
    assert (failed.state, failed.ok, failed.text) == ("failed", False, "the sound is silent")
    house.spoken = SOUND
    await wait(bird, house, canary.AGAIN_S)
    assert bird.results[SPEECH].ok


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/audio/transcriptions", "/api/generate"])
@pytest.mark.parametrize(
    ("status", "body", "why"),
    [(500, "", "HTTP 500"), (400, "", "HTTP 400"), (200, "x" * 5_000_000, "more than")],
)
async def test_a_server_that_fails_is_red(
    make: Make, house: House, path: str, status: int, body: str, why: str
) -> None:
    house.broken = lambda at: Response(body, status) if at == path else None
    results = await work(bird := make(), house)
    failed = [one for one in results.values() if one.ok is False]
    assert len(failed) == 1
    assert why in failed[0].text
    assert bird.spent_s() < 10


async def test_a_server_that_hangs_is_red(
    make: Make, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "WITHIN_S", 0.05)
    house.hangs, house.loaded = True, {}
    bird = make(targets=TARGETS[:1])
    await wait(bird, house, 30)
    assert bird.results[SPEECH].text == "no answer in 0.05 s"
    assert bird.results[SPEECH].ok is False


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_without_time_is_busy_and_no_failure(
    make: Make, house: House, status: int
) -> None:
    house.broken = lambda _: Response(status_code=status)
    results = await work(make(), house)
    assert {one.state for one in results.values()} <= {"busy", "skipped"}
    assert {one.ok for one in results.values()} == {None}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"active": 1}, "busy"),
        ({"live": 2}, "busy"),
        ({"files": {"active": 1}}, "busy"),
        ({"files": {"active": 0, "waiting": 3}}, "busy"),
        ({"loaded": False}, "skipped"),
    ],
)
async def test_what_somebody_uses_or_would_have_to_load_is_left_alone(
    make: Make, house: House, status: dict[str, Any], state: str
) -> None:
    house.status = status
    results = await work(make(targets=TARGETS[:2]), house)
    assert house.calls == []
    assert {one.state for one in results.values()} == {state}


async def test_no_model_is_loaded_or_kept(make: Make, house: House) -> None:
    house.loaded = {}
    bird = make()
    await work(bird, house)
    assert house.sent("/api/generate") == []
    house.loaded = {"small:1b": timedelta(seconds=25)}
    await work(bird, house)
    assert house.sent("/api/generate") == []
    house.loaded = {"small:1b": timedelta(seconds=100), "always:1b": timedelta(days=100_000)}
    await work(bird, house)
    kept = {body["model"]: body["keep_alive"] for body in house.sent("/api/generate")}
    # Even if the answer takes as long as it may.
    assert 70 <= kept["small:1b"] <= 100 - canary.WITHIN_S
    assert kept["always:1b"] == -1
    assert house.sent("/api/generate")[0]["options"] == {"num_predict": 1}


async def test_a_model_in_use_keeps_its_conversation(make: Make, house: House) -> None:
    bird = make(targets=TARGETS[2:])
    for minutes in range(4, 14):
        # Each use moves its end on.
        house.loaded = {"small:1b": timedelta(minutes=minutes)}
        await wait(bird, house, 60)
    assert house.sent("/api/generate") == []
    await wait(bird, house, canary.IDLE_S + canary.LOOK_S)
    assert len(house.sent("/api/generate")) == 1


async def test_a_model_that_only_embeds_gets_a_text(make: Make, house: House) -> None:
    house.loaded = {"nomic:latest": timedelta(minutes=4)}
    results = await work(make(), house)
    assert results["one token of nomic:latest"].ok
    assert house.sent("/api/generate") == []


async def test_a_model_that_is_unloaded_has_no_result(make: Make, house: House) -> None:
    house.broken = lambda at: Response(status_code=500) if at == "/api/generate" else None
    bird = make()
    assert (await work(bird, house))[TOKEN].ok is False
    house.loaded = {}
    await wait(bird, house, canary.LOOK_S + canary.TICK_S)
    assert TOKEN not in bird.results


async def test_a_transcriber_that_understood_must_go_on_to(make: Make, house: House) -> None:
    bird = make()
    house.heard = "zzz"
    # As made-up weights do.
    assert (await work(bird, house))[LISTENING].ok
    house.heard = None
    assert (await work(bird, house))[LISTENING].text == "understood"
    house.heard = "zzz"
    failed = (await work(bird, house))[LISTENING]
    assert (failed.ok, failed.text) == (False, "not one word of a clear phrase was understood")


@pytest.mark.parametrize("fields", [{"run": {"what": "hearth up", "since": 0}}, {"made_boot_s": 0}])
async def test_a_run_or_a_dead_watcher_stops_it(
    make: Make, house: House, write: Write, fields: dict[str, Any]
) -> None:
    bird = make()
    write(**fields)
    await work(bird, house)
    assert (house.calls, bird.results) == ([], {})


async def test_a_sleeping_card_is_not_woken_unless_told(
    make: Make, house: House, settings: CanaryConfig
) -> None:
    status = settings.results.parent / "cards/card0/device/power/runtime_status"
    status.parent.mkdir(parents=True)
    status.write_text("suspended\n")
    on_card = tuple(replace(one, card=True) for one in TARGETS)
    results = await work(make(targets=on_card), house)
    assert house.calls == []
    assert {one.state for one in results.values()} == {"skipped"}
    assert (await work(make(targets=on_card, wakes_card=True), house))[SPEECH].ok
    status.write_text("active\n")
    assert (await work(make(targets=on_card), house))[SPEECH].ok


async def most_spent(bird: Canary, house: House) -> float:
    """Return the seconds of the dearest of three hours."""
    most = 0.0
    for _ in range(180):
        await wait(bird, house, 60)
        most = max(most, bird.spent_s())
    return most


async def test_an_hour_costs_no_more_than_its_budget(make: Make, house: House) -> None:
    # Each try takes two seconds of two cores.
    house.costs_s, house.loaded = 2.0, {"small:1b": timedelta(days=100_000)}
    assert await most_spent(make(budget_s=24.0), house) <= 24.0 + 4.0
    # They are spread, so that none is forgotten for long.
    assert len(house.times) == 3
    for times in house.times.values():
        assert max(later - one for one, later in pairwise(times)) < 2000


async def test_many_models_share_one_budget(make: Make, house: House) -> None:
    house.costs_s = 2.0
    house.loaded = {f"model:{number}b": timedelta(days=100_000) for number in range(8)}
    assert await most_spent(make(budget_s=24.0), house) <= 24.0 + 4.0


async def test_an_error_of_its_own_does_not_end_it(
    make: Make, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bird, ticks = make(), list[int]()

    async def fails() -> None:
        ticks.append(1)
        raise RuntimeError("odd")

    monkeypatch.setattr(bird, "tick", fails)
    monkeypatch.setattr(canary, "TICK_S", 0)
    task = asyncio.create_task(bird.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    assert len(ticks) > 1
    assert "canary: RuntimeError: odd" in capsys.readouterr().err


async def test_it_works_beside_the_page(
    config: Config, write: Write, settings: CanaryConfig
) -> None:
    write()
    app = make_app(replace(config, canary=settings))
    async with app.router.lifespan_context(app), asyncio.timeout(10):
        while not settings.results.exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
    assert json.loads(settings.results.read_text())["results"] == []
