"""The page says how the house is, in words, whatever the watcher wrote; nothing runs inline."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from hearth_health.app import make_app
from hearth_health.config import CanaryConfig, Config, Target
from hearth_health.figures import Numbers
from hearth_health.rendering import Renderer
from hearth_health.snapshot import Snapshot, boot_s
from hearth_health.view import build_view

from .conftest import Write
from .sample import NOW

MARK = '<img src=x onerror="alert(1)">&"\''


class Document(HTMLParser):
    """Every element of a document with its attributes, and the text of each section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def states(self, start: str) -> dict[str, str | None]:
        """The state of each element whose id starts so."""
        return {
            str(one["id"]).removeprefix(start): one.get("data-state")
            for _, one in self.found
            if str(one.get("id", "")).startswith(start)
        }


async def shown(page: httpx.AsyncClient) -> str:
    answer = await page.get("/")
    assert answer.status_code == 200
    return answer.text


def headline(text: str) -> str:
    found = re.search(r'id="headline">([^<]*)<', text)
    assert found
    return found[1]


async def test_a_healthy_house_says_so(page: httpx.AsyncClient, write: Write) -> None:
    write()
    text = await shown(page)
    assert headline(text) == "Everything works"
    assert set(Document(text).states("tile-").values()) == {"up"}
    assert "Needs attention" not in text
    assert text.count("Ready") == 4


async def test_a_service_that_hangs_is_red_everywhere(
    page: httpx.AsyncClient, write: Write
) -> None:
    write(broken=True)
    text = await shown(page)
    assert headline(text) == "Not working: kokoro"
    tiles, rows = Document(text).states("tile-"), Document(text).states("row-")
    assert [name for name, state in tiles.items() if state == "down"] == ["kokoro-web.lan"]
    # What does not work is first.
    assert next(iter(rows.items())) == ("kokoro", "down")
    assert "HEARTH-SERVICE-HUNG" in text
    assert text.count('value="fix"') == 1
    assert text.count('value="ignore"') == 3
    assert "<code>sudo scripts/hearth backup</code>" in text


async def test_a_row_says_when_its_service_last_really_worked(
    page: httpx.AsyncClient, write: Write
) -> None:
    rows = [
        {"name": "kokoro", "up": True, "text": "up", "worked": {"verb": "spoke", "at": NOW - 180}},
        {"name": "whisper", "up": True, "text": "up", "worked": None},
        {"name": "ollama", "up": True, "text": "up", "worked": {"verb": "x", "at": "soon"}},
    ]
    write(rows=rows)
    text = await shown(page)
    assert re.findall(r'works<br><span class="small">(\w+) <time datetime="([^"]+)"', text) == [
        ("spoke", "2026-11-23T14:38:51+00:00")
    ]


async def test_an_alias_says_what_answers_it_while_its_first_server_is_down(
    page: httpx.AsyncClient, write: Write
) -> None:
    why = "instead of qwen: ollama does not work"
    aliases = {
        "fast": {"state": "instead", "answered_by": "claude", "text": why},
        "local": {"state": "down", "answered_by": None, "text": "no answer: qwen: ollama …"},
    }
    write(aliases=aliases, models={"claude": {"state": "cloud"}})
    text = await shown(page)
    assert Document(text).states("alias-") == {"fast": "waiting", "local": "down"}
    assert f'claude <span class="kind">cloud</span><br><span class="small">{why}' in text


async def test_the_first_certificate_of_a_site_that_ends_is_shown(
    page: httpx.AsyncClient, write: Write
) -> None:
    write()
    text = await shown(page)
    assert "<dt>Certificates of 7 sites</dt>" in text
    assert re.search(r"the first expires <time [^>]+>[^<]+</time> \(chat.lan\)", text)


async def test_during_a_run_a_restart_is_no_alarm(page: httpx.AsyncClient, write: Write) -> None:
    write(broken=True, run={"what": "hearth up", "since": 1795444000})
    text = await shown(page)
    assert headline(text) == "Being changed; not working at the moment: kokoro"
    assert Document(text).states("verdict") == {"": "warning"}
    assert "<code>hearth up</code>" in text


async def test_without_the_watcher_nothing_is_known_and_every_tile_is_there(
    page: httpx.AsyncClient, write: Write
) -> None:
    write(made_boot_s=boot_s() - 60)
    for _ in range(2):
        text = await shown(page)
        assert headline(text) == "The state of the house is unknown"
        assert "the watcher does not run" in text
        states = Document(text).states("tile-")
        assert len(states) == 4
        assert set(states.values()) == {"unknown"}
        assert "Ready" not in text
        write().clear()
        write(rows="x")
        (await page.get("/")).raise_for_status()
        write(made_boot_s=boot_s() - 60)


