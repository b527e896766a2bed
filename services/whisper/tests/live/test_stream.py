"""`WS /v1/audio/transcriptions/stream`, over a socket, with real speech and the real detector."""

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hearth_serving.errors import EngineError, ServiceError
from hearth_whisper.recognising import SAMPLE_RATE, Options, Samples, Stop
from hearth_whisper.recognising.finals import Claim
from hearth_whisper.recognising.model import Loaded, Make
from hearth_whisper.recognising.work import Bounds, WholeText, Work
from hearth_whisper.web import stream as stream_module

from ..scripted import ScriptedRecogniser
from ..web import conftest as web
from ..web.conftest import House, Opened
from .line import Dialled, Line
from .scripted import ScriptedWork, silence
from .speech import speak

SPOKEN = "Turn off the lamps."
LONG = "The kitchen light is off, and the door to the garden is closed."


@dataclass
class TalkingWork(web.ScriptedWork):
    live: ScriptedWork = field(default_factory=ScriptedWork)
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1

    async def final(
        self, samples: Samples, options: Options, stop: Stop, claim: Claim | None = None
    ) -> WholeText:
        return await self.live.final(samples, options, stop, claim)

    async def partial(self, samples: Samples, options: Options) -> WholeText | None:
        return await self.live.partial(samples, options)


class ResidentWork(Work):
    """The real one, in a house of doubles."""

    def __init__(self, make: Make, bounds: Bounds) -> None:
        super().__init__(make, bounds)
        self.gate = asyncio.Event()


@pytest.fixture
def work() -> TalkingWork:
    return TalkingWork(live=ScriptedWork(texts=[f"text {n}" for n in range(1, 20)]))


@pytest.fixture
async def house(open_house: Opened, work: TalkingWork) -> AsyncIterator[House]:
    async with open_house(work) as opened:
        yield opened


def a_talk() -> Samples:
    return np.concatenate([silence(0.5), speak(SPOKEN), silence(1), speak("Yes."), silence(1)])


@pytest.mark.parametrize("sizes", [(640,), (1, 7, 333, 2), (65_536,), (1_000_000,)])
async def test_speech_in_text_out_in_pieces_of_any_size(
    house: House, dial: Dialled, sizes: tuple[int, ...]
) -> None:
    async with dial(house) as line:
        ready = await line.hear()
        assert (ready["type"], ready["sample_rate"], ready["model"]) == ("ready", 16_000, "tiny.en")
        await line.tell(type="start", language="en", prompt="Lamps.", partials=False)
        await line.talk(a_talk(), sizes)
        await line.tell(type="end")
        told = await line.until("done")
        with pytest.raises(ConnectionClosed):
            await line.hear()
        assert line.socket.close_code == 1000
    kinds = ["speech_started", "speech_ended", "final"]
    assert sorted(event["type"] for event in told[:-1]) == sorted(kinds * 2)
    for number in (1, 2):
        assert [e["type"] for e in told if e.get("utterance") == number] == kinds
    finals = [event for event in told if event["type"] == "final"]
    assert [final["text"] for final in finals] == ["text 1", "text 2"]
    length_s = a_talk().size / SAMPLE_RATE
    times = [t for final in finals for t in (final["start_s"], final["end_s"])]
    assert times == sorted(times)
    assert times[0] > 0.3
    assert times[-1] < length_s - 0.9
    work = house.work
    assert isinstance(work, TalkingWork)
    assert {(a.options.language, a.options.prompt) for a in work.live.finals} == {("en", "Lamps.")}
    # The model may have left the memory: it is called for when somebody comes, and when he speaks.
    assert work.woken == 3


