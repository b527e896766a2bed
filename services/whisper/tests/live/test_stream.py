"""`WS /v1/audio/transcriptions/stream`, over a socket, with synthesised speech and the real VAD."""

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass, field, replace
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hearth_serving.errors import EngineError, ServiceError
from hearth_whisper.recognition import SAMPLE_RATE, Options, Samples
from hearth_whisper.recognition.model import Load, LoadedModel
from hearth_whisper.recognition.queues import FinalRequest
from hearth_whisper.recognition.scheduler import Scheduler, SchedulerLimits
from hearth_whisper.recognition.transcription import Transcript
from hearth_whisper.web import stream as stream_module

from ..scripted import ScriptedRecogniser
from ..web import conftest as web
from ..web.conftest import OpenServer, RunningServer
from .client import ConnectStream, StreamClient
from .scripted import ScriptedScheduler, silence
from .speech import speak

SPOKEN = "Turn off the lamps."
LONG = "The kitchen light is off, and the door to the garden is closed."


@dataclass
class StreamScheduler(web.ScriptedScheduler):
    live: ScriptedScheduler = field(default_factory=ScriptedScheduler)
    preloads: int = 0

    def preload(self) -> None:
        self.preloads += 1

    async def transcribe_final(
        self,
        samples: Samples,
        options: Options,
        cancelled: Event,
        request: FinalRequest | None = None,
    ) -> Transcript:
        return await self.live.transcribe_final(samples, options, cancelled, request)

    async def transcribe_partial(self, samples: Samples, options: Options) -> Transcript | None:
        return await self.live.transcribe_partial(samples, options)


class RealScheduler(Scheduler):
    """The real scheduler in the test server."""

    def __init__(self, load: Load, limits: SchedulerLimits) -> None:
        super().__init__(load, limits)
        self.gate = asyncio.Event()


@pytest.fixture
def scheduler() -> StreamScheduler:
    return StreamScheduler(live=ScriptedScheduler(texts=[f"text {n}" for n in range(1, 20)]))


@pytest.fixture
async def server(
    open_server: OpenServer, scheduler: StreamScheduler
) -> AsyncIterator[RunningServer]:
    async with open_server(scheduler) as opened:
        yield opened


def recording() -> Samples:
    return np.concatenate([silence(0.5), speak(SPOKEN), silence(1), speak("Yes."), silence(1)])


@pytest.mark.parametrize("sizes", [(640,), (1, 7, 333, 2), (65_536,), (1_000_000,)])
async def test_speech_in_text_out_with_messages_of_any_size(
    server: RunningServer, connect_stream: ConnectStream, sizes: tuple[int, ...]
) -> None:
    async with connect_stream(server) as client:
        ready = await client.receive()
        assert (ready["type"], ready["sample_rate"], ready["model"]) == ("ready", 16_000, "tiny.en")
        await client.send(type="start", language="en", prompt="Lamps.", partials=False)
        await client.send_audio(recording(), sizes)
        await client.send(type="end")
        events = await client.until("done")
        with pytest.raises(ConnectionClosed):
            await client.receive()
        assert client.socket.close_code == 1000
    kinds = ["speech_started", "speech_ended", "final"]
    assert sorted(event["type"] for event in events[:-1]) == sorted(kinds * 2)
    for number in (1, 2):
        assert [e["type"] for e in events if e.get("utterance") == number] == kinds
    finals = [event for event in events if event["type"] == "final"]
    assert [final["text"] for final in finals] == ["text 1", "text 2"]
    length_s = recording().size / SAMPLE_RATE
    times = [t for final in finals for t in (final["start_s"], final["end_s"])]
    assert times == sorted(times)
    assert times[0] > 0.3
    assert times[-1] < length_s - 0.9
    scheduler = server.scheduler
    assert isinstance(scheduler, StreamScheduler)
    assert {(a.options.language, a.options.prompt) for a in scheduler.live.finals} == {
        ("en", "Lamps.")
    }
    # An unloaded model is preloaded when the client connects, and when speech starts.
    assert scheduler.preloads == 3