async def test_without_a_snapshot_the_page_is_there(page: httpx.AsyncClient) -> None:
    text = await shown(page)
    assert "it has written nothing" in text
    assert set(Document(text).states("tile-").values()) == {"unknown"}


@pytest.mark.parametrize(
    "field",
    ["run", "rows", "sites", "models", "aliases", "loaded", "findings", "machine", "backup",
     "receipt", "last_run", "errors", "made", "hearth"],
)  # fmt: skip
@pytest.mark.parametrize("value", [None, 7, "x", [7], {"a": 7}, [{"name": [1]}], {"a": {"b": {}}}])
async def test_a_field_of_another_shape_leaves_the_rest(
    page: httpx.AsyncClient, write: Write, field: str, value: Any
) -> None:
    write(**{field: value})
    text = await shown(page)
    assert headline(text)
    assert len(Document(text).states("tile-")) == 4


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"waiting": 0, "lists_made": NOW - 3600}, "none waiting"),
        ({"waiting": 2, "lists_made": NOW - 3600}, "2 waiting: sudo apt upgrade"),
        (
            {"waiting": 0, "lists_made": NOW - 12 * 86_400},
            "none known; the package lists are 12 days old (sudo apt update)",
        ),
        (
            {"waiting": 2, "lists_made": NOW - 12 * 86_400},
            "2 waiting: sudo apt upgrade; the package lists are 12 days old (sudo apt update)",
        ),
        ({"waiting": 0, "lists_made": 0}, "unknown: there are no package lists yet"),
        (None, "unknown"),
    ],
)
async def test_old_package_lists_say_nothing_about_updates(
    page: httpx.AsyncClient, write: Write, found: Any, text: str
) -> None:
    write(made=NOW, machine={"updates": found})
    assert f"<dt>Security updates</dt><dd>{text}" in await shown(page)


SPEECH = Target("speech", "kokoro", "http://x")
HEARING = Target("transcription", "whisper", "http://x")
MODELS = Target("models", "ollama", "http://x", card=True)


@pytest.mark.parametrize(
    ("places", "limit"),
    [
        ({"kokoro": "cpu", "whisper": "cpu", "ollama": "no gpu, the processor"}, 1500),
        ({"kokoro": "cuda", "whisper": "cuda", "ollama": "gpu proven, 0: RTX, by CUDA"}, 1100),
        # Speech is there on the processor as well.
        ({"kokoro": "cpu", "kokoro_gpu": "cuda (RTX)", "ollama": "gpu proven, 0: RTX"}, 1100),
        ({"kokoro": "cuda", "whisper": "cpu", "ollama": "gpu proven, 0: RTX"}, 1500),
        ({"ollama": "software, 0: llvmpipe, a software device, no GPU"}, 1500),
        # Nobody knows yet.
        ({}, 1100),
    ],
)
async def test_a_turn_on_the_processor_has_more_time(
    config: Config, write: Write, places: dict[str, str], limit: int
) -> None:
    targets = (SPEECH, replace(SPEECH, name="kokoro_gpu"), HEARING, MODELS)
    canary = CanaryConfig(config.snapshot.with_name("canary.json"), targets=targets)
    write(rows=[{"name": name, "up": True, "accelerator": on} for name, on in places.items()])
    transport = httpx.ASGITransport(app=make_app(replace(config, canary=canary)))
    async with httpx.AsyncClient(transport=transport, base_url="https://home.lan") as client:
        text = await shown(client)
    assert f"the limit {limit} ms" in text
    assert ("since a step computes on the processor" in text) == (limit == 1500)


def test_the_sum_of_the_steps_says_that_it_is_one(config: Config) -> None:
    values = {(name, "hour", "median"): 400.0 for name in ("stt", "ttft", "ttfa")}
    numbers = Numbers(values=values, read=True)
    text = Renderer("/f").sections(build_view(config, Snapshot(), numbers))["turn"]
    assert "the medians of the measured steps add up to <strong>1200 ms</strong>" in text
    assert "no turn is timed as a whole" in text


def planted(value: Any) -> Any:
    """Return plain data with markup in every text and every name."""
    if isinstance(value, str):
        return value + MARK
    if isinstance(value, list):
        return [planted(one) for one in value]
    if isinstance(value, dict):
        return {key: planted(one) for key, one in value.items()}
    return value


async def test_markup_in_any_text_is_shown_as_text(page: httpx.AsyncClient, write: Write) -> None:
    made = write(broken=True)
    before = Document(await shown(page)).found
    for field in made:
        write(broken=True, **{field: planted(made[field])})
        found = Document(await shown(page)).found
        assert {tag for tag, _ in found} == {tag for tag, _ in before}, field
        assert not [one for tag, one in found if tag == "img" and one.get("src") == "x"]
        assert not [name for _, one in found for name in one if name.startswith("on")]


