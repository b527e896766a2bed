"""Rubbish, silence, floods and those who leave cost a bounded time and memory, and nobody else."""

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

from hearth_whisper.recognising import SAMPLE_RATE

from .conftest import WITHIN_S, Called, House, Opened, ScriptedWork, tone

DEEP = b"[" * 9000

RUBBISH = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: whisper\r\n\r\n",
    "no JSON": b"{]\n",
    "no object": b'["describe"]\n',
    "deep": DEEP + b"\n",
    "no type": b'{"data": {}}\n',
    "a type that is no word": b'{"type": 7}\n',
    "an endless type": json.dumps({"type": "x" * 65}).encode() + b"\n",
    "data that is no object": b'{"type": "describe", "data": [1]}\n',
    "more data that is no object": b'{"type": "describe", "data_length": 2}\n[]',
    "more data that is no JSON": b'{"type": "describe", "data_length": 3}\n{{{',
    "a length below nothing": b'{"type": "audio-chunk", "payload_length": -1}\n',
    "a length of words": b'{"type": "audio-chunk", "payload_length": "9"}\n',
    "a length that is none": b'{"type": "audio-chunk", "payload_length": true}\n',
    "bytes": bytes(range(256)) * 2 + b"\n",
    "an endless line": b"x" * 40_000,
    "more data than is taken": b'{"type": "describe", "data_length": 65537}\n',
    "a payload larger than is taken": b'{"type": "audio-chunk", "payload_length": 1048577}\n',
    "a payload larger than memory": b'{"type": "audio-chunk", "payload_length": 99999999999999}\n',
}

SOUNDS: dict[str, tuple[Any, Any, Any]] = {
    "too slow": (7_999, 2, 1),
    "too fast": (48_001, 2, 1),
    "no rate": (None, 2, 1),
    "half a rate": (16_000.5, 2, 1),
    "a rate that is a word": ("16000", 2, 1),
    "no width": (16_000, 0, 1),
    "an odd width": (16_000, 3, 1),
    "a width that is true": (16_000, True, 1),
    "no channel": (16_000, 2, 0),
    "an orchestra": (16_000, 2, 9),
}


@asynccontextmanager
async def dialled(house: House) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.satellites.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def error_from(reader: asyncio.StreamReader) -> Error:
    """Return the one error that comes before the server hangs up."""
    async with asyncio.timeout(WITHIN_S):
        event = await async_read_event(reader)
        assert event is not None, "it hung up without a word"
        assert await reader.read() == b""
    return Error.from_event(event)


@pytest.mark.parametrize("sent", RUBBISH.values(), ids=RUBBISH)
async def test_rubbish_gets_one_line_and_no_more(
    house: House, call: Called, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialled(house) as (reader, writer):
        writer.write(sent)
        error = await error_from(reader)
    assert error.code == "invalid_event"
    assert "\n" not in error.text
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]
    async with call(house) as caller:
        await caller.tell(Describe())
        assert (await caller.hear()).type == "info"


@pytest.mark.parametrize("kind", SOUNDS.values(), ids=SOUNDS)
async def test_sound_of_no_usual_kind_is_refused(
    house: House, call: Called, kind: tuple[Any, Any, Any]
) -> None:
    async with call(house) as caller:
        await caller.tell(AudioChunk(*kind, b"\0" * 64))
        assert (await caller.refused()).code == "invalid_audio"
    assert house.ended == ["refused"]


