"""The whole server but for the model: the real speaker over an engine and a clock of our own."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from hearth_kokoro.engines import SAMPLE_RATE
from hearth_kokoro.speaking.speaker import Speaker
from hearth_kokoro.speaking.work import InferenceResult, Order

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices
from .conftest import House, Opened

TEXT = "A first clause, and then a sentence that goes on. Another one follows it! " * 12


@asynccontextmanager
async def opened(open_house: Opened, engine: ScriptedEngine) -> AsyncIterator[tuple[House, Any]]:
    speaker = Speaker(engine, ScriptedVoices(), ScriptedPhonemizer(), clock=engine.clock)
    await speaker.start()
    engine.asked.clear()
    try:
        async with open_house(cast(Any, speaker)) as house:
            yield house, speaker
    finally:
        engine.gate.set()


async def test_streamed_and_joined_agree_in_every_sample(open_house: Opened) -> None:
    answers = []
    for stream in (True, False):
        async with opened(open_house, ScriptedEngine()) as (house, _):
            answer = await house.say(TEXT, response_format="pcm", stream=stream)
            assert answer.status_code == 200
            answers.append(answer)
    assert "content-length" in answers[1].headers
    assert "content-length" not in answers[0].headers
    assert len(answers[0].content) > 10 * 2 * SAMPLE_RATE
    assert answers[0].content == answers[1].content


async def until(socket: ClientConnection, kind: str) -> bytes:
    """Return the sound that comes before a message of this kind."""
    sound = b""
    async with asyncio.timeout(5):
        while True:
            message = await socket.recv()
            if isinstance(message, bytes):
                sound += message
            elif json.loads(message)["type"] == kind:
                return sound


async def say(socket: ClientConnection, text: str, then: str = "flush") -> None:
    await socket.send(json.dumps({"type": "text", "text": text}))
    await socket.send(json.dumps({"type": then}))


async def test_turns_are_one_speech_until_a_cancel(open_house: Opened) -> None:
    engine = ScriptedEngine()
    async with opened(open_house, engine) as (house, speaker):
        orders, do = list[Order](), speaker._context.work.do

        async def noted(order: Order) -> InferenceResult:
            orders.append(order)
            made: InferenceResult = await do(order)
            return made

        speaker._context.work.do = noted
        address = f"ws://127.0.0.1:{house.port}/v1/audio/stream?response_format=pcm"
        async with connect(address, proxy=None, close_timeout=1) as socket:
            await say(socket, "A first sentence is said.")
            first = np.frombuffer(await until(socket, "flushed"), "<i2")
            assert orders[0].is_first
            orders.clear()
            await say(socket, "A second sentence follows it.")
            await until(socket, "flushed")
            assert not any(order.is_first for order in orders)
            assert np.abs(first[-SAMPLE_RATE // 5 :]).max() <= 2

            engine.gate.clear()
            await say(socket, TEXT)
            asked = len(engine.asked)
            await house.until(lambda: len(engine.asked) > asked)
            # The engine cannot end by itself: what is answered was not waited for.
            await socket.send(json.dumps({"type": "cancel"}))
            await until(socket, "cancelled")
            assert speaker.active == 0
            engine.gate.set()
            orders.clear()
            await say(socket, "Again, and from the start.", then="end")
            assert await until(socket, "done")
            # What was to be heard is not played on, so it begins anew.
            assert orders[0].is_first


async def test_a_writer_without_end_is_let_go(open_house: Opened) -> None:
    engine = ScriptedEngine()
    async with opened(open_house, engine) as (house, speaker):
        engine.gate.clear()
        address = f"ws://127.0.0.1:{house.port}/v1/audio/stream"
        async with connect(address, proxy=None, close_timeout=1) as socket:
            for _ in range(60):
                await socket.send(json.dumps({"type": "text", "text": "word " * 200}))
            with pytest.raises(ConnectionClosedError):
                await until(socket, "never")
            assert socket.close_code == 1008
        await house.until(lambda: speaker.active == 0)
