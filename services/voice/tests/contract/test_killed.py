"""A part is killed in the middle of a turn: the client knows why within 3 s, and nothing hangs."""

import asyncio
import base64
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai import AsyncOpenAI

from ..parts import Gateway, Recogniser, Speaker, kokoro, serving, whisper
from ..sounds import pcm, silence, spoken
from .conftest import Process, started

_KNOWN_S = 3.0


class Cut:
    """Stands before a server, and can be cut as if that were killed."""

    def __init__(self, target: str) -> None:
        self.port = int(target.rpartition(":")[2])
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self) -> asyncio.Server:
        return await asyncio.start_server(self._pass, "127.0.0.1", 0)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return
        self._writers += [writer, there_writer]
        await asyncio.gather(
            self._copy(reader, there_writer), self._copy(there_reader, writer),
            return_exceptions=True,
        )  # fmt: skip

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        finally:
            target.close()

    def kill(self) -> None:
        self.port = 9
        for writer in self._writers:
            writer.transport.abort()


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """The server as a process, and each of its parts behind something that can be cut."""
    speaker, recogniser = Speaker(takes_s=0.3), Recogniser()
    gateway = Gateway(default="The kettle is on, and so are you. " * 20, pace_s=0.05)
    ears, ears_state = whisper(recogniser, tmp_path)
    mouth, mouth_state = kokoro(speaker)
    async with (
        serving(ears, ears_state) as whisper_url,
        serving(mouth, mouth_state) as kokoro_url,
        serving(gateway.app()) as litellm_url,
    ):
        cuts = {
            "whisper": Cut(whisper_url),
            "kokoro": Cut(kokoro_url),
            "litellm": Cut(litellm_url),
        }
        servers = {name: await cut.serve() for name, cut in cuts.items()}
        config = tmp_path / "config.json"
        ports = {name: one.sockets[0].getsockname()[1] for name, one in servers.items()}
        config.write_text(
            json.dumps({name: f"http://127.0.0.1:{port}" for name, port in ports.items()})
        )

        arguments = ["--config", str(config)]
        starting = started(tmp_path, "hearth_voice", "/health", arguments)
        # It waits for the server, and must not stop the others meanwhile.
        running = await asyncio.to_thread(starting.__enter__)
        try:
            yield {**cuts, "voice": running, "gateway": gateway, "speaker": speaker}
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)
            for one in servers.values():
                one.close()
            for cut in cuts.values():
                cut.kill()


class Caller:
    """A client that speaks without end, and reads."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.events = connection, list[Any]()
        self.queue = np.zeros(0, np.float32)
        self._tasks = [asyncio.create_task(self._hear()), asyncio.create_task(self._read())]

    async def _hear(self) -> None:
        while True:
            part = silence(0.04)
            part[: min(part.size, self.queue.size)] = self.queue[: part.size]
            self.queue = self.queue[part.size :]
            audio = base64.b64encode(pcm(part)).decode()
            await self.connection.input_audio_buffer.append(audio=audio)
            await asyncio.sleep(0.04)

    async def _read(self) -> None:
        async for event in self.connection:
            self.events.append(event)

    async def until(self, *kinds: str, within_s: float = 20) -> Any:
        began = time.monotonic()
        while True:
            if found := [event for event in self.events if event.type in kinds]:
                return found[-1]
            assert time.monotonic() - began < within_s, [event.type for event in self.events][-9:]
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def caller(parts: dict[str, Any]) -> AsyncIterator[Caller]:
    voice: Process = parts["voice"]
    async with (
        AsyncOpenAI(base_url=f"{voice.url}/v1", api_key="none", max_retries=0) as openai,
        openai.realtime.connect(model="voice") as connection,
    ):
        one = Caller(connection)
        await one.until("session.created")
        yield one
        await one.close()


async def test_the_recogniser_is_killed_in_a_sentence(
    parts: dict[str, Any], caller: Caller
) -> None:
    caller.queue = spoken("I would like to know whether the window in the hall is closed, and why.")
    await caller.until("input_audio_buffer.speech_started")
    parts["whisper"].kill()
    failed = "conversation.item.input_audio_transcription.failed"
    event = await caller.until(failed, within_s=_KNOWN_S)
    assert "not reachable" in event.error.message
    # It stays away: the client is told that, too.
    event = await caller.until("error", within_s=_KNOWN_S)
    assert event.error.code == "transcription_unavailable"


async def test_the_voice_is_killed_in_a_sentence(parts: dict[str, Any], caller: Caller) -> None:
    await caller.connection.response.create()
    await caller.until("response.output_audio.delta")
    parts["kokoro"].kill()
    done = await caller.until("response.done", within_s=_KNOWN_S)
    assert done.response.status == "failed"
    assert "voice" in done.response.status_details.error.code
    gateway: Gateway = parts["gateway"]
    began = time.monotonic()
    while gateway.active:
        assert time.monotonic() - began < _KNOWN_S, "the model works for nobody"
        await asyncio.sleep(0.02)


async def test_the_model_is_killed_in_a_sentence(parts: dict[str, Any], caller: Caller) -> None:
    await caller.connection.response.create()
    await caller.until("response.output_audio.delta")
    parts["litellm"].kill()
    done = await caller.until("response.done", within_s=_KNOWN_S)
    assert done.response.status == "failed"
    assert done.response.status_details.error.code == "model_unavailable"


async def test_the_server_itself_is_killed(parts: dict[str, Any], caller: Caller) -> None:
    await caller.connection.response.create()
    await caller.until("response.output_audio.delta")
    parts["voice"].process.send_signal(signal.SIGKILL)
    speaker: Speaker = parts["speaker"]
    began = time.monotonic()
    while parts["gateway"].active or speaker.active:
        assert time.monotonic() - began < _KNOWN_S, "somebody works for nobody"
        await asyncio.sleep(0.02)