async def test_partials_come_while_somebody_speaks(house: House, dial: Dialled) -> None:
    assert isinstance(house.work, TalkingWork)
    house.work.live.guesses = ["the kitchen", "the kitchen light", *[None] * 50]
    async with dial(house) as line:
        await line.talk(speak(LONG))
        await line.tell(type="end")
        told = await line.until("done")
    partials = [event for event in told if event["type"] == "partial"]
    assert [(p["text"], p["stable"]) for p in partials[:2]] == [
        ("the kitchen", ""),
        ("the kitchen light", "the kitchen"),
    ]
    assert told[-2]["type"] == "final"


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
async def test_other_rates_are_heard_at_their_own_time(
    house: House, dial: Dialled, rate: int
) -> None:
    sound = a_talk()
    at = np.arange(round(sound.size * rate / SAMPLE_RATE)) * SAMPLE_RATE / rate
    other = np.interp(at, np.arange(sound.size), sound).astype(np.float32)
    async with dial(house) as line:
        await line.tell(type="start", sample_rate=rate, partials=False)
        await line.talk(other, (1234,))
        await line.tell(type="end")
        told = await line.until("done")
    ended = [event["at_s"] for event in told if event["type"] == "speech_ended"]
    first = 0.5 + speak(SPOKEN).size / SAMPLE_RATE
    second = first + 1 + speak("Yes.").size / SAMPLE_RATE
    # Half of an "s" is above what 8 kHz can carry.
    assert ended == pytest.approx([first, second], abs=0.15)


async def test_flush_is_answered_and_the_stream_stays(house: House, dial: Dialled) -> None:
    async with dial(house) as line:
        for number in (1, 2):
            await line.talk(speak(SPOKEN))
            await line.tell(type="flush")
            told = await line.until("flushed")
            assert told[-2]["type"] == "final"
            assert told[-2]["utterance"] == number


async def test_silence_gives_nothing(house: House, dial: Dialled) -> None:
    async with dial(house) as line:
        await line.talk(silence(20), (65_536,))
        await line.tell(type="end")
        assert [event["type"] for event in await line.until("done")] == ["ready", "done"]


