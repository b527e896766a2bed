"""`WS /v1/audio/stream`, over a socket."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from .conftest import SEGMENT_S, RunningServer, ScriptedSynthesizer, StartServer, busy
from .decoding import hear


class Line:
    """A client of the WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def tell(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def hear(self) -> dict[str, Any] | bytes:
        message = await asyncio.wait_for(self.socket.recv(), 5)
        return message if isinstance(message, bytes) else json.loads(message)

    async def until(self, kind: str) -> tuple[list[dict[str, Any]], bytes]:
        """Return the messages up to the first of this type, and the sound before it."""
        messages: list[dict[str, Any]] = []
        sound = b""
        while not messages or messages[-1]["type"] != kind:
            message = await self.hear()
            if isinstance(message, bytes):
                sound += message
            else:
                messages.append(message)
        return messages, sound

    async def closed(self) -> int:
        """Return the code with which the server closes the WebSocket."""
        with pytest.raises(ConnectionClosed) as closed:
            await self.until("never")
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code


Dialled = Callable[..., AbstractAsyncContextManager[Line]]


@pytest.fixture
def dial() -> Dialled:
    @asynccontextmanager
    async def dialled(server: RunningServer, query: str = "", **more: Any) -> AsyncIterator[Line]:
        address = f"ws://127.0.0.1:{server.port}/v1/audio/stream{query}"
        async with connect(address, proxy=None, close_timeout=1, **more) as socket:
            yield Line(socket)

    return dialled


async def test_text_becomes_sound(server: RunningServer, dial: Dialled) -> None:
    async with dial(server, "?voice=nova&speed=2") as line:
        ready = await line.hear()
        assert isinstance(ready, dict)
        assert (ready["type"], ready["sample_rate"]) == ("ready", 24_000)
        assert (ready["voice"], ready["response_format"]) == ("af_nova", "pcm")
        for delta in ("One two ", "three, four", " five."):
            await line.tell(type="text", text=delta)
        await line.tell(type="end")
        messages, sound = await line.until("done")
        segments = messages[:-1]
        assert "".join(segment["text"] for segment in segments) == "One two three, four five."
        assert [segment["index"] for segment in segments] == list(range(len(segments)))
        assert sum(segment["samples"] for segment in segments) == len(sound) // 2
        assert len(sound) // 2 == round(len(segments) * SEGMENT_S / 2 * 24_000)
        with pytest.raises(ConnectionClosed):
            await line.hear()


async def test_a_clause_is_spoken_before_the_text_ends(
    server: RunningServer, dial: Dialled
) -> None:
    async with dial(server) as line:
        await line.hear()
        await line.tell(type="text", text="Once upon a time, there was")
        messages, _ = await line.until("piece")
        assert messages[-1]["text"].startswith("Once")


@pytest.mark.parametrize("early", [False, True])
async def test_a_piece_says_for_how_long_its_sound_was_held_back(
    start_server: StartServer, dial: Dialled, early: bool
) -> None:
    async with (
        start_server(ScriptedSynthesizer(held_s=2.5)) as server,
        dial(server, f"?early={str(early).lower()}") as line,
    ):
        await line.hear()
        await line.tell(type="text", text="Once upon a time, there was a kettle.")
        await line.tell(type="end")
        messages, _ = await line.until("done")
    held = [message.get("held_ms") for message in messages if message["type"] == "piece"]
    assert held == [None if early else 2500] + [None] * (len(held) - 1)


async def test_a_flush_speaks_all_text_and_the_stream_stays_open(
    server: RunningServer, dial: Dialled
) -> None:
    async with dial(server, "?response_format=mp3") as line:
        await line.hear()
        for round_ in range(2):
            await line.tell(type="text", text=f"round {round_} and")
            await line.tell(type="flush")
            messages, sound = await line.until("flushed")
            assert "".join(segment["text"] for segment in messages[:-1]) == f"round {round_} and"
            assert hear(sound, "mp3").seconds == pytest.approx(0.3 * (len(messages) - 1), abs=0.09)
        await line.tell(type="flush")
        assert (await line.hear()) == {"type": "flushed"}


async def test_cancel_stops_the_sound_and_the_stream_stays_open(
    server: RunningServer, dial: Dialled
) -> None:
    # After its first piece it says no more of a text, however long anything here takes.
    server.synthesizer.gate.clear()
    async with dial(server) as line:
        await line.hear()
        await line.tell(type="text", text="One two three four five six seven, eight. ")
        await line.tell(type="flush")
        await line.tell(type="text", text="And more. ")
        await line.until("piece")
        await line.tell(type="cancel")
        messages, _ = await line.until("cancelled")
        assert [each["type"] for each in messages] == ["cancelled"]
        assert len(server.synthesizer.spoken) == 1
        assert server.synthesizer.active == 0
        await line.tell(type="text", text="Again.")
        await line.tell(type="end")
        messages, _ = await line.until("done")
        assert "".join(segment.get("text", "") for segment in messages) == "Again."


async def test_cancel_without_text_gets_a_response(server: RunningServer, dial: Dialled) -> None:
    async with dial(server) as line:
        await line.hear()
        await line.tell(type="cancel")
        assert (await line.hear()) == {"type": "cancelled"}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "invalid_json"),
        (b"\x00\x01", "invalid_json"),
        ("[]", "invalid_message"),
        ('{"type": "sing"}', "invalid_message"),
        ('{"type": "text"}', "invalid_message"),
        ('{"type": "text", "text": 5}', "invalid_message"),
        ("[" * 60_000, "invalid_json"),
    ],
)
async def test_an_invalid_message_gets_an_error_and_the_stream_stays_open(
    server: RunningServer, dial: Dialled, message: str | bytes, code: str
) -> None:
    async with dial(server) as line:
        await line.hear()
        await line.socket.send(message)
        error = await line.hear()
        assert isinstance(error, dict)
        assert (error["type"], error["error"]["code"]) == ("error", code)
        await line.tell(type="text", text="Well then.")
        await line.tell(type="flush")
        await line.until("flushed")


