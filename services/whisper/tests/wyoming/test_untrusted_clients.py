"""Invalid input, silence, floods and disconnects cost bounded time and memory."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import async_read_event
from wyoming.info import Describe

from hearth_whisper.recognition import SAMPLE_RATE

from .conftest import (
    WITHIN_S,
    ConnectSatellite,
    OpenServer,
    ScriptedScheduler,
    Server,
    tone,
)

DEEP = b"[" * 9000

INVALID_INPUT = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: whisper\r\n\r\n",
    "not JSON": b"{]\n",
    "not an object": b'["describe"]\n',
    "deep": DEEP + b"\n",
    "no type": b'{"data": {}}\n',
    "a type that is not a string": b'{"type": 7}\n',
    "an endless type": json.dumps({"type": "x" * 65}).encode() + b"\n",
    "data that is not an object": b'{"type": "describe", "data": [1]}\n',
    "more data that is not an object": b'{"type": "describe", "data_length": 2}\n[]',
    "more data that is not JSON": b'{"type": "describe", "data_length": 3}\n{{{',
    "a negative length": b'{"type": "audio-chunk", "payload_length": -1}\n',
    "a length that is a string": b'{"type": "audio-chunk", "payload_length": "9"}\n',
    "a length that is a boolean": b'{"type": "audio-chunk", "payload_length": true}\n',
    "bytes": bytes(range(256)) * 2 + b"\n",
    "an endless line": b"x" * 40_000,
    "data above the limit": b'{"type": "describe", "data_length": 65537}\n',
    "a payload above the limit": b'{"type": "audio-chunk", "payload_length": 1048577}\n',
    "a payload larger than memory": b'{"type": "audio-chunk", "payload_length": 99999999999999}\n',
}

UNUSUAL_FORMATS: dict[str, tuple[Any, Any, Any]] = {
    "too slow": (7_999, 2, 1),
    "too fast": (48_001, 2, 1),
    "no rate": (None, 2, 1),
    "half a rate": (16_000.5, 2, 1),
    "a rate that is a string": ("16000", 2, 1),
    "no width": (16_000, 0, 1),
    "an odd width": (16_000, 3, 1),
    "a width that is a boolean": (16_000, True, 1),
    "no channel": (16_000, 2, 0),
    "too many channels": (16_000, 2, 9),
}


@asynccontextmanager
async def raw_connection(
    server: Server,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.satellites.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def error_from(reader: asyncio.StreamReader) -> Error:
    """Return the one error before the server closes the connection."""
    async with asyncio.timeout(WITHIN_S):
        event = await async_read_event(reader)
        assert event is not None, "the connection closed without an error"
        assert await reader.read() == b""
    return Error.from_event(event)


@pytest.mark.parametrize("sent", INVALID_INPUT.values(), ids=INVALID_INPUT)
async def test_invalid_input_gets_one_error(
    server: Server,
    connect_satellite: ConnectSatellite,
    sent: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with raw_connection(server) as (reader, writer):
        writer.write(sent)
        error = await error_from(reader)
    assert error.code == "invalid_event"
    assert "\n" not in error.text
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]
    async with connect_satellite(server) as satellite:
        await satellite.send(Describe())
        assert (await satellite.receive()).type == "info"


@pytest.mark.parametrize("kind", UNUSUAL_FORMATS.values(), ids=UNUSUAL_FORMATS)
async def test_an_unusual_audio_format_is_rejected(
    server: Server, connect_satellite: ConnectSatellite, kind: tuple[Any, Any, Any]
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(AudioChunk(*kind, b"\0" * 64))
        assert (await satellite.refused()).code == "invalid_audio"
    assert server.outcomes == ["refused"]


async def test_a_change_of_the_audio_format_is_rejected(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(
            AudioChunk(16_000, 2, 1, bytes(64)), AudioChunk(22_050, 2, 1, bytes(64))
        )
        assert (await satellite.refused()).code == "invalid_audio"


async def test_unknown_events_are_ignored(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with raw_connection(server) as (reader, writer):
        writer.write(b'{"type": "run-pipeline", "data": null, "payload_length": 3}\nabc')
        writer.write(b'{"type": "ping", "data": {"text": ["odd"]}}\n')
        event = await asyncio.wait_for(async_read_event(reader), WITHIN_S)
    assert event is not None
    assert event.type == "pong"


async def test_an_endless_recording_is_stopped(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async with open_server(audio_s=2) as server, connect_satellite(server) as satellite:
        await satellite.send_recording(tone(2.0), stop=False)
        await satellite.send(AudioChunk(SAMPLE_RATE, 2, 1, bytes(2)))
        error = await satellite.refused()
        assert (error.text, error.code) == ("a recording may have at most 2 s", "audio_too_long")
        assert not server.scheduler.finals


async def test_an_idle_connection_is_closed(open_server: OpenServer) -> None:
    async with open_server(idle_s=0.05) as server, raw_connection(server) as (reader, _):
        assert (await error_from(reader)).code == "request_timeout"


async def test_a_slow_event_closes_the_connection(open_server: OpenServer) -> None:
    async with open_server(idle_s=0.2) as server, raw_connection(server) as (reader, writer):

        async def drip() -> None:
            for byte in b'{"type": "describe"' + b" " * 10_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert (await error_from(reader)).code == "request_timeout"
        dripping.cancel()


async def test_a_recording_without_audio_has_a_deadline(open_server: OpenServer) -> None:
    async with open_server(turn_s=0.2) as server, raw_connection(server) as (reader, writer):

        async def breathe() -> None:
            while True:
                writer.write(b'{"type": "audio-chunk", "data": ')
                writer.write(b'{"rate": 16000, "width": 2, "channels": 1}}\n')
                await asyncio.sleep(0.01)

        breathing = asyncio.create_task(breathe())
        assert (await error_from(reader)).code == "request_timeout"
        breathing.cancel()
        await server.until(lambda: server.outcomes == ["refused"])


async def test_a_slow_recognition_is_cancelled(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    scheduler = ScriptedScheduler()
    scheduler.gate.clear()
    async with (
        open_server(scheduler, timeout_s=1) as server,
        connect_satellite(server) as satellite,
    ):
        await satellite.send_recording(tone(0.5))
        assert (await satellite.refused()).code == "too_slow"
        assert (scheduler.cancelled, server.outcomes) == (1, ["late"])


@pytest.mark.parametrize("seconds", [0.5, 31])
async def test_disconnecting_cancels_the_recognition(
    open_server: OpenServer, connect_satellite: ConnectSatellite, seconds: float
) -> None:
    scheduler = ScriptedScheduler()
    scheduler.gate.clear()
    async with open_server(scheduler) as server:
        async with connect_satellite(server) as satellite:
            await satellite.send_recording(tone(seconds))
            await server.until(lambda: bool(scheduler.finals))
        await server.until(lambda: server.satellites.connected == 0)
        assert server.outcomes == ["left"]
        assert scheduler.cancelled == len(scheduler.finals)


async def test_disconnecting_discards_the_recording(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send_recording(tone(0.5), stop=False)
    await server.until(lambda: server.outcomes == ["left"])
    await server.until(lambda: server.satellites.connected == 0)
    assert not server.scheduler.finals


async def test_events_during_a_recognition_are_answered_afterwards(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    scheduler = ScriptedScheduler()
    scheduler.gate.clear()
    async with open_server(scheduler) as server, connect_satellite(server) as satellite:
        await satellite.send_recording(tone(0.5))
        await satellite.send(Describe())
        await satellite.send_recording(tone(1.0))
        await server.until(lambda: len(scheduler.finals) == 1)
        scheduler.gate.set()
        kinds = [event.type for event in await satellite.until("transcript-stop")]
        kinds += [event.type for event in await satellite.until("transcript-stop")]
    assert kinds.index("info") == kinds.index("transcript-stop") + 1
    assert kinds.count("transcript") == 2


async def test_a_satellite_above_the_limit_gets_an_error(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async with open_server(clients=2) as server:
        async with connect_satellite(server) as one, connect_satellite(server) as two:
            for satellite in (one, two):
                await satellite.send(Describe())
                await satellite.receive()
            async with connect_satellite(server) as three:
                assert (await three.refused()).code == "too_many_connections"
        await server.until(lambda: server.satellites.connected == 0)
        async with connect_satellite(server) as satellite:
            await satellite.send(Describe())
            assert (await satellite.receive()).type == "info"


async def test_connections_above_twice_the_limit_are_dropped(open_server: OpenServer) -> None:
    async with (
        open_server(clients=1) as server,
        raw_connection(server),
        raw_connection(server) as (second, _),
    ):
        await server.until(lambda: server.satellites.connected == 1)
        # It gets the error, and stays connected.
        assert await asyncio.wait_for(async_read_event(second), WITHIN_S) is not None
        async with raw_connection(server) as (third, _):
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(third.read(), WITHIN_S) == b""


async def test_the_error_arrives_even_if_the_client_keeps_sending(server: Server) -> None:
    async with raw_connection(server) as (reader, writer):
        writer.write(b"{]\n" + bytes(200_000))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(bytes(200_000))
        assert (await error_from(reader)).code == "invalid_event"


async def test_64_at_once_end_and_leave_no_connection(
    open_server: OpenServer, connect_satellite: ConnectSatellite
) -> None:
    async with open_server(clients=8) as server:

        async def speak() -> str:
            try:
                async with connect_satellite(server) as satellite:
                    await satellite.send_recording(tone(0.2))
                    while (event := await satellite.receive()).type not in ("transcript", "error"):
                        pass
            except (AssertionError, ConnectionError):
                return "closed"
            return event.type

        results = await asyncio.gather(*(speak() for _ in range(64)))
        await server.until(lambda: server.satellites.connected == 0)
        assert results.count("transcript") >= 8
        assert server.outcomes.count("done") == results.count("transcript")


async def test_a_client_that_does_not_read_is_disconnected(open_server: OpenServer) -> None:
    scheduler = ScriptedScheduler(described={"model": "x" * 40_000})
    async with (
        open_server(scheduler, write_s=0.1) as server,
        raw_connection(server) as (reader, writer),
    ):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        # More responses than the socket buffers hold.
        for _ in range(400):
            writer.write(b'{"type": "describe"}\n')
        await server.until(lambda: server.satellites.connected == 1)
        await server.until(lambda: server.satellites.connected == 0)


async def test_a_start_without_audio_gives_an_empty_text(
    server: Server, connect_satellite: ConnectSatellite
) -> None:
    async with connect_satellite(server) as satellite:
        await satellite.send(AudioStop(), AudioStart(SAMPLE_RATE, 2, 1))
        assert (await satellite.until("transcript-stop"))[-2].data["text"] == ""
