"""The page: public, with a strict policy, complete, and of one version."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import httpx
import pytest
from starlette.applications import Starlette

from hearth_kokoro.web import app
from hearth_kokoro.web.app import PAGE, make_app
from hearth_kokoro.web.limits import Limits
from hearth_kokoro.web.requests import Format
from hearth_kokoro.web.state import ServerState
from hearth_serving.page import page_files

from .conftest import RunningServer, StartServer

IMPORT = re.compile(r"""^\s*(?:import|export)\b.*?from "\./([^"]+)";""", re.MULTILINE)
CONTROLS = {"text", "voice", "blend", "weight", "speed", "format", "sample", "key"}
REACHED_FOR = CONTROLS | {"speak", "stop", "download", "permalink", "ttfa", "stalls", "speaking"}


class Document(HTMLParser):
    """The parts of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.files: list[str] = []
        self.attributes: set[str] = set()
        self.options: list[str] = []
        self.written_scripts = self.written_styles = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes |= set(given)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "label":
            self.labelled.add(str(given["for"]))
        if tag == "option":
            self.options.append(str(given["value"]))
        if "aria-label" in given and given.get("id"):
            self.labelled.add(str(given["id"]))
        self.files += [str(given[name]) for name in ("src", "href") if name in given]
        self.written_scripts += tag == "script" and "src" not in given
        self.written_styles += tag == "style"


async def document(server: RunningServer) -> Document:
    answer = await server.client.get("/")
    assert answer.status_code == 200
    return Document(answer.text)


def files_of(made: Document) -> list[str]:
    return [file for file in made.files if not file.startswith("#")]


async def test_the_document_has_a_strict_policy(server: RunningServer) -> None:
    answer = await server.client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    rules = dict(
        rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";")
    )
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "media-src": "'self' blob:",
        "img-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_the_document_has_no_inline_code_and_loads_nothing_foreign(
    server: RunningServer,
) -> None:
    made = await document(server)
    assert (made.written_scripts, made.written_styles) == (0, 0)
    assert not [name for name in made.attributes if name == "style" or name.startswith("on")]
    assert files_of(made)
    assert all(file.startswith("/page/") for file in files_of(made))
    for name, content in page_files(PAGE).items():
        # The namespace of SVG is a name, and nothing is fetched from there.
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text), name


async def test_every_file_is_served_with_its_type_and_may_be_cached(server: RunningServer) -> None:
    made = await document(server)
    names = set()
    for file in files_of(made):
        answer = await server.client.get(file)
        assert answer.status_code == 200, file
        assert "immutable" in answer.headers["cache-control"]
        # Behind a login a response is for one browser only.
        assert "private" in answer.headers["cache-control"]
        kind = {"mjs": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
        name = file.rpartition("/")[2]
        assert answer.headers["content-type"].split(";")[0] == kind[name.rpartition(".")[2]]
        assert answer.headers["x-content-type-options"] == "nosniff"
        names.add(name)
    scripts = {name for name in page_files(PAGE) if name.endswith(".mjs")}
    # What the worklet needs is requested with it.
    assert scripts - names == {"worklet.mjs", "sample_queue.mjs"}


def test_every_imported_module_exists() -> None:
    files = {name: content.decode() for name, content in page_files(PAGE).items()}
    scripts = {name: text for name, text in files.items() if name.endswith(".mjs")}
    wanted = {name for text in scripts.values() for name in IMPORT.findall(text)}
    assert wanted
    assert wanted <= set(scripts)
    # Every module is used.
    assert set(scripts) - wanted == {"main.mjs", "worklet.mjs"}


async def test_the_page_has_the_ids_that_tests_use_and_each_control_has_a_name(
    server: RunningServer,
) -> None:
    made = await document(server)
    assert len(made.ids) == len(set(made.ids))
    assert REACHED_FOR | {"status"} <= set(made.ids)
    assert made.labelled >= CONTROLS


async def test_the_page_offers_the_servers_formats(server: RunningServer) -> None:
    options = [option for option in (await document(server)).options if option not in ("", "early")]
    assert options == list(get_args(Format))
    links = re.search(r"FORMATS = (\[.*\]);", (PAGE / "link.mjs").read_text())
    assert links
    assert json.loads(links[1]) == list(get_args(Format))


async def test_the_document_is_revalidated_each_time_and_sent_once(server: RunningServer) -> None:
    first = await server.client.get("/")
    assert first.headers["cache-control"] == "no-cache"
    again = await server.client.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    other = await server.client.get("/", headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.text) == (200, first.text)
    assert (await server.client.head("/")).status_code == 200


async def test_after_an_upgrade_no_old_url_returns_a_new_file(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = files_of(await document(server))
    for file in PAGE.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with (tmp_path / "style.css").open("a") as style:
        style.write("\n")
    monkeypatch.setattr(app, "PAGE", tmp_path)
    async with client_of(ServerState(Limits())) as upgraded:
        new = files_of(Document((await upgraded.get("/")).text))
        assert not set(old) & set(new)
        for gone in old:
            answer = await upgraded.get(gone)
            assert answer.status_code == 404
            assert answer.headers["cache-control"] == "no-store"
        for there in new:
            assert (await upgraded.get(there)).status_code == 200


async def test_only_the_pages_own_files_are_served(server: RunningServer) -> None:
    version = files_of(await document(server))[0].rpartition("/")[0]
    for name in ("index.html", "nothing.mjs", "..%2fweb%2fpage.py", "../web/page.py", ""):
        answer = await server.client.get(f"{version}/{name}")
        assert answer.status_code == 404, name
    assert (await server.client.post("/")).status_code == 405


async def test_with_a_key_the_page_is_public_and_the_api_is_not(
    start_server: StartServer,
) -> None:
    async with start_server(key="right") as server:
        made = await server.client.get("/")
        assert made.status_code == 200
        assert 'data-key-wanted="yes"' in made.text
        for file in files_of(Document(made.text)):
            assert (await server.client.get(file)).status_code == 200
        for path in ("/v1/audio/voices", "/status", "/pages"):
            assert (await server.client.get(path)).status_code == 401, path
        assert (await server.say()).status_code == 401


async def test_the_page_contains_the_text_limit_and_whether_a_key_is_needed(
    start_server: StartServer,
) -> None:
    async with start_server(text_characters=123) as server:
        text = (await server.client.get("/")).text
        assert 'data-text-limit="123"' in text
        assert 'data-key-wanted="no"' in text


async def test_the_page_is_served_while_the_model_loads(start_server: StartServer) -> None:
    warm = asyncio.Event()
    async with start_server(load=warm.wait) as server:
        assert (await server.client.get("/")).status_code == 200
        voices = await server.client.get("/v1/audio/voices")
        assert (voices.status_code, voices.headers["retry-after"]) == (503, "2")
        warm.set()
        await server.until(lambda: server.state.loaded is not None)


async def test_a_page_of_the_same_server_may_use_it(server: RunningServer) -> None:
    for origin, status in ((server.url, 200), ("https://elsewhere.example", 403), ("null", 403)):
        answer = await server.client.post(
            "/v1/audio/speech",
            json={"input": "One two.", "response_format": "pcm", "stream_format": "sse"},
            headers={"Origin": origin},
        )
        assert answer.status_code == status, origin


async def test_the_page_gets_the_unsupported_languages(server: RunningServer) -> None:
    assert server.state.loaded
    voices = (await server.client.get("/v1/audio/voices")).json()
    assert voices["unsupported_languages"] == {}
    object.__setattr__(
        server.state.loaded, "languages", {"es": "espeak", "zh": "misaki", "ja": "not yet"}
    )
    voices = (await server.client.get("/v1/audio/voices")).json()
    assert voices["unsupported_languages"] == {"ja": "not yet"}


def client_of(state: ServerState) -> httpx.AsyncClient:
    async def never() -> AsyncIterator[None]:
        raise AssertionError

    app: Starlette = make_app(state, never, lambda _: None)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page")