async def test_too_many_invalid_messages_close_the_stream(
    server: RunningServer, dial: Dialled
) -> None:
    async with dial(server) as line:
        for _ in range(20):
            await line.socket.send("x")
        assert await line.closed() == 1008


async def test_a_message_that_is_too_long_closes_the_stream(
    server: RunningServer, dial: Dialled
) -> None:
    async with dial(server) as line:
        await line.hear()
        await line.tell(type="text", text="a" * 70_000)
        assert await line.closed() == 1009


async def test_text_above_the_limit_is_rejected(start_server: StartServer, dial: Dialled) -> None:
    slow = ScriptedSynthesizer(piece_s=30)
    async with start_server(slow, text_characters=100) as server, dial(server) as line:
        await line.hear()
        for _ in range(11):
            await line.tell(type="text", text="0123456789")
        messages, _ = await line.until("error")
        assert messages[-1]["error"]["code"] == "string_above_max_length"


async def test_too_many_flushes_close_the_stream(start_server: StartServer, dial: Dialled) -> None:
    async with start_server(ScriptedSynthesizer(piece_s=30)) as server, dial(server) as line:
        await line.tell(type="text", text="Well.")
        for _ in range(65):
            await line.tell(type="flush")
        assert await line.closed() == 1008


async def test_an_idle_stream_is_closed(start_server: StartServer, dial: Dialled) -> None:
    async with (
        start_server(ScriptedSynthesizer(piece_s=0.3), idle_s=0.4) as server,
        dial(server) as line,
    ):
        await line.tell(type="text", text="One two three four five six seven eight nine. And then")
        began = time.monotonic()
        assert await line.closed() == 1001
        # It spoke longer than that, and only then was it silent.
        assert time.monotonic() - began > 0.9
        assert server.synthesizer.active == 0


async def test_empty_texts_do_not_keep_a_stream_open(
    start_server: StartServer, dial: Dialled
) -> None:
    async with start_server(idle_s=0.5) as server, dial(server) as line:
        for _ in range(10):
            await asyncio.sleep(0.1)
            with contextlib.suppress(ConnectionClosed):
                await line.tell(type="text", text="")
            assert server.synthesizer.active == 0
        assert await line.closed() == 1001


