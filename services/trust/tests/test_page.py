"""The page offers the certificate without scripts, opens the right guide, loads nothing else."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import httpx
import pytest
import segno

from hearth_trust.app import CERTIFICATE, make_app
from hearth_trust.config import Config
from hearth_trust.document import DEVICES, content_security_policy

BROWSERS = {
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like"
    " Gecko) Version/18.5 Mobile/15E148 Safari/604.1": {"ios"},
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0"
    " Mobile Safari/537.36": {"android"},
    "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0": {"android", "firefox"},
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0": {"windows"},
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
    " Version/18.5 Safari/605.1.15": {"macos"},
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": {"linux", "firefox"},
    "curl/8.14.1": set(),
}


class Elements(HTMLParser):
    """Every element of a document with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize(("browser", "wanted"), BROWSERS.items())
async def test_guides_for_the_requesting_device_are_open_and_first(
    page: httpx.AsyncClient, browser: str, wanted: set[str]
) -> None:
    text = (await page.get("/", headers={"User-Agent": browser})).text
    shown = [attributes for tag, attributes in Elements(text).found if tag == "details"]
    assert {attributes["id"] for attributes in shown} == {device.key for device in DEVICES}
    opened = [str(attributes["id"]) for attributes in shown if "open" in attributes]
    assert set(opened) == wanted
    assert [attributes["id"] for attributes in shown[: len(opened)]] == opened


async def test_page_links_to_the_certificate(page: httpx.AsyncClient, config: Config) -> None:
    text = (await page.get("/")).text
    links = [attributes.get("href") for tag, attributes in Elements(text).found if tag == "a"]
    assert CERTIFICATE in links
    assert config.fingerprint in text.replace("<wbr>", "")
    answer = await page.get(CERTIFICATE)
    assert answer.headers["content-type"] == "application/x-x509-ca-cert"
    assert answer.text == config.root_pem


async def test_page_loads_its_own_files_only_and_has_no_inline_code(
    page: httpx.AsyncClient,
) -> None:
    answer = await page.get("/", headers={"User-Agent": next(iter(BROWSERS))})
    for tag, attributes in Elements(answer.text).found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (
            attributes
        )
        for name in ("src", "href"):
            to = attributes.get(name) or "/"
            assert to.startswith("/") or re.fullmatch(r"https://[a-z-]+\.lan/", to), (tag, to)
        if tag in ("script", "link", "img"):
            assert (
                await page.get(str(attributes.get("src") or attributes.get("href")))
            ).status_code == 200
    policy = content_security_policy("trust.lan")
    assert answer.headers["content-security-policy"] == policy
    assert "unsafe" not in policy
    assert set(re.findall(r"\w+://[\w.]+", policy)) == {
        "http://trust.lan", "https://trust.lan", "wss://trust.lan",
    }  # fmt: skip


async def test_page_knows_whether_it_was_requested_over_https(page: httpx.AsyncClient) -> None:
    for scheme, secure in (("http", "no"), ("https", "yes")):
        text = (await page.get("/", headers={"X-Forwarded-Proto": scheme})).text
        (main,) = [attributes for tag, attributes in Elements(text).found if tag == "main"]
        assert main["data-secure"] == secure


async def test_other_paths_do_not_exist(page: httpx.AsyncClient) -> None:
    for path in ("/v1/models", "/page/index.html", "/page/../app.py", "/page/nothing.css", "/echo"):
        assert (await page.get(path)).status_code == 404, path
    assert (await page.post("/", content=b"x")).status_code == 405


async def test_a_new_address_is_shown_with_what_to_change(
    page: httpx.AsyncClient, config: Config
) -> None:
    # The page's interface has the address of the last run.
    assert 'id="moved"' not in (await page.get("/")).text
    before = replace(config, address="192.168.1.10")
    transport = httpx.ASGITransport(app=make_app(before))
    async with httpx.AsyncClient(transport=transport, base_url="http://trust.lan") as later:
        text = (await later.get("/")).text
    (note,) = re.findall(r'<section class="card" id="moved".*?</section>', text, re.DOTALL)
    assert "192.168.1.10" in note
    assert "<strong>127.0.0.1</strong>" in note
    assert "$" not in note


async def test_qr_code_has_the_address_that_people_can_type(
    page: httpx.AsyncClient,
) -> None:
    answer = await page.get("/qr.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    # Browsers show a separate SVG file only if it has the namespace.
    drawn = ElementTree.fromstring(answer.content)  # noqa: S314 - our own
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    expected = segno.make("http://127.0.0.1/", error="m", micro=False)
    size = expected.symbol_size(border=4)[0]
    assert drawn.get("viewBox") == f"0 0 {size} {size}"
    (line,) = drawn.findall("*[@class='qrline']")
    assert str(line.get("d")) in expected.svg_inline(border=4)
    assert "http://127.0.0.1/" in (await page.get("/")).text
