"""Buttons are pressed by people who signed in, on this page, and reach the watcher unchanged."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hearth_health.config import Config
from hearth_health.verbs import VerbError, ask

PERSON = {"X-Hearth-Consumer": "", "Origin": "https://home.lan", "Sec-Fetch-Site": "same-origin"}
JSON = {"Accept": "application/json"}
FIX = {"verb": "fix", "key": "HEARTH-SERVICE-HUNG:kokoro"}


class Watcher:
    """The watcher's side of the socket: what it was asked, and what it answers."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer = b'{"ok": true, "text": "restarted kokoro"}\n'

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(json.loads(await reader.readline()))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@pytest.fixture
async def watcher(config: Config) -> AsyncIterator[Watcher]:
    found = Watcher()
    server = await asyncio.start_unix_server(found.serve, str(config.verbs))
    yield found
    server.close()
    await server.wait_closed()


async def press(page: httpx.AsyncClient, form: Any = FIX, headers: Any = PERSON) -> tuple[int, str]:
    answer = await page.post("/do", data=form, headers={**headers, **JSON})
    return answer.status_code, answer.json()["text"]


async def test_a_persons_button_reaches_the_watcher(
    page: httpx.AsyncClient, watcher: Watcher
) -> None:
    assert await press(page) == (200, "restarted kokoro")
    unload = {"verb": "unload", "model": "qwen3.5:4b", "extra": "x"}
    assert (await press(page, unload))[0] == 200
    assert watcher.asked == [FIX, {"verb": "unload", "model": "qwen3.5:4b"}]


async def test_without_scripts_the_answer_is_a_page(
    page: httpx.AsyncClient, watcher: Watcher
) -> None:
    watcher.answer = b'{"ok": true, "text": "<b>done</b>"}\n'
    answer = await page.post("/do", data=FIX, headers=PERSON)
    assert "&lt;b&gt;done&lt;/b&gt;" in answer.text
    assert 'href="/"' in answer.text


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        # A program's key, which the login lets pass to read the page.
        ({"X-Hearth-Consumer": "household"}, "not for keys of programs"),
        # Past the reverse proxy.
        ({"X-Hearth-Consumer": None}, "not for keys of programs"),
        ({"Origin": "https://evil.example"}, "another page sent this"),
        ({"Origin": "https://chat.lan", "Sec-Fetch-Site": "same-site"}, "another page sent this"),
        ({"Origin": None, "Sec-Fetch-Site": "cross-site"}, "another page sent this"),
        ({"Origin": "null"}, "another page sent this"),
        ({"Origin": None, "Sec-Fetch-Site": None}, "does not say which page"),
    ],
)
async def test_nobody_else_presses_one(
    page: httpx.AsyncClient, watcher: Watcher, headers: dict[str, str | None], words: str
) -> None:
    merged = {name: value for name, value in {**PERSON, **headers}.items() if value is not None}
    status, text = await press(page, headers=merged)
    assert status == 403
    assert words in text
    assert watcher.asked == []


async def test_two_consumers_are_not_a_person(page: httpx.AsyncClient, watcher: Watcher) -> None:
    headers = [*PERSON.items(), ("X-Hearth-Consumer", "household")]
    answer = await page.post("/do", data=FIX, headers=headers)
    assert answer.status_code == 403
    assert watcher.asked == []


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"verb": "run", "key": "rm -rf /"},
        {"verb": "fix"},
        {"verb": "fix", "model": "x"},
        {"verb": "fix", "key": "x" * 401},
        {"verb": "fix", "key": "x" * 100_000},
        {"verb": "unload", "key": "x"},
    ],
)
async def test_an_unknown_button_reaches_no_watcher(
    page: httpx.AsyncClient, watcher: Watcher, form: dict[str, str]
) -> None:
    status, text = await press(page, form)
    assert status == 409
    assert "unknown" in text
    assert watcher.asked == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'{"ok": false, "text": "it no longer exists"}\n', "it no longer exists"),
        (b"", "no valid answer"),
        (b"[]\n", "no valid answer"),
        (b'{"ok": true}\n', "no valid answer"),
        (b"x" * 200_000 + b"\n", "no valid answer"),
    ],
)
async def test_what_the_watcher_refuses_is_said(
    page: httpx.AsyncClient, watcher: Watcher, answer: bytes, words: str
) -> None:
    watcher.answer = answer
    status, text = await press(page)
    assert status == 409
    assert words in text


async def test_without_the_watcher_it_says_so(page: httpx.AsyncClient) -> None:
    status, text = await press(page)
    assert status == 409
    assert "the watcher does not answer" in text


async def test_a_watcher_that_hangs_is_not_waited_for_for_ever(config: Config) -> None:
    ended = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_unix_server(hang, str(config.verbs))
    with pytest.raises(VerbError, match="may still be working"):
        await ask(config.verbs, "fix", "x", within_s=0.05)
    await ended.wait()
    server.close()
