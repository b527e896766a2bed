"""The whole server except the model: the real synthesizer with a scripted engine and clock."""

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
from hearth_kokoro.synthesis.synthesis_queue import InferenceResult, SynthesisRequest
from hearth_kokoro.synthesis.synthesizer import Synthesizer

from ..scripted import ScriptedEngine, ScriptedPhonemizer, ScriptedVoices
from .conftest import RunningServer, StartServer

TEXT = "A first clause, and then a sentence that goes on. Another one follows it! " * 12


@asynccontextmanager
async def opened(
    start_server: StartServer, engine: ScriptedEngine
) -> AsyncIterator[tuple[RunningServer, Any]]:
    synthesizer = Synthesizer(engine, ScriptedVoices(), ScriptedPhonemizer(), clock=engine.clock)
    await synthesizer.start()
    engine.requested.clear()
    try:
        async with start_server(cast(Any, synthesizer)) as server:
            yield server, synthesizer
    finally:
        engine.gate.set()


async def test_streamed_and_whole_speech_have_the_same_samples(start_server: StartServer) -> None:
    answers = []
    for stream in (True, False):
        async with opened(start_server, ScriptedEngine()) as (server, _):
            answer = await server.say(TEXT, response_format="pcm", stream=stream)
            assert answer.status_code == 200
            answers.append(answer)
    assert "content-length" in answers[1].headers
    assert "content-length" not in answers[0].headers
    assert len(answers[0].content) > 10 * 2 * SAMPLE_RATE
    assert answers[0].content == answers[1].content


async def until(socket: ClientConnection, kind: str) -> bytes:
    """Return the sound before the first message of this type."""
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


async def test_utterances_are_one_speech_until_a_cancel(start_server: StartServer) -> None:
    engine = ScriptedEngine()
    async with opened(start_server, engine) as (server, synthesizer):
        requests, run = list[SynthesisRequest](), synthesizer._context.queue.run

        async def noted(request: SynthesisRequest) -> InferenceResult:
            requests.append(request)
            made: InferenceResult = await run(request)
            return made

        synthesizer._context.queue.run = noted
        address = f"ws://127.0.0.1:{server.port}/v1/audio/stream?response_format=pcm"
        async with connect(address, proxy=None, close_timeout=1) as socket:
            await say(socket, "A first sentence is said.")
            first = np.frombuffer(await until(socket, "flushed"), "<i2")
            assert requests[0].is_first
            requests.clear()
            await say(socket, "A second sentence follows it.")
            await until(socket, "flushed")
            assert not any(request.is_first for request in requests)
            assert np.abs(first[-SAMPLE_RATE // 5 :]).max() <= 2

            engine.gate.clear()
            await say(socket, TEXT)
            requested = len(engine.requested)
            await server.until(lambda: len(engine.requested) > requested)
            # The engine cannot end by itself: what is answered was not waited for.
            await socket.send(json.dumps({"type": "cancel"}))
            await until(socket, "cancelled")
            assert synthesizer.active == 0
            engine.gate.set()
            requests.clear()
            await say(socket, "Again, and from the start.", then="end")
            assert await until(socket, "done")
            # The rest is not played, so it starts again.
            assert requests[0].is_first


async def test_a_stream_that_sends_too_much_text_is_closed(start_server: StartServer) -> None:
    engine = ScriptedEngine()
    async with opened(start_server, engine) as (server, synthesizer):
        engine.gate.clear()
        address = f"ws://127.0.0.1:{server.port}/v1/audio/stream"
        async with connect(address, proxy=None, close_timeout=1) as socket:
            for _ in range(60):
                await socket.send(json.dumps({"type": "text", "text": "word " * 200}))
            with pytest.raises(ConnectionClosedError):
                await until(socket, "never")
            assert socket.close_code == 1008
        await server.until(lambda: synthesizer.active == 0)
