"""OpenAI's own client talks with the real processes."""

import asyncio
import base64
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from ..sounds import Sound, pcm, silence, spoken
from .conftest import RealHouse

QUESTION = "What time is dinner today?"


async def talk(connection: AsyncRealtimeConnection, sound: Sound) -> None:
    """Send sound at its own pace, and silence after it."""
    step = 960
    for at in range(0, sound.size, step):
        audio = base64.b64encode(pcm(sound[at : at + step])).decode()
        await connection.input_audio_buffer.append(audio=audio)
        await asyncio.sleep(step / 24_000)


async def until(connection: AsyncRealtimeConnection, kind: str) -> list[Any]:
    """Return the events up to one of this kind."""
    events: list[Any] = []
    async with asyncio.timeout(120):
        async for event in connection:
            events.append(event)
            if event.type == kind:
                return events
    raise AssertionError(f"the call ended before {kind}: {[e.type for e in events]}")


def client(house: RealHouse) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{house.url}/v1", api_key="none", max_retries=0)


async def test_it_asks_by_voice_and_hears_the_answer(real_house: RealHouse) -> None:
    async with (
        client(real_house) as openai,
        openai.realtime.connect(model="voice") as connection,
    ):
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be brief.",
                "audio": {
                    "input": {
                        "transcription": {"model": "whisper-1"},
                        "turn_detection": {"type": "server_vad"},
                    },
                    "output": {"voice": "marin"},
                },
            }
        )
        updated = (await until(connection, "session.updated"))[-1]
        assert updated.session.instructions == "Be brief."
        await talk(connection, np.concatenate([spoken(QUESTION), silence(1.5)]))
        events = await until(connection, "conversation.item.input_audio_transcription.completed")
        kinds = [event.type for event in events]
        assert kinds[:3] == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
        ]
        # Made-up weights have made-up words, and perhaps none.
        if not events[-1].transcript:
            await connection.response.create()
        events = await until(connection, "response.done")
        sound = b"".join(
            base64.b64decode(event.delta)
            for event in events
            if event.type == "response.output_audio.delta"
        )
        assert len(sound) > 24_000
        response = events[-1].response
        assert response.status == "completed"
        assert response.usage.output_tokens == 9
        said = "".join(
            event.delta
            for event in events
            if event.type == "response.output_audio_transcript.delta"
        )
        assert said.strip() == real_house.gateway.default
        assert real_house.memory_mib < 200


async def test_it_asks_in_text_calls_a_function_and_cancels(real_house: RealHouse) -> None:
    real_house.gateway.answers = [{"name": "look_up", "arguments": "{}"}, "Three.", "word " * 400]
    async with (
        client(real_house) as openai,
        openai.realtime.connect(model="voice") as connection,
    ):
        await connection.session.update(
            session={
                "type": "realtime",
                "output_modalities": ["text"],
                "tools": [
                    {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
                ],
            }
        )
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "How many?"}],
            }
        )
        await connection.response.create()
        called = (await until(connection, "response.done"))[-1].response.output[0]
        assert (called.type, called.name, called.arguments) == ("function_call", "look_up", "{}")
        await connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": called.call_id, "output": "3"}
        )
        await connection.response.create()
        events = await until(connection, "response.done")
        text = "".join(
            event.delta for event in events if event.type == "response.output_text.delta"
        )
        assert text.strip() == "Three."
        roles = [message["role"] for message in real_house.gateway.requests[-1]["messages"]]
        assert roles == ["system", "user", "assistant", "tool"]
        await connection.response.create()
        await until(connection, "response.output_text.delta")
        await connection.response.cancel()
        assert (await until(connection, "response.done"))[-1].response.status == "cancelled"
        await connection.response.cancel()
        error = (await until(connection, "error"))[-1].error
        assert error.code == "response_cancel_not_active"


async def test_a_part_that_is_killed_ends_a_turn_and_not_the_call(real_house: RealHouse) -> None:
    real_house.gateway.status = 500
    async with (
        client(real_house) as openai,
        openai.realtime.connect(model="voice") as connection,
    ):
        await connection.response.create()
        failed = (await until(connection, "response.done"))[-1].response
        assert failed.status == "failed"
        assert failed.status_details.error.code == "model_refused"
        real_house.gateway.status = 200
        await connection.response.create()
        assert (await until(connection, "response.done"))[-1].response.status == "completed"
