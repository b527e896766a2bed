"""Too many or slow sockets, and invalid HTTP: each gets an error in OpenAI's format."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .conftest import RunningServer, StartServer

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def dial(server: RunningServer, sent: bytes = b"") -> Line:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(sent)
    return reader, writer


async def read_response(line: Line, *, drips: bool = False) -> tuple[int, Any]:
    """Return status and error of a response that closes its connection.

    With `drips`, a byte that arrived too late to be read turns the end into a reset.
    """
    answer = b""
    try:
        while data := await asyncio.wait_for(line[0].read(4096), 10):
            answer += data
    except ConnectionError:
        if not drips:
            raise
    line[1].close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


async def test_too_many_sockets_get_a_retry_after(start_server: StartServer) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(start_server(connections=3))
        for _ in range(3):
            _, writer = await dial(server)
            stack.callback(writer.close)
        await server.until(lambda: server.state.sockets() == 3)
        answer = await server.say()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json()["error"]["code"] == "too_many_connections"
        assert answer.headers["connection"] == "close"
        assert (await server.client.get("/health")).status_code == 200
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream", proxy=None):
                pass
        assert refused.value.response.status_code == 503


async def test_a_flood_of_sockets_is_closed(start_server: StartServer) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(start_server(connections=3))
        lines = [await dial(server) for _ in range(12)]
        for _, writer in lines:
            stack.callback(writer.close)
        await asyncio.sleep(0.05)
        assert server.state.sockets() <= 6
    assert server.synthesizer.closed


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: "])
async def test_headers_that_never_end_time_out(start_server: StartServer, sent: bytes) -> None:
    async with start_server(headers_s=0.3) as server:
        line = await dial(server, sent)
        answer = asyncio.create_task(read_response(line, drips=bool(sent)))
        while not answer.done() and sent:
            line[1].write(b"x")
            await asyncio.sleep(0.05)
        status, error = await answer
        assert (status, error["code"]) == (408, "request_timeout")


async def test_a_second_request_on_a_connection_has_a_time_limit_too(
    start_server: StartServer,
) -> None:
    async with start_server(headers_s=0.3) as server:
        line = await dial(server, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.wait_for(line[0].readuntil(b"}"), 3)
        # A connection that is kept open without a request is another thing.
        await asyncio.sleep(0.5)
        line[1].write(b"GET /health HTTP/1.1\r\n")
        assert (await read_response(line))[0] == 408


async def test_a_slow_response_is_not_a_slow_request(start_server: StartServer) -> None:
    async with start_server(headers_s=0.2) as server:
        server.synthesizer.piece_s = 0.5
        assert (await server.say()).status_code == 200
        async with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream", proxy=None) as socket:
            await socket.recv()
            await asyncio.sleep(0.4)
            await socket.send('{"type": "end"}')
            assert json.loads(await socket.recv())["type"] == "done"


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01 hello\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x" * 20_000]
)
async def test_invalid_http_returns_an_error_in_openais_format(
    server: RunningServer, sent: bytes
) -> None:
    status, error = await read_response(await dial(server, sent))
    assert (status, error["type"], error["code"]) == (400, "invalid_request_error", "invalid_http")