async def test_nothing_is_inline_or_from_elsewhere(page: httpx.AsyncClient, write: Write) -> None:
    write(broken=True)
    answer = await page.get("/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "//" not in policy
    for tag, attributes in Document(answer.text).found:
        assert "style" not in attributes
        assert tag != "style"
        if tag == "script":
            assert attributes["src"]
        for name in ("src", "href"):
            to = attributes.get(name) or "/"
            assert to.startswith(("/", "#")) or re.fullmatch(r"https://[a-z-]+\.lan/", to), to
        if tag in ("script", "link", "img"):
            address = str(attributes.get("src") or attributes.get("href"))
            assert (await page.get(address)).status_code == 200, address


async def test_charts_say_why_there_are_none(page: httpx.AsyncClient) -> None:
    answer = await page.get("/figures.json", params={"span": "day"})
    assert answer.json() == {"problem": "this house has no Prometheus"}
    assert (await page.get("/figures.json", params={"span": "year"})).status_code == 400


async def test_up_says_up_or_not_and_nothing_else(page: httpx.AsyncClient, write: Write) -> None:
    answers = []
    for prepare in (
        lambda: None,
        lambda: write(),
        lambda: write(broken=True),
        lambda: write(made_boot_s=boot_s() - 60),
        lambda: write(rows=[]),
    ):
        prepare()
        answer = await page.get("/up")
        answers.append((answer.status_code, answer.text))
    down = (503, "not up\n")
    assert answers == [down, (200, "up\n"), down, down, down]


async def test_a_page_of_a_finding_explains_it_after_it_is_gone(
    config: Config, write: Write
) -> None:
    kind = {"severity": "error", "title": "A thing", "means": "It is `so`.", "todo": "Do.",
            "fixable": True}  # fmt: skip
    config.findings["HEARTH-A-THING"] = kind  # type: ignore[index]
    transport = httpx.ASGITransport(app=make_app(config))
    async with httpx.AsyncClient(transport=transport, base_url="https://home.lan") as page:
        write(broken=True)
        text = (await page.get("/findings/HEARTH-A-THING")).text
        assert "It is <code>so</code>." in text
        assert "does not have this finding at the moment" in text
        now = (await page.get("/findings/HEARTH-SERVICE-HUNG")).text
        assert "63 times in a row" in now
        nothing = await page.get("/findings/<script>")
        assert nothing.status_code == 404
        assert "<script>" not in nothing.text


async def test_the_receipt_keeps_its_old_addresses(page: httpx.AsyncClient, config: Config) -> None:
    missing = await page.get("/receipt/")
    assert missing.status_code == 404
    assert "hearth verify" in missing.text
    config.receipt.mkdir()
    (config.receipt / "index.html").write_text("<html><style>a{b:c}</style>receipt</html>")
    (config.receipt / "receipt.json").write_text('{"good": true}')
    (config.receipt / "secret.key").write_text("secret")
    receipt = await page.get("/receipt", follow_redirects=True)
    assert "receipt</html>" in receipt.text
    policy = receipt.headers["content-security-policy"]
    # The digest of `a{b:c}`, by `openssl dgst -sha256 -binary | base64`.
    assert "style-src 'sha256-0cRUVYRKwNwnl1hkfkPGjkht16b039TjFdJzmXfFK2o='" in policy, policy
    assert (await page.get("/receipt.json", follow_redirects=True)).json() == {"good": True}
    for path in ("secret.key", "..%2fhealth.json", "%2e%2e/health.json", "nothing.html"):
        assert (await page.get(f"/receipt/{path}")).status_code == 404, path


def test_the_library_is_the_published_one() -> None:
    from hashlib import sha256
    from pathlib import Path

    import hearth_health

    folder = Path(hearth_health.__file__).parent / "page"
    # Of dist/uPlot.iife.min.js and dist/uPlot.min.css in npm's uplot 1.6.32.
    assert {
        name: sha256((folder / name).read_bytes()).hexdigest() for name in ("uplot.js", "uplot.css")
    } == {
        "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }


@pytest.mark.parametrize("there", [True, False])
async def test_approvals_are_linked_where_the_house_has_them(
    config: Config, write: Write, there: bool
) -> None:
    write()
    transport = httpx.ASGITransport(app=make_app(replace(config, approvals=there)))
    async with httpx.AsyncClient(transport=transport, base_url="https://home.lan") as client:
        assert ('href="/approvals/"' in await shown(client)) is there
