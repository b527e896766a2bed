"""One page of the chat: what it asks, and what it reads off its live line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from hearth.bench import chat as module
from hearth.bench.chat import Page, open_pages
from hearth.clients import ClientError
from hearth.clients.chat import ChatEvent, Connection, Person
from hearth.clients.endpoints import Endpoint

CHAT = Endpoint("chat", "http://127.0.0.1:9", host="chat.lan")
ANN = Person(CHAT, "ann", "user", "token-of-ann")
Says = Callable[[str], list[tuple[str, Any]]]


def delta(text: str) -> tuple[str, Any]:
    return "response:completion", {"type": "response.output_text.delta", "delta": text}


DONE = ("chat:completion", {"done": True})


def open_page(says: Says, status: int = 200) -> tuple[Page, list[dict[str, Any]]]:
    """Return a page whose chat says over the line what `says` returns for an answer's name."""
    line, asked = Connection("line-1"), list[dict[str, Any]]()

    def take(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        asked.append(body)
        for number, (kind, data) in enumerate(says(body["id"])):
            line.events.append(ChatEvent(1e9 + number, body["id"], kind, data))
        return httpx.Response(status, json={"chat_id": "c"})

    client = httpx.AsyncClient(transport=httpx.MockTransport(take), base_url="http://chat.lan")
    return Page(line, client, "fast", call_s=0.3), asked


async def test_a_question_is_the_pages_own_and_the_words_come_over_the_line() -> None:
    page, asked = open_page(lambda name: [delta("one"), delta(" two"), DONE])
    sample = await page.measure("Name one colour.", 16)
    assert (sample.error, sample.tokens) == ("", 2)
    assert sample.first_ms is not None
    assert sample.total_ms == pytest.approx(sample.first_ms + 2000)
    (body,) = asked
    assert (body["session_id"], body["model"], body["stream"]) == ("line-1", "fast", True)
    assert body["user_message"]["content"] == "Name one colour."
    assert body["user_message"]["childrenIds"] == [body["id"]]
    assert body["params"]["max_tokens"] == 16
    # A title would be one more call of the model beside the answer.
    assert body["background_tasks"] == {}


async def test_a_status_and_other_answers_are_no_words() -> None:
    def says(name: str) -> list[tuple[str, Any]]:
        return [("status", {"description": "Answered by m", "done": True}), delta("x")]

    page, _ = open_page(lambda name: [*says(name), DONE])
    page.connection.events.append(ChatEvent(1.0, "another", *delta("not this one")))
    sample = await page.measure("p", 1)
    assert (sample.error, sample.tokens) == ("", 1)
    # The line above an answer does not end it.
    unended, _ = open_page(says)
    assert (await unended.measure("p", 1)).error == "no complete answer within 0.3 s"


@pytest.mark.parametrize(
    ("events", "status", "error"),
    [
        ([DONE], 200, "an answer without a single token"),
        ([("chat:message:error", {"error": {"content": "m broke off"}, "done": True})], 200, "m"),
        ([delta("x")], 200, "no complete answer within 0.3 s"),
        ([], 400, "HTTP 400"),
    ],
)
async def test_an_invalid_answer_is_an_error(
    events: list[tuple[str, Any]], status: int, error: str
) -> None:
    page, _ = open_page(lambda name: events, status)
    assert (await page.measure("p", 1)).error.startswith(error)


async def test_accounts_are_removed_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def ask(self: Person, method: str, path: str, **more: Any) -> Any:
        calls.append((method, more["json"]["role"]))

    def send(self: Person, method: str, path: str, **more: Any) -> httpx.Response:
        calls.append((method, path))
        return httpx.Response(200)

    made = iter(range(10))

    def sign_in(door: Endpoint, email: str, password: str) -> Person:
        if (number := next(made)) == 2:
            raise ClientError("no")
        return replace(ANN, id=f"person-{number}")

    monkeypatch.setattr(Person, "request", ask)
    monkeypatch.setattr(Person, "send", send)
    monkeypatch.setattr(module, "sign_in", sign_in)
    monkeypatch.setattr(module, "live_connection", contextlib.nullcontext)
    async with open_pages(ANN, 2, "fast") as pages:
        assert calls == [("POST", "user")] * 2
        assert [page.connection.id for page in pages] == ["person-0", "person-1"]
        # Each page keeps its connection and authenticates itself.
        for page in pages:
            assert page.client.headers["authorization"] == "Bearer token-of-ann"
            assert page.client.headers["host"] == "chat.lan"
    gone = [("DELETE", "/api/v1/users/person-1"), ("DELETE", "/api/v1/users/person-0")]
    assert calls[2:] == gone
    with pytest.raises(ClientError, match="no account could be created"):
        async with open_pages(ANN, 1, "fast"):
            pytest.fail("a client was used")