async def test_an_empty_flush_is_not_counted(server: RunningServer, dial: Dialled) -> None:
    async with dial(server) as line:
        for _ in range(3):
            await line.tell(type="flush")
            await line.until("flushed")
    page = (await server.client.get("/metrics")).text
    assert 'kokoro_requests_total{outcome="done"} 0.0' in page


async def _ping_without_end(writer: asyncio.StreamWriter) -> None:
    # Masked by zeros, of 125 bytes each; the kernels of both ends keep some megabytes of pongs.
    pings = (bytes([0x89, 0x80 | 125]) + bytes(4 + 125)) * 8000
    for _ in range(60):
        writer.write(pings)
        await asyncio.wait_for(writer.drain(), 10)


async def test_unread_pongs_close_the_stream(server: RunningServer) -> None:
    """Sends pings without reading; without a bound, the pongs would fill the memory."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    requested = (
        f"GET /v1/audio/stream HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    writer.write(requested.encode())
    await reader.readuntil(b"\r\n\r\n")
    with pytest.raises(ConnectionError):
        await _ping_without_end(writer)
    await server.until(lambda: server.state.live == 0)
    writer.close()


async def test_a_stream_whose_client_disconnects_stops_its_synthesis(
    start_server: StartServer, dial: Dialled
) -> None:
    async with start_server(ScriptedSynthesizer(piece_s=60)) as server:
        async with dial(server) as line:
            await line.tell(type="text", text="One two. ")
            await server.until(lambda: server.synthesizer.active == 1)
            line.socket.transport.abort()
            await server.until(lambda: server.synthesizer.active == 0)
        await server.until(lambda: server.state.live == 0)


async def test_a_stream_whose_client_does_not_read_is_closed(
    start_server: StartServer, dial: Dialled, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel would let it go as well; here it is our own clock that is tried.
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    async with start_server(write_s=0.3) as server, dial(server, max_queue=1) as line:
        await line.tell(type="text", text="word " * 3000)
        await line.tell(type="flush")
        await server.until(lambda: server.state.live == 0, within_s=8)
        assert server.synthesizer.active == 0


async def test_an_error_ends_the_utterance_and_not_the_stream(
    start_server: StartServer, dial: Dialled
) -> None:
    async with start_server(ScriptedSynthesizer(error=busy())) as server, dial(server) as line:
        await line.tell(type="text", text="One two.")
        await line.tell(type="flush")
        messages, _ = await line.until("flushed")
        assert messages[1]["error"]["type"] == "rate_limit_error"
        server.synthesizer.error = None
        await line.tell(type="text", text="Again.")
        await line.tell(type="end")
        messages, _ = await line.until("done")
        assert messages[0]["text"] == "Again."


@pytest.mark.parametrize("query", ["?speed=9", "?voice=nobody", "?model=x", "?response_format=ra"])
async def test_an_invalid_query_is_rejected(
    server: RunningServer, dial: Dialled, query: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with dial(server, query):
            pass
    assert refused.value.response.status_code in (400, 404)
    assert "error" in json.loads(refused.value.response.body)


async def test_the_number_of_streams_is_limited(start_server: StartServer, dial: Dialled) -> None:
    async with start_server(live=1) as server, dial(server) as line:
        await line.hear()
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server):
                pass
        assert refused.value.response.status_code == 429


async def test_a_stream_needs_the_key(start_server: StartServer, dial: Dialled) -> None:
    async with start_server(key="right") as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            with pytest.raises(InvalidStatus) as refused:
                async with dial(server, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 401
        async with dial(server, additional_headers={"Authorization": "Bearer right"}) as line:
            assert await line.hear()


async def test_a_page_of_another_site_is_rejected(start_server: StartServer, dial: Dialled) -> None:
    async with start_server(origins=("https://chat.lan",)) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with dial(server, origin="https://evil.example"):
                pass
        assert refused.value.response.status_code == 403
        for origin in ("https://chat.lan", f"http://127.0.0.1:{server.port}"):
            async with dial(server, origin=origin) as line:
                assert await line.hear()