async def test_who_sends_no_more_has_ended(
    house: House, dial: Dialled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A muted microphone sends no silence, and nobody asks for a flush."""
    monkeypatch.setattr(stream_module, "_GAP_S", 0.2)
    async with dial(house) as line:
        await line.talk(speak(SPOKEN))
        told = await line.until("final")
        assert told[-2]["type"] == "speech_ended"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_message"),
        ('{"type": "sing"}', "invalid_message"),
        ('{"type": "start", "sample_rate": 96000}', "invalid_message"),
        ('{"type": "start", "sample_rate": "fast"}', "invalid_message"),
        ('{"type": "start", "end_of_speech_ms": 1}', "invalid_message"),
        ('{"type": "start", "language": "klingon"}', "invalid_message"),
        ('{"type": "start", "rate": 16000}', "invalid_message"),
        ("[" * 60_000, "invalid_json"),
    ],
)
async def test_rubbish_is_answered_and_the_stream_stays(
    house: House, dial: Dialled, message: str, code: str
) -> None:
    async with dial(house) as line:
        await line.hear()
        await line.socket.send(message)
        told = await line.hear()
        assert (told["type"], told["error"]["code"]) == ("error", code)
        assert told["error"]["type"] == "invalid_request_error"
        await line.talk(speak(SPOKEN))
        await line.tell(type="flush")
        assert (await line.until("final"))[-1]["text"] == "text 1"


async def test_a_refused_start_names_its_field(house: House, dial: Dialled) -> None:
    async with dial(house) as line:
        await line.tell(type="start", sample_rate=96_000)
        error = (await line.until("error"))[-1]["error"]
        assert error["param"] == "sample_rate"
        assert "48000" in error["message"]


async def test_start_comes_before_sound(house: House, dial: Dialled) -> None:
    async with dial(house) as line:
        await line.talk(silence(0.1))
        await line.tell(type="start", sample_rate=8000)
        assert "before" in (await line.until("error"))[-1]["error"]["message"]


async def test_rubbish_without_end_is_ended(house: House, dial: Dialled) -> None:
    async with dial(house) as line:
        for _ in range(20):
            await line.socket.send("x")
        assert await line.closed() == 1008


async def test_a_message_too_long_ends_the_stream(open_house: Opened, dial: Dialled) -> None:
    async with open_house(TalkingWork(), message_bytes=70_000) as house, dial(house) as line:
        await line.socket.send(b"a" * 70_001)
        assert await line.closed() == 1009


async def test_who_says_nothing_is_let_go(open_house: Opened, dial: Dialled) -> None:
    async with open_house(TalkingWork(), idle_s=0.3) as house, dial(house) as line:
        await line.hear()

        async def send_nothing() -> None:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await line.socket.send(b"")
                    await asyncio.sleep(0.05)

        # Messages of nothing keep no place.
        sending = asyncio.create_task(send_nothing())
        assert await line.closed() == 1001
        await sending
        await house.until(lambda: house.desk.live == 0)


async def test_who_waits_for_a_text_is_not_let_go(open_house: Opened, dial: Dialled) -> None:
    work = TalkingWork()
    async with open_house(work) as house, dial(house) as line:
        await line.talk(speak(SPOKEN))
        await line.until("speech_started")
        # Only from here on: who has not spoken yet is let go however slow the machine is.
        house.desk.limits = replace(house.desk.limits, idle_s=0.3)
        await line.tell(type="flush")
        await house.until(lambda: len(work.live.finals) == 1)
        await asyncio.sleep(0.7)
        work.live.finals[0].answer.set_result(WholeText((), "en", 1.0, 1.0, 0.1))
        assert (await line.until("final"))[-1]["text"] == ""


async def test_only_so_many_talkers_and_each_place_is_free_again(
    open_house: Opened, dial: Dialled
) -> None:
    async with open_house(TalkingWork(), live=1) as house:
        for _ in range(2):
            async with dial(house) as line:
                await line.hear()
                with pytest.raises(InvalidStatus) as refused:
                    async with dial(house):
                        pass
                assert refused.value.response.status_code == 429
                assert refused.value.response.headers["Retry-After"] == "5"
                assert (
                    json.loads(refused.value.response.body)["error"]["code"] == "too_many_streams"
                )
            await house.until(lambda: house.desk.live == 0)


async def test_of_many_who_come_at_once_only_so_many_are_let_in(open_house: Opened) -> None:
    async with open_house(TalkingWork(), live=8) as house:
        address = f"ws://127.0.0.1:{house.port}/v1/audio/transcriptions/stream"
        # The first of them waits for the detector's library, in the second round nobody does.
        for _ in range(2):
            dials = (connect(address, proxy=None, close_timeout=1) for _ in range(40))
            came = await asyncio.gather(*dials, return_exceptions=True)
            refused = [one for one in came if isinstance(one, InvalidStatus)]
            opened = [one for one in came if isinstance(one, ClientConnection)]
            assert (len(opened), len(refused)) == (8, 32)
            assert {one.response.status_code for one in refused} == {429}
            for one in opened:
                one.transport.abort()
            await house.until(lambda: house.desk.live == 0)


async def test_who_comes_too_early_hears_so(open_house: Opened, dial: Dialled) -> None:
    async with open_house(TalkingWork(ready=False)) as house:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(house):
                pass
        assert refused.value.response.status_code == 503


async def test_who_leaves_drops_all_work(open_house: Opened, dial: Dialled) -> None:
    work = TalkingWork()
    async with open_house(work) as house:
        async with dial(house) as line:
            await line.talk(np.concatenate([speak(SPOKEN), silence(1), speak(SPOKEN)]))
            await house.until(lambda: len(work.live.finals) == 1 and len(work.live.partials) >= 1)
            assert work.live.finals[0].is_wanted
            line.socket.transport.abort()
            await house.until(lambda: house.desk.live == 0)
        assert not any(asked.is_wanted for asked in work.live.finals + work.live.partials)


async def test_who_sends_faster_than_texts_are_made_waits(
    open_house: Opened, dial: Dialled
) -> None:
    work = TalkingWork()
    utterance = np.concatenate([speak("Yes."), silence(0.8)])
    whole = np.concatenate([utterance] * 200)
    async with open_house(work) as house, dial(house) as line:
        await line.tell(type="start", partials=False)
        sending = asyncio.create_task(line.talk(whole, (32_000,)))
        await house.until(lambda: len(work.live.finals) >= 4)
        await asyncio.sleep(0.5)
        assert len(work.live.finals) == 4
        # One is answered, two wait for it, one for room; whatever else came is held unheard.
        work.live.texts = ["x"] * 400
        for asked in work.live.finals:
            asked.answer.set_result(WholeText((), "en", 1.0, 1.0, 0.1))
        heard = asyncio.create_task(line.until("done"))
        await sending
        await line.tell(type="end")
        told = await heard
    assert [e["utterance"] for e in told if e["type"] == "final"] == list(range(1, 201))


async def test_who_does_not_read_is_let_go(
    open_house: Opened, dial: Dialled, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel would let it go as well; here it is our own clock that is tried.
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    work = TalkingWork(live=ScriptedWork(texts=["x" * 8_000_000] * 3))
    async with (
        open_house(work, write_s=0.3) as house,
        dial(house, max_queue=1, max_size=None) as line,
    ):
        await line.tell(type="start", partials=False)
        with contextlib.suppress(ConnectionClosed):
            for _ in range(3):
                await line.talk(speak("Yes."), (65_536,))
                await line.tell(type="flush")
        await house.until(lambda: house.desk.live == 0, within_s=10)


async def test_who_does_not_read_the_partials_is_let_go(
    open_house: Opened, dial: Dialled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    work = TalkingWork(live=ScriptedWork(guesses=["x" * 8_000_000] * 3))
    async with open_house(work, write_s=0.3) as house, dial(house, max_queue=1) as line:
        with contextlib.suppress(ConnectionClosed):
            await line.talk(np.concatenate([speak(LONG)] * 3), (8000,), pace=10)
        await house.until(lambda: house.desk.live == 0, within_s=10)
        assert not work.live.finals


async def test_a_text_that_fails_is_an_error_and_the_stream_stays(
    open_house: Opened, dial: Dialled
) -> None:
    work = TalkingWork()
    async with open_house(work) as house, dial(house) as line:
        await line.talk(speak(SPOKEN))
        await line.tell(type="flush")
        await house.until(lambda: len(work.live.finals) == 1)
        work.live.finals[0].answer.set_exception(web.busy())
        told = await line.until("flushed")
        assert told[-2]["utterance"] == 1
        assert told[-2]["error"]["type"] == "rate_limit_error"
        work.live.texts = ["again"]
        await line.talk(speak(SPOKEN))
        await line.tell(type="end")
        assert (await line.until("done"))[-2]["text"] == "again"


async def test_what_breaks_in_the_engine_is_logged_once_and_counted(
    open_house: Opened, dial: Dialled, caplog: pytest.LogCaptureFixture
) -> None:
    work = TalkingWork()
    async with open_house(work) as house:
        async with dial(house) as line:
            await line.talk(speak(SPOKEN))
            await line.tell(type="flush")
            await house.until(lambda: len(work.live.finals) == 1)
            error = EngineError("the recognition failed: bad alloc", status=500)
            error.__cause__ = RuntimeError("bad alloc")
            work.live.finals[0].answer.set_exception(error)
            told = (await line.until("flushed"))[-2]
            assert "bad alloc" not in told["error"]["message"]
            await line.tell(type="end")
            await line.until("done")
        await house.until(lambda: house.desk.live == 0)
        logged = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert len(logged) == 1
        assert "the recognition failed: bad alloc" in logged[0]
        page = (await house.client.get("/metrics")).text
        assert 'whisper_requests_total{outcome="failed"} 1.0' in page
        assert 'whisper_requests_total{outcome="done"} 0.0' in page


async def test_a_reload_that_fails_once_heals(open_house: Opened, dial: Dialled) -> None:
    made = 0

    def make() -> Loaded:
        nonlocal made
        made += 1
        if made == 2:
            raise ServiceError("no memory for a moment", status=503)
        return Loaded(ScriptedRecogniser(), None, "it is scripted")

    work = ResidentWork(make, Bounds(unload_s=0.05))
    async with open_house(work) as house:
        await house.until(lambda: made == 1 and not work.describe()["loaded"] and work.ready)
        async with dial(house) as line:
            await house.until(lambda: work.failure is not None)
            health = await house.client.get("/health")
            assert health.status_code == 200
            await line.tell(type="start", partials=False)
            await line.talk(speak(SPOKEN))
            await line.tell(type="end")
            assert (await line.until("done"))[-2]["text"].startswith("one two")
        assert work.failure is None


async def test_a_language_that_the_model_does_not_know_is_refused_at_the_start(
    open_house: Opened, dial: Dialled
) -> None:
    work = TalkingWork(multilingual=False, live=ScriptedWork(texts=["text"]))
    async with open_house(work) as house, dial(house) as line:
        await line.tell(type="start", language="de")
        error = (await line.until("error"))[-1]["error"]
        assert (error["param"], error["code"]) == ("language", "unsupported_language")
        assert "English only" in error["message"]
        # It may start once more, since it has not begun.
        await line.tell(type="start", language="en")
        await line.talk(speak(SPOKEN))
        await line.tell(type="end")
        assert (await line.until("done"))[-2]["text"] == "text"
    assert work.live.finals[0].options.language == "en"


async def test_who_leaves_before_it_is_ready_leaves_nothing_unheard(house: House) -> None:
    """asyncio complains of a failure that nobody asked for."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    came = False

    async def receive() -> dict[str, object]:
        nonlocal came
        kind, came = ("websocket.disconnect" if came else "websocket.connect"), True
        return {"type": kind, "code": 1006}

    async def send(message: MutableMapping[str, object]) -> None:
        if message["type"] == "websocket.send":
            raise OSError("gone")

    app = SimpleNamespace(state=SimpleNamespace(server=house.desk))
    scope = {"type": "websocket", "path": "/", "headers": [], "app": app, "query_string": b""}
    await stream_module.stream(WebSocket(scope, receive, send))
    gc.collect()
    assert complaints == []
    assert house.desk.live == 0


async def test_the_servers_end_is_a_clear_one(open_house: Opened) -> None:
    async with open_house(TalkingWork()) as house:
        address = f"ws://127.0.0.1:{house.port}/v1/audio/transcriptions/stream"
        opened = await connect(address, proxy=None, close_timeout=1)
        other = Line(opened)
        await other.talk(speak(SPOKEN))
        await other.until("speech_started")
    assert await other.closed() == 1012


async def test_the_key_is_asked_for(open_house: Opened, dial: Dialled) -> None:
    async with open_house(TalkingWork(), key="right") as house:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(house):
                pass
        assert refused.value.response.status_code == 401
        async with dial(house, additional_headers={"Authorization": "Bearer right"}) as line:
            assert (await line.hear())["type"] == "ready"


async def test_nothing_that_was_said_is_written_down(
    house: House, dial: Dialled, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "hearth_whisper")
    async with dial(house) as line:
        await line.talk(a_talk())
        await line.tell(type="end")
        await line.until("done")
    await house.until(lambda: house.desk.live == 0)
    lines = [record.getMessage() for record in caplog.records if record.name == "hearth_whisper"]
    assert any("finals=2" in line for line in lines)
    assert not any("text 1" in line for line in lines)
    page = (await house.client.get("/metrics")).text
    assert 'whisper_requests_total{outcome="done"} 1.0' in page
    assert "whisper_final_latency_seconds_count 2.0" in page
