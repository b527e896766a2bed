"""What no client should send: an error in the protocol's form, and nobody else is disturbed."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hearth_kokoro.synthesis.playback import Playback
from hearth_kokoro.synthesis.synthesizer import Segment
from hearth_kokoro.synthesis.text_buffer import TextBuffer
from hearth_kokoro.voices import Voice
from hearth_voice import call as call_module

from .conftest import Call, Caller, House, OpenHouse
from .parts import Gateway, Speaker
from .sounds import noise, pcm, silence, spoken

QUESTION = "What time is dinner today?"


class Endless(Speaker):
    """Speaks much more than a socket holds."""

    async def speak(
        self, buffer: TextBuffer, voice: Voice, speed: float, playback: Playback | None = None
    ) -> AsyncGenerator[Segment, None]:
        self.active += 1
        try:
            for index in range(200):
                await asyncio.sleep(0)
                yield Segment(index, "word ", silence(2))
        finally:
            self.active -= 1


def append(sound: bytes) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(sound).decode()}


async def answered(caller: Caller, count: int = 1) -> None:
    """Ask, and wait for the whole answer: the call works."""
    if not caller._tasks:
        caller.talk()
    caller.say(spoken(QUESTION))
    await caller.event("response.done", 20, count=count)


@pytest.mark.parametrize(
    ("event", "code", "param"),
    [
        ("{", "invalid_json", None),
        ("[1]", "invalid_json", None),
        ('"text"', "invalid_json", None),
        ("[" * 100_000, "invalid_json", None),
        ({"type": "no.such.event"}, "invalid_value", "type"),
        ({"type": 7}, "invalid_value", "type"),
        ({}, "invalid_value", "type"),
        ({"type": "input_audio_buffer.append"}, "invalid_value", "audio"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "invalid_value", "audio"),
        ({"type": "input_audio_buffer.append", "audio": "é"}, "invalid_value", "audio"),
        (append(b"odd"), "invalid_value", "audio"),
        ({"type": "response.cancel"}, "response_cancel_not_active", None),
        ({"type": "conversation.item.delete", "item_id": "x"}, "item_not_found", "item_id"),
        ({"type": "conversation.item.delete"}, "missing_required_parameter", "item_id"),
        ({"type": "conversation.item.create", "item": {"type": "message"}},
         "missing_required_parameter", "item.role"),
        ({"type": "conversation.item.create", "item": 7}, "invalid_value", "item"),
        ({"type": "session.update", "session": "x"}, "invalid_type", "session"),
        ({"type": "session.update", "session": {"audio": {"input": {"format":
          {"type": "audio/pcmu"}}}}}, "invalid_value", "session.audio.input.format.type"),
        ({"type": "session.update", "session": {"audio": {"output": {"format":
          {"type": "audio/pcm", "rate": 16000}}}}}, "invalid_value",
         "session.audio.output.format.rate"),
        ({"type": "session.update", "session": {"audio": {"input": {"turn_detection":
          {"type": "server_vad", "silence_duration_ms": 10}}}}}, "invalid_value",
         "session.audio.input.turn_detection.silence_duration_ms"),
        ({"type": "session.update", "session": {"output_modalities": ["text", "audio"]}},
         "invalid_value", "session.output_modalities"),
        ({"type": "response.create", "response": {"input": [{"type": "item_reference",
          "id": "gone"}]}}, "item_not_found", "item_id"),
        ({"type": "session.update", "session": {"instructions": "x" * 600_000}},
         "event_too_large", None),
    ],
)  # fmt: skip
async def test_an_invalid_event_is_an_error(
    house: House, call: Call, event: Any, code: str, param: str | None
) -> None:
    async with call(house) as caller:
        if isinstance(event, dict):
            event = {**event, "event_id": "mine"}
        await caller.socket.send(event if isinstance(event, str) else json.dumps(event))
        error = (await caller.event("error"))["error"]
        assert (error["code"], error["param"]) == (code, param), error
        assert error["type"] == "invalid_request_error"
        is_read = isinstance(event, dict) and code != "event_too_large"
        assert error["event_id"] == ("mine" if is_read else None)
        assert "\n" not in error["message"]
        # The call goes on.
        await caller.configure(instructions="Be brief.")


async def test_a_binary_message_is_an_error(house: House, call: Call) -> None:
    async with call(house) as caller:
        await caller.socket.send(b"\0\1")
        assert (await caller.event("error"))["error"]["code"] == "invalid_json"


async def test_an_endless_message_ends_only_its_own_call(house: House, call: Call) -> None:
    async with call(house) as good, call(house) as bad:
        with contextlib.suppress(ConnectionClosed):
            await bad.socket.send("x" * 3_000_000)
        await asyncio.wait_for(bad.socket.wait_closed(), 5)
        await answered(good)


async def test_errors_without_end_end_the_call(house: House, call: Call) -> None:
    async with call(house) as caller:
        for _ in range(120):
            await caller.send("nothing")
        await asyncio.wait_for(caller.socket.wait_closed(), 10)
        assert caller.socket.close_code == 1008
        assert caller.of("error")[-1]["error"]["code"] == "too_many_errors"


async def test_a_thousand_events_a_second_disturb_nobody(house: House, call: Call) -> None:
    async def flood(caller: Caller) -> int:
        count, end = 0, time.monotonic() + 4
        while time.monotonic() < end:
            await caller.send(
                "input_audio_buffer.append", audio=base64.b64encode(bytes(96)).decode()
            )
            count += 1
            if count % 50 == 0:
                await asyncio.sleep(0.05)
        return count

    async with call(house) as good, call(house) as bad:
        flooding = asyncio.create_task(flood(bad))
        await answered(good)
        assert await flooding > 500
        assert not bad.of("error")


async def test_sound_faster_than_real_time_is_answered(house: House, call: Call) -> None:
    async with call(house) as caller:
        sound = pcm(np.concatenate([silence(0.5), spoken(QUESTION), silence(2)]))
        for at in range(0, len(sound), 9600):
            await caller.socket.send(json.dumps(append(sound[at : at + 9600])))
        done = await caller.event("response.done")
        assert done["response"]["status"] == "completed"


async def test_an_hour_of_silence_costs_no_memory_and_no_answer(house: House, call: Call) -> None:
    from hearth_serving.metrics import memory_bytes

    async with call(house) as caller:
        hiss = pcm(noise(10, -60))
        before = 0
        # Six minutes, as fast as they are read.
        for index in range(36):
            if index == 6:
                before = memory_bytes()
            for at in range(0, len(hiss), 48_000):
                await caller.socket.send(json.dumps(append(hiss[at : at + 48_000])))
        await caller.configure(instructions="Still here?")
        assert memory_bytes() - before < 20 * 2**20
        assert not caller.of("input_audio_buffer.speech_started")
        assert not house.gateway.requests


async def test_a_session_may_change_in_mid_sentence(house: House, call: Call) -> None:
    async with call(house) as caller:
        caller.talk()
        caller.say(spoken(QUESTION))
        await caller.event("input_audio_buffer.speech_started")
        await caller.configure(
            audio={"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 800}}}
        )
        done = await caller.event("response.done", 20)
        assert done["response"]["status"] == "completed"
        await answered(caller, 2)


async def test_the_fifth_call_is_refused(house: House, call: Call) -> None:
    async with call(house) as one, call(house) as two, call(house) as three, call(house) as four:
        for caller in (one, two, three, four):
            await caller.event("session.created")
        async with call(house) as fifth:
            error = (await fifth.event("error"))["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "too_many_calls")
            assert "4 calls" in error["message"]
            await asyncio.wait_for(fifth.socket.wait_closed(), 5)
            assert fifth.socket.close_code == 1013
            assert "session.created" not in fifth.kinds
    await house.until(lambda: house.state.calls == 0)
    async with call(house) as again:
        await again.event("session.created")


async def test_four_calls_at_once_are_all_answered(house: House, call: Call) -> None:
    async with call(house) as one, call(house) as two, call(house) as three, call(house) as four:
        await asyncio.gather(*(answered(caller) for caller in (one, two, three, four)))


async def test_an_idle_call_ends(open_house: OpenHouse, call: Call) -> None:
    async with open_house(idle_s=0.3) as house, call(house) as caller:
        error = await caller.event("error")
        assert error["error"]["code"] == "session_expired"
        await asyncio.wait_for(caller.socket.wait_closed(), 5)
        assert caller.socket.close_code == 1001


async def test_a_second_answer_at_once_is_refused(house: House, call: Call) -> None:
    house.gateway.default = "word " * 300
    async with call(house) as caller:
        await caller.send("response.create")
        await caller.event("response.created")
        await caller.send("response.create")
        error = (await caller.event("error"))["error"]
        assert error["code"] == "conversation_already_has_active_response"
        await caller.send("response.cancel")
        done = await caller.event("response.done")
        assert done["response"]["status"] == "cancelled"
        await house.until(lambda: not house.working)


async def test_a_model_that_fails_is_reported(house: House, call: Call) -> None:
    house.gateway.status = 503
    async with call(house) as caller:
        await caller.send("response.create")
        response = (await caller.event("response.done"))["response"]
        assert response["status"] == "failed"
        assert "no model of voice answered" in response["status_details"]["error"]["message"]
        house.gateway.status = 200
        await answered(caller, 2)


async def test_a_voice_that_fails_is_reported(house: House, call: Call) -> None:
    house.speaker.error = RuntimeError("boom")
    async with call(house) as caller:
        await caller.send("response.create")
        response = (await caller.event("response.done"))["response"]
        assert response["status"] == "failed"
        assert "boom" not in json.dumps(response)


async def test_an_unknown_voice_is_reported(house: House, call: Call) -> None:
    async with call(house) as caller:
        await caller.configure(audio={"output": {"voice": "af_nobody"}})
        await caller.send("response.create")
        response = (await caller.event("response.done"))["response"]
        assert "af_nobody" in response["status_details"]["error"]["message"]


async def test_a_page_of_another_site_may_not_call(house: House) -> None:
    address = house.url.replace("http", "ws", 1) + "/v1/realtime"
    with pytest.raises(InvalidStatus) as refused:
        await connect(address, proxy=None, origin="https://evil.example")  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403


async def test_a_client_that_does_not_read_is_left(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "_WRITE_S", 0.3)
    gateway = Gateway(default="One, two, three, and so on. " * 300, pace_s=0.0)
    async with open_house(gateway=gateway, speaker=Endless(takes_s=0.0)) as house:
        address = house.url.replace("http", "ws", 1) + "/v1/realtime"
        async with connect(address, proxy=None, max_queue=1, close_timeout=1) as socket:
            await socket.send(json.dumps({"type": "response.create"}))
            await house.until(lambda: house.speaker.active == 1)
            await house.until(lambda: house.state.calls == 0, 20)
            await house.until(lambda: not house.working)


async def test_figures_have_no_words(house: House, call: Call) -> None:
    house.recogniser.texts = ["a secret question"]
    async with call(house) as caller:
        await answered(caller)
        async with httpx.AsyncClient(base_url=house.url, trust_env=False) as client:
            pages = [
                await client.get(path) for path in ("/metrics", "/status", "/v1/realtime/turns")
            ]
        assert all(page.is_success for page in pages)
        text = "".join(page.text for page in pages)
        assert "secret" not in text
        assert "kettle" not in text
        assert pages[2].json()["turns"][0]["stages"]["total"]
        assert "hearth_voice_calls 1.0" in pages[0].text
