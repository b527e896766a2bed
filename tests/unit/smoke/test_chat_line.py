"""The page's WebSocket is kept open, and its messages are distinguished."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from hearth.clients import ClientError
from hearth.clients.chat import (
    ChatEvent,
    Connection,
    Turn,
    handshake,
    open_socket,
    wait_for_answer,
)
from hearth.clients.endpoints import Endpoint

WITHIN_S = 10.0
TURN = Turn("c", "q", "a", 0.0)


def server_at(url: str) -> Endpoint:
    return Endpoint("chat", url, host="chat.lan")


@contextmanager
def opened(
    talk: Callable[[ServerConnection], None], origin: str | None = None
) -> Iterator[tuple[Connection, list[Request]]]:
    """A WebSocket to a server that greets as Open WebUI does, and then follows the script."""
    requests: list[Request] = []

    def note(call: ServerConnection, request: Request) -> Response | None:
        requests.append(request)
        if request.headers["Origin"] == "https://elsewhere.example":
            return call.respond(HTTPStatus.BAD_REQUEST, "not from there\n")
        return None

    def greet(call: ServerConnection) -> None:
        call.send('0{"sid":"x","pingInterval":25000}')
        assert call.recv() == '40{"token": "t"}'
        call.send('40{"sid":"name"}')
        talk(call)

    with ExitStack() as stack:
        server = stack.enter_context(serve(greet, "127.0.0.1", 0, process_request=note))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        call = stack.enter_context(open_socket(server_at(url), WITHIN_S, origin))
        yield stack.enter_context(handshake(call, "t", WITHIN_S)), requests


def say(call: ServerConnection, kind: str, data: Any, message: str = "a") -> None:
    body = {"chat_id": "c", "message_id": message, "data": {"type": kind, "data": data}}
    call.send("42" + json.dumps(["events", body]))


def delta(call: ServerConnection, text: str, kind: str = "response.output_text.delta") -> None:
    say(call, "response:completion", {"type": kind, "delta": text})


def test_a_ping_is_answered_and_an_answer_is_gathered() -> None:
    def talk(call: ServerConnection) -> None:
        call.send("2")
        assert call.recv() == "3"
        call.send('42["usage",{}]')
        say(call, "status", {"action": "sources_retrieved", "done": True})
        delta(call, "hmm", "response.reasoning_text.delta")
        delta(call, "Four")
        delta(call, "teen", "response.function_call_arguments.delta")
        delta(call, ".")
        say(call, "chat:completion", {"done": True}, message="another")
        say(call, "chat:completion", {"done": True})
        call.recv()

    with opened(talk) as (connection, requests):
        answer = wait_for_answer(connection, TURN, WITHIN_S)
        assert (connection.id, connection.pings, connection.closed_s) == ("name", 1, None)
    assert (answer.text, answer.thought) == ("Four.", "hmm")
    # A thought is a first word, too.
    assert [event.text for event in answer.pieces] == ["", "Four", "."]
    assert answer.error == ""
    assert requests[0].headers["Host"] == "chat.lan"
    assert requests[0].headers["Origin"] == "http://chat.lan"


def test_an_error_ends_an_answer_in_its_own_words() -> None:
    def talk(call: ServerConnection) -> None:
        delta(call, "Fo")
        say(call, "chat:message:error", {"error": {"content": "It broke off."}, "done": True})
        call.recv()

    with opened(talk) as (connection, _):
        answer = wait_for_answer(connection, TURN, WITHIN_S)
    assert (answer.text, answer.error) == ("Fo", "It broke off.")


def test_a_closed_connection_is_noticed() -> None:
    with opened(lambda call: delta(call, "Fo")) as (connection, _):
        assert connection.until(lambda: connection.closed_s is not None, WITHIN_S)
        with pytest.raises(ClientError, match=r"0.1 s: 1 pieces arrived; .* was closed"):
            wait_for_answer(connection, TURN, 0.1)


def test_an_answer_without_text_has_no_first_piece() -> None:
    def talk(call: ServerConnection) -> None:
        say(call, "chat:completion", {"done": True})
        call.recv()

    with opened(talk) as (connection, _):
        answer = wait_for_answer(connection, TURN, WITHIN_S)
    with pytest.raises(ClientError, match=r"arrived, only \['chat:completion'\]"):
        _ = answer.first_s


def test_a_foreign_origin_is_refused_with_its_status() -> None:
    with (
        pytest.raises(ClientError, match="HTTP 400"),
        opened(lambda _: None, "https://elsewhere.example"),
    ):
        pass


def test_another_kind_of_server_is_recognised() -> None:
    def wrong(call: ServerConnection) -> None:
        call.send("hello")

    with serve(wrong, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        with (
            open_socket(server_at(url), WITHIN_S) as call,
            pytest.raises(ClientError, match=r"is not an Engine\.IO server"),
            handshake(call, "t", WITHIN_S),
        ):
            pass
        server.shutdown()
        thread.join()


def test_a_server_that_does_not_run_is_an_error() -> None:
    with pytest.raises(ClientError), open_socket(server_at("http://127.0.0.1:9"), 1):
        pass
    with pytest.raises(ClientError, match="GET /health: "):
        server_at("http://127.0.0.1:9").send("GET", "/health", within_s=1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"error": {"message": "m"}}, "m"),
        ({"error": "text"}, "text"),
        ({"error": {}}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_errors_come_in_several_shapes(data: Any, words: str) -> None:
    assert ChatEvent(0, "a", "chat:completion", data).error == words
