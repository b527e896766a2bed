"""The page as the server sends it: its policy, its files and its version."""

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

import hearth_whisper
from hearth_serving.page import page_files, page_routes

FOLDER = Path(hearth_whisper.__file__).parent / "page"
VALUES = {"key_wanted": "no", "upload_bytes": 1234}
# Loaded with the microphone.
NOT_PRELOADED = {"worklet.mjs"}
IMPORT = re.compile(r"""^\s*(?:import|export)\b.*?from "\./([^"]+)";""", re.MULTILINE)
# Tests and page modules use these elements.
CONTROLS = {"language", "silence", "prompt", "format", "key"}
USED_IDS = {
    *("talk", "stop", "partial", "finals", "latency", "median", "upload", "file", "progress"),
    *("transcript", "export", "copy", "clear", "status", "meter"),
}
STATES = {"idle", "asking", "listening", "uploading", "done", "failed"}


class Document(HTMLParser):
    """Collects the elements of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.files: list[str] = []
        self.attributes: set[str] = set()
        self.options: list[str] = []
        self.inline = 0
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
        self.files += [str(given[name]) for name in ("src", "href") if name in given]
        self.inline += (tag == "script" and "src" not in given) or tag == "style"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server without a key."""
    app = Starlette(routes=list(page_routes(FOLDER, VALUES, NOT_PRELOADED)))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://page"
    ) as visitor:
        yield visitor


async def document(client: httpx.AsyncClient) -> Document:
    response = await client.get("/")
    assert response.status_code == 200
    return Document(response.text)


async def test_the_page_has_no_inline_code_and_no_remote_resource(
    client: httpx.AsyncClient,
) -> None:
    made = await document(client)
    assert made.inline == 0
    assert not [name for name in made.attributes if name == "style" or name.startswith("on")]
    assert made.files
    assert all(file.startswith("/page/") for file in made.files)
    for name, content in page_files(FOLDER).items():
        # The SVG namespace is a name, not an address.
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://\w|@import|url\(", text), name


async def test_the_csp_allows_only_the_own_server(
    client: httpx.AsyncClient,
) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == rules["script-src"] == "'self'"
    # The duration of a film is read from a blob: address.
    assert "blob:" in rules["media-src"]


async def test_every_file_is_served_and_the_worklet_is_not_preloaded(
    client: httpx.AsyncClient,
) -> None:
    made = await document(client)
    for file in made.files:
        assert (await client.get(file)).status_code == 200, file
    named = {file.rpartition("/")[2] for file in made.files}
    assert {name for name in page_files(FOLDER) if name.endswith(".mjs")} - named == NOT_PRELOADED
    version = made.files[0].rpartition("/")[0]
    for name in NOT_PRELOADED:
        assert (await client.get(f"{version}/{name}")).status_code == 200, name
    assert (await client.get(f"{version}/index.html")).status_code == 404


def test_every_import_of_a_module_exists() -> None:
    files = {name: content.decode() for name, content in page_files(FOLDER).items()}
    scripts = {name: text for name, text in files.items() if name.endswith(".mjs")}
    wanted = {name for text in scripts.values() for name in IMPORT.findall(text)}
    assert wanted
    assert wanted <= set(scripts)
    # No module is unused.
    assert set(scripts) - wanted == {"main.mjs", "worklet.mjs"}


async def test_the_page_has_all_elements_and_each_control_has_a_label(
    client: httpx.AsyncClient,
) -> None:
    made = await document(client)
    assert len(made.ids) == len(set(made.ids))
    assert set(made.ids) >= USED_IDS | CONTROLS
    assert made.labelled == CONTROLS
    assert {"srt", "vtt", "txt"} <= set(made.options)


async def test_every_state_in_the_styles_exists(client: httpx.AsyncClient) -> None:
    text = "".join(file.read_text() for file in FOLDER.glob("*.mjs"))
    named = set(re.findall(r'setState\("(\w+)"', text))
    initial = set(re.findall(r'data-state="(\w+)"', (await client.get("/")).text))
    assert named | initial == STATES


async def test_the_page_contains_the_values_of_its_server(client: httpx.AsyncClient) -> None:
    text = (await client.get("/")).text
    assert 'data-key-wanted="no"' in text
    assert 'data-upload-bytes="1234"' in text