async def test_sound_that_changes_its_kind_is_refused(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(AudioChunk(16_000, 2, 1, bytes(64)), AudioChunk(22_050, 2, 1, bytes(64)))
        assert (await caller.refused()).code == "invalid_audio"


async def test_what_is_not_known_is_passed_over(house: House, call: Called) -> None:
    async with dialled(house) as (reader, writer):
        writer.write(b'{"type": "run-pipeline", "data": null, "payload_length": 3}\nabc')
        writer.write(b'{"type": "ping", "data": {"text": ["odd"]}}\n')
        event = await asyncio.wait_for(async_read_event(reader), WITHIN_S)
    assert event is not None
    assert event.type == "pong"


async def test_an_endless_talker_is_stopped(open_house: Opened, call: Called) -> None:
    async with open_house(audio_s=2) as house, call(house) as caller:
        await caller.say(tone(2.0), stop=False)
        await caller.tell(AudioChunk(SAMPLE_RATE, 2, 1, bytes(2)))
        error = await caller.refused()
        assert (error.text, error.code) == ("a recording may have at most 2 s", "audio_too_long")
        assert not house.work.finals


async def test_who_says_nothing_is_hung_up_on(open_house: Opened) -> None:
    async with open_house(idle_s=0.05) as house, dialled(house) as (reader, _):
        assert (await error_from(reader)).code == "request_timeout"


async def test_an_event_that_drips_is_hung_up_on(open_house: Opened) -> None:
    async with open_house(idle_s=0.2) as house, dialled(house) as (reader, writer):

        async def drip() -> None:
            for byte in b'{"type": "describe"' + b" " * 10_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert (await error_from(reader)).code == "request_timeout"
        dripping.cancel()


async def test_a_recording_that_never_stops_is_hung_up_on(open_house: Opened) -> None:
    async with open_house(turn_s=0.2) as house, dialled(house) as (reader, writer):

        async def breathe() -> None:
            while True:
                writer.write(b'{"type": "audio-chunk", "data": ')
                writer.write(b'{"rate": 16000, "width": 2, "channels": 1}}\n')
                await asyncio.sleep(0.01)

        breathing = asyncio.create_task(breathe())
        assert (await error_from(reader)).code == "request_timeout"
        breathing.cancel()
        await house.until(lambda: house.ended == ["refused"])


async def test_work_that_takes_too_long_is_stopped(open_house: Opened, call: Called) -> None:
    work = ScriptedWork()
    work.gate.clear()
    async with open_house(work, timeout_s=1) as house, call(house) as caller:
        await caller.say(tone(0.5))
        assert (await caller.refused()).code == "too_slow"
        assert (work.cancelled, house.ended) == (1, ["late"])


@pytest.mark.parametrize("seconds", [0.5, 31])
async def test_who_leaves_has_its_work_stopped(
    open_house: Opened, call: Called, seconds: float
) -> None:
    work = ScriptedWork()
    work.gate.clear()
    async with open_house(work) as house:
        async with call(house) as caller:
            await caller.say(tone(seconds))
            await house.until(lambda: bool(work.finals))
        await house.until(lambda: house.satellites.connected == 0)
        assert house.ended == ["left"]
        assert work.cancelled == len(work.finals)


async def test_who_leaves_while_speaking_is_forgotten(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.say(tone(0.5), stop=False)
    await house.until(lambda: house.ended == ["left"])
    await house.until(lambda: house.satellites.connected == 0)
    assert not house.work.finals


async def test_what_is_said_meanwhile_is_answered_afterwards(
    open_house: Opened, call: Called
) -> None:
    work = ScriptedWork()
    work.gate.clear()
    async with open_house(work) as house, call(house) as caller:
        await caller.say(tone(0.5))
        await caller.tell(Describe())
        await caller.say(tone(1.0))
        await house.until(lambda: len(work.finals) == 1)
        work.gate.set()
        kinds = [event.type for event in await caller.until("transcript-stop")]
        kinds += [event.type for event in await caller.until("transcript-stop")]
    assert kinds.index("info") == kinds.index("transcript-stop") + 1
    assert kinds.count("transcript") == 2


async def test_one_more_than_are_served_hears_why(open_house: Opened, call: Called) -> None:
    async with open_house(clients=2) as house:
        async with call(house) as one, call(house) as two:
            for caller in (one, two):
                await caller.tell(Describe())
                await caller.hear()
            async with call(house) as three:
                assert (await three.refused()).code == "too_many_connections"
        await house.until(lambda: house.satellites.connected == 0)
        async with call(house) as caller:
            await caller.tell(Describe())
            assert (await caller.hear()).type == "info"


async def test_who_comes_when_even_the_refused_are_many_is_dropped(open_house: Opened) -> None:
    async with open_house(clients=1) as house, dialled(house), dialled(house) as (second, _):
        await house.until(lambda: house.satellites.connected == 1)
        # It is told why, and hangs on.
        assert await asyncio.wait_for(async_read_event(second), WITHIN_S) is not None
        async with dialled(house) as (third, _):
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(third.read(), WITHIN_S) == b""


async def test_who_sends_on_hears_why_he_is_hung_up_on(house: House) -> None:
    async with dialled(house) as (reader, writer):
        writer.write(b"{]\n" + bytes(200_000))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(bytes(200_000))
        assert (await error_from(reader)).code == "invalid_event"


async def test_sixty_four_at_once_end_and_leave_nothing(open_house: Opened, call: Called) -> None:
    async with open_house(clients=8) as house:

        async def speak() -> str:
            try:
                async with call(house) as caller:
                    await caller.say(tone(0.2))
                    while (event := await caller.hear()).type not in ("transcript", "error"):
                        pass
            except (AssertionError, ConnectionError):
                return "closed"
            return event.type

        said = await asyncio.gather(*(speak() for _ in range(64)))
        await house.until(lambda: house.satellites.connected == 0)
        assert said.count("transcript") >= 8
        assert house.ended.count("done") == said.count("transcript")


async def test_who_never_reads_is_taken_for_gone(open_house: Opened) -> None:
    work = ScriptedWork(described={"model": "x" * 40_000})
    async with open_house(work, write_s=0.1) as house, dialled(house) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        # More answers than the sockets between us hold.
        for _ in range(400):
            writer.write(b'{"type": "describe"}\n')
        await house.until(lambda: house.satellites.connected == 1)
        await house.until(lambda: house.satellites.connected == 0)


async def test_a_start_without_an_end_holds_no_sound(house: House, call: Called) -> None:
    async with call(house) as caller:
        await caller.tell(AudioStop(), AudioStart(SAMPLE_RATE, 2, 1))
        assert (await caller.until("transcript-stop"))[-2].data["text"] == ""