async def test_partials_are_sent_during_speech(
    server: RunningServer, connect_stream: ConnectStream
) -> None:
    assert isinstance(server.scheduler, StreamScheduler)
    server.scheduler.live.partial_texts = ["the kitchen", "the kitchen light", *[None] * 50]
    async with connect_stream(server) as client:
        await client.send_audio(speak(LONG))
        await client.send(type="end")
        events = await client.until("done")
    partials = [event for event in events if event["type"] == "partial"]
    assert [(p["text"], p["stable"]) for p in partials[:2]] == [
        ("the kitchen", ""),
        ("the kitchen light", "the kitchen"),
    ]
    assert events[-2]["type"] == "final"


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
async def test_other_sample_rates_keep_their_times(
    server: RunningServer, connect_stream: ConnectStream, rate: int
) -> None:
    sound = recording()
    at = np.arange(round(sound.size * rate / SAMPLE_RATE)) * SAMPLE_RATE / rate
    other = np.interp(at, np.arange(sound.size), sound).astype(np.float32)
    async with connect_stream(server) as client:
        await client.send(type="start", sample_rate=rate, partials=False)
        await client.send_audio(other, (1234,))
        await client.send(type="end")
        events = await client.until("done")
    ended = [event["at_s"] for event in events if event["type"] == "speech_ended"]
    first = 0.5 + speak(SPOKEN).size / SAMPLE_RATE
    second = first + 1 + speak("Yes.").size / SAMPLE_RATE
    # At 8 kHz half of the "s" is lost.
    assert ended == pytest.approx([first, second], abs=0.15)


async def test_flush_is_answered_and_the_stream_stays_open(
    server: RunningServer, connect_stream: ConnectStream
) -> None:
    async with connect_stream(server) as client:
        for number in (1, 2):
            await client.send_audio(speak(SPOKEN))
            await client.send(type="flush")
            events = await client.until("flushed")
            assert events[-2]["type"] == "final"
            assert events[-2]["utterance"] == number


async def test_silence_has_no_events(server: RunningServer, connect_stream: ConnectStream) -> None:
    async with connect_stream(server) as client:
        await client.send_audio(silence(20), (65_536,))
        await client.send(type="end")
        assert [event["type"] for event in await client.until("done")] == ["ready", "done"]


