"""A WebSocket for code that waits: one thread touches the connection, and it ends in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.server import Server, ServerConnection, serve

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.websocket import THREAD, opened


@contextmanager
def served(listen: Callable[[ServerConnection], None]) -> Iterator[Endpoint]:
    with serve(listen, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield _address(server)
        finally:
            server.shutdown()
            thread.join()


def _address(server: Server) -> Endpoint:
    host, port = server.socket.getsockname()[:2]
    return Endpoint("speaker", f"http://{host}:{port}", host="speaker.lan")


def echoes(call: ServerConnection) -> None:
    for message in call:
        call.send(message)


def test_messages_arrive_and_the_thread_ends() -> None:
    with served(echoes) as at:
        with opened(at, "/", 5) as call:
            call.send("one")
            call.send(b"two")
            assert [call.recv(5), call.recv(5)] == ["one", b"two"]
            with pytest.raises(TimeoutError):
                call.recv(0.05)
            assert threads() == 1
        assert threads() == 0


def threads() -> int:
    """Return how many threads carry a call; those of the server here end when they like."""
    return sum(each.name == THREAD for each in threading.enumerate())


def test_one_thread_reads_and_writes() -> None:
    seen: set[str] = set()

    class Watched(ClientConnection):
        async def send(self, *words: Any, **more: Any) -> None:
            seen.add(threading.current_thread().name)
            await super().send(*words, **more)

        async def recv(self, *words: Any, **more: Any) -> Any:
            seen.add(threading.current_thread().name)
            return await super().recv(*words, **more)

    with (
        served(echoes) as at,
        opened(at, "/", 5, create_connection=Watched) as call,
    ):
        reading = threading.Thread(target=call.recv)
        reading.start()
        call.send("one")
        reading.join()
    assert len(seen) == 1
    assert threading.current_thread().name not in seen


def test_a_waiting_reader_sees_the_end() -> None:
    ended: list[list[str | bytes]] = []
    with served(echoes) as at, opened(at, "/", 5) as call:
        reading = threading.Thread(target=lambda: ended.append(list(call)))
        reading.start()
        call.send("one")
        call.close()
        reading.join()
        with pytest.raises(ConnectionClosedOK):
            call.recv(1)
    assert ended in ([[]], [["one"]])


def test_a_refusal_has_its_http_status() -> None:
    def refuses(call: ServerConnection, _: object) -> object:
        return call.respond(401, "no key")

    with serve(echoes, "127.0.0.1", 0, process_request=refuses) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with (
            pytest.raises(ClientError, match=r"^speaker/: HTTP 401$"),
            opened(_address(server), "/", 5),
        ):
            pass
        server.shutdown()
        thread.join()


def test_a_server_that_does_not_run_is_an_error() -> None:
    with (
        pytest.raises(ClientError, match=r"^speaker/: .*9"),
        opened(Endpoint("speaker", "http://127.0.0.1:9"), "/", 1),
    ):
        pass