async def test_a_gap_in_the_audio_ends_the_utterance(
    server: RunningServer, connect_stream: ConnectStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A muted microphone sends neither silence nor a flush."""
    monkeypatch.setattr(stream_module, "_MAX_GAP_S", 0.2)
    async with connect_stream(server) as client:
        await client.send_audio(speak(SPOKEN))
        events = await client.until("final")
        assert events[-2]["type"] == "speech_ended"


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
async def test_an_invalid_message_gets_an_error_and_the_stream_stays_open(
    server: RunningServer, connect_stream: ConnectStream, message: str, code: str
) -> None:
    async with connect_stream(server) as client:
        await client.receive()
        await client.socket.send(message)
        events = await client.receive()
        assert (events["type"], events["error"]["code"]) == ("error", code)
        assert events["error"]["type"] == "invalid_request_error"
        await client.send_audio(speak(SPOKEN))
        await client.send(type="flush")
        assert (await client.until("final"))[-1]["text"] == "text 1"


async def test_the_error_of_a_start_names_its_field(
    server: RunningServer, connect_stream: ConnectStream
) -> None:
    async with connect_stream(server) as client:
        await client.send(type="start", sample_rate=96_000)
        error = (await client.until("error"))[-1]["error"]
        assert error["param"] == "sample_rate"
        assert "48000" in error["message"]


async def test_start_after_audio_is_rejected(
    server: RunningServer, connect_stream: ConnectStream
) -> None:
    async with connect_stream(server) as client:
        await client.send_audio(silence(0.1))
        await client.send(type="start", sample_rate=8000)
        assert "before" in (await client.until("error"))[-1]["error"]["message"]


async def test_too_many_invalid_messages_close_the_stream(
    server: RunningServer, connect_stream: ConnectStream
) -> None:
    async with connect_stream(server) as client:
        for _ in range(20):
            await client.socket.send("x")
        assert await client.closed() == 1008


async def test_a_message_above_the_limit_closes_the_stream(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    async with (
        open_server(StreamScheduler(), message_bytes=70_000) as server,
        connect_stream(server) as client,
    ):
        await client.socket.send(b"a" * 70_001)
        assert await client.closed() == 1009


async def test_an_idle_stream_is_closed(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    async with (
        open_server(StreamScheduler(), idle_s=0.3) as server,
        connect_stream(server) as client,
    ):
        await client.receive()

        async def send_nothing() -> None:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await client.socket.send(b"")
                    await asyncio.sleep(0.05)

        # Empty messages do not keep the stream open.
        sending = asyncio.create_task(send_nothing())
        assert await client.closed() == 1001
        await sending
        await server.until(lambda: server.state.live == 0)


async def test_a_stream_that_waits_for_a_text_is_not_idle(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    scheduler = StreamScheduler()
    async with open_server(scheduler) as server, connect_stream(server) as client:
        await client.send_audio(speak(SPOKEN))
        await client.until("speech_started")
        # Set only now: before the speech, a slow machine would make the stream idle.
        server.state.limits = replace(server.state.limits, idle_s=0.3)
        await client.send(type="flush")
        await server.until(lambda: len(scheduler.live.finals) == 1)
        await asyncio.sleep(0.7)
        scheduler.live.finals[0].result.set_result(Transcript((), "en", 1.0, 1.0, 0.1))
        assert (await client.until("final"))[-1]["text"] == ""


async def test_streams_are_limited_and_slots_are_released(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    async with open_server(StreamScheduler(), live=1) as server:
        for _ in range(2):
            async with connect_stream(server) as client:
                await client.receive()
                with pytest.raises(InvalidStatus) as refused:
                    async with connect_stream(server):
                        pass
                assert refused.value.response.status_code == 429
                assert refused.value.response.headers["Retry-After"] == "5"
                assert (
                    json.loads(refused.value.response.body)["error"]["code"] == "too_many_streams"
                )
            await server.until(lambda: server.state.live == 0)


async def test_the_limit_holds_for_concurrent_connections(open_server: OpenServer) -> None:
    async with open_server(StreamScheduler(), live=8) as server:
        address = f"ws://127.0.0.1:{server.port}/v1/audio/transcriptions/stream"
        # Only in the first round a stream waits for the VAD's library.
        for _ in range(2):
            connecting = (connect(address, proxy=None, close_timeout=1) for _ in range(40))
            came = await asyncio.gather(*connecting, return_exceptions=True)
            refused = [one for one in came if isinstance(one, InvalidStatus)]
            opened = [one for one in came if isinstance(one, ClientConnection)]
            assert (len(opened), len(refused)) == (8, 32)
            assert {one.response.status_code for one in refused} == {429}
            for one in opened:
                one.transport.abort()
            await server.until(lambda: server.state.live == 0)


async def test_a_stream_before_the_first_load_is_rejected(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    async with open_server(StreamScheduler(ready=False)) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with connect_stream(server):
                pass
        assert refused.value.response.status_code == 503


async def test_disconnecting_cancels_all_recognitions(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    scheduler = StreamScheduler()
    async with open_server(scheduler) as server:
        async with connect_stream(server) as client:
            await client.send_audio(np.concatenate([speak(SPOKEN), silence(1), speak(SPOKEN)]))
            await server.until(
                lambda: len(scheduler.live.finals) == 1 and len(scheduler.live.partials) >= 1
            )
            assert scheduler.live.finals[0].is_active
            client.socket.transport.abort()
            await server.until(lambda: server.state.live == 0)
        assert not any(call.is_active for call in scheduler.live.finals + scheduler.live.partials)


async def test_a_fast_sender_waits_for_the_texts(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    scheduler = StreamScheduler()
    utterance = np.concatenate([speak("Yes."), silence(0.8)])
    whole = np.concatenate([utterance] * 200)
    async with open_server(scheduler) as server, connect_stream(server) as client:
        await client.send(type="start", partials=False)
        sending = asyncio.create_task(client.send_audio(whole, (32_000,)))
        await server.until(lambda: len(scheduler.live.finals) >= 4)
        await asyncio.sleep(0.5)
        assert len(scheduler.live.finals) == 4
        # One is being sent, two are queued, one waits for room; further audio is not processed.
        scheduler.live.texts = ["x"] * 400
        for call in scheduler.live.finals:
            call.result.set_result(Transcript((), "en", 1.0, 1.0, 0.1))
        receiving = asyncio.create_task(client.until("done"))
        await sending
        await client.send(type="end")
        events = await receiving
    assert [e["utterance"] for e in events if e["type"] == "final"] == list(range(1, 201))


async def test_a_client_that_does_not_read_is_disconnected(
    open_server: OpenServer, connect_stream: ConnectStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel would close the connection as well; this tests our own timeout.
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    scheduler = StreamScheduler(live=ScriptedScheduler(texts=["x" * 8_000_000] * 3))
    async with (
        open_server(scheduler, write_s=0.3) as server,
        connect_stream(server, max_queue=1, max_size=None) as client,
    ):
        await client.send(type="start", partials=False)
        with contextlib.suppress(ConnectionClosed):
            for _ in range(3):
                await client.send_audio(speak("Yes."), (65_536,))
                await client.send(type="flush")
        await server.until(lambda: server.state.live == 0, within_s=10)


async def test_a_client_that_does_not_read_partials_is_disconnected(
    open_server: OpenServer, connect_stream: ConnectStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    scheduler = StreamScheduler(live=ScriptedScheduler(partial_texts=["x" * 8_000_000] * 3))
    async with (
        open_server(scheduler, write_s=0.3) as server,
        connect_stream(server, max_queue=1) as client,
    ):
        with contextlib.suppress(ConnectionClosed):
            await client.send_audio(np.concatenate([speak(LONG)] * 3), (8000,), pace=10)
        await server.until(lambda: server.state.live == 0, within_s=10)
        assert not scheduler.live.finals


async def test_a_failed_final_is_an_error_and_the_stream_stays_open(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    scheduler = StreamScheduler()
    async with open_server(scheduler) as server, connect_stream(server) as client:
        await client.send_audio(speak(SPOKEN))
        await client.send(type="flush")
        await server.until(lambda: len(scheduler.live.finals) == 1)
        scheduler.live.finals[0].result.set_exception(web.busy())
        events = await client.until("flushed")
        assert events[-2]["utterance"] == 1
        assert events[-2]["error"]["type"] == "rate_limit_error"
        scheduler.live.texts = ["again"]
        await client.send_audio(speak(SPOKEN))
        await client.send(type="end")
        assert (await client.until("done"))[-2]["text"] == "again"


async def test_an_engine_error_is_logged_once_and_counted(
    open_server: OpenServer, connect_stream: ConnectStream, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = StreamScheduler()
    async with open_server(scheduler) as server:
        async with connect_stream(server) as client:
            await client.send_audio(speak(SPOKEN))
            await client.send(type="flush")
            await server.until(lambda: len(scheduler.live.finals) == 1)
            error = EngineError("the recognition failed: bad alloc", status=500)
            error.__cause__ = RuntimeError("bad alloc")
            scheduler.live.finals[0].result.set_exception(error)
            events = (await client.until("flushed"))[-2]
            assert "bad alloc" not in events["error"]["message"]
            await client.send(type="end")
            await client.until("done")
        await server.until(lambda: server.state.live == 0)
        logged = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert len(logged) == 1
        assert "the recognition failed: bad alloc" in logged[0]
        page = (await server.client.get("/metrics")).text
        assert 'whisper_requests_total{outcome="failed"} 1.0' in page
        assert 'whisper_requests_total{outcome="done"} 0.0' in page


async def test_a_failed_reload_is_retried(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    loads = 0

    def load() -> LoadedModel:
        nonlocal loads
        loads += 1
        if loads == 2:
            raise ServiceError("no memory for a moment", status=503)
        return LoadedModel(ScriptedRecogniser(), None, "it is scripted")

    scheduler = RealScheduler(load, SchedulerLimits(unload_s=0.05))
    async with open_server(scheduler) as server:
        await server.until(
            lambda: loads == 1 and not scheduler.describe()["loaded"] and scheduler.ready
        )
        async with connect_stream(server) as client:
            await server.until(lambda: scheduler.failure is not None)
            health = await server.client.get("/health")
            assert health.status_code == 200
            await client.send(type="start", partials=False)
            await client.send_audio(speak(SPOKEN))
            await client.send(type="end")
            assert (await client.until("done"))[-2]["text"].startswith("one two")
        assert scheduler.failure is None


async def test_an_unsupported_language_is_rejected_at_the_start(
    open_server: OpenServer, connect_stream: ConnectStream
) -> None:
    scheduler = StreamScheduler(multilingual=False, live=ScriptedScheduler(texts=["text"]))
    async with open_server(scheduler) as server, connect_stream(server) as client:
        await client.send(type="start", language="de")
        error = (await client.until("error"))[-1]["error"]
        assert (error["param"], error["code"]) == ("language", "unsupported_language")
        assert "English only" in error["message"]
        # A rejected start may be followed by another one.
        await client.send(type="start", language="en")
        await client.send_audio(speak(SPOKEN))
        await client.send(type="end")
        assert (await client.until("done"))[-2]["text"] == "text"
    assert scheduler.live.finals[0].options.language == "en"


async def test_disconnecting_before_ready_leaves_no_unretrieved_exception(
    server: RunningServer,
) -> None:
    """asyncio logs an exception that is never retrieved."""
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

    app = SimpleNamespace(state=SimpleNamespace(server=server.state))
    scope = {"type": "websocket", "path": "/", "headers": [], "app": app, "query_string": b""}
    await stream_module.transcribe_stream(WebSocket(scope, receive, send))
    gc.collect()
    assert complaints == []
    assert server.state.live == 0


async def test_stopping_the_server_closes_streams_with_1012(open_server: OpenServer) -> None:
    async with open_server(StreamScheduler()) as server:
        address = f"ws://127.0.0.1:{server.port}/v1/audio/transcriptions/stream"
        opened = await connect(address, proxy=None, close_timeout=1)
        other = StreamClient(opened)
        await other.send_audio(speak(SPOKEN))
        await other.until("speech_started")
    assert await other.closed() == 1012


async def test_the_key_is_required(open_server: OpenServer, connect_stream: ConnectStream) -> None:
    async with open_server(StreamScheduler(), key="right") as server:
        with pytest.raises(InvalidStatus) as refused:
            async with connect_stream(server):
                pass
        assert refused.value.response.status_code == 401
        async with connect_stream(
            server, additional_headers={"Authorization": "Bearer right"}
        ) as client:
            assert (await client.receive())["type"] == "ready"


async def test_no_text_is_logged(
    server: RunningServer, connect_stream: ConnectStream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "hearth_whisper")
    async with connect_stream(server) as client:
        await client.send_audio(recording())
        await client.send(type="end")
        await client.until("done")
    await server.until(lambda: server.state.live == 0)
    lines = [record.getMessage() for record in caplog.records if record.name == "hearth_whisper"]
    assert any("finals=2" in client for client in lines)
    assert not any("text 1" in client for client in lines)
    page = (await server.client.get("/metrics")).text
    assert 'whisper_requests_total{outcome="done"} 1.0' in page
    assert "whisper_final_latency_seconds_count 2.0" in page
