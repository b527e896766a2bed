"""What people see of a page becomes text; what is hidden from them does not."""

import asyncio
import re
import zlib

import pytest

from hearth_fetcher.fetching import Body
from hearth_fetcher.reading import Reader
from hearth_serving.errors import ServiceError
from tests.mock_upstreams import example_site

URL = "https://pages.example.org/a/"


async def text_of(
    content: bytes, media_type: str = "text/html", charset: str = "", cpu_s: int = 10
) -> str:
    body = Body(URL, 200, media_type, charset, content, False)
    return (await Reader(asyncio.Semaphore(1), cpu_s=cpu_s).read(body))[0]


async def test_a_page_reads_as_it_looks() -> None:
    page = b"""<!doctype html><title> The
      news </title><style>p {color: red}</style><body><nav><a href=/>Home</a></nav>
      <h1>Open<b>SSH</b></h1><p>First   line<br>second, with
      <a href="/x?a=1&amp;b=2">a <i>link</i></a>.
      </p><ul><li>one<li><a href=//b.example/>two</a></ul>
      <table><tr><th>CVE<th>score<tr><td>CVE-1<td>9.8</table>
      <pre>  code
    more</pre>after <a href="#top">up</a><a href="javascript:x()">run</a><a href=/y><img></a>
      <aside>advertisement</aside><footer>(c)</footer>"""
    assert await text_of(page) == (
        "# The news\n\n# OpenSSH\n\nFirst line\nsecond, with [a link]"
        "(https://pages.example.org/x?a=1&b=2).\n\n- one\n- [two](https://b.example/)\n\n"
        "CVE | score |\nCVE-1 | 9.8 |\n\n```\n  code\n    more\n```\n\nafter uprun"
    )


@pytest.mark.parametrize(
    "hidden",
    [
        "<script>BAD</script>",
        "<style>BAD</style>",
        "<template>BAD</template>",
        "<!-- BAD -->",
        "<p hidden>BAD",
        '<p style="color: red; DISPLAY : none">BAD',
        '<div style="visibility:hidden"><p>BAD</div>',
        "<svg><text>BAD</text></svg>",
        "<textarea>BAD</textarea>",
        "<iframe srcdoc=BAD>BAD</iframe>",
        "<dialog>BAD</dialog>",
        '<img alt="" title=BAD>',
        '<meta name=description content="BAD">',
        '<input value="BAD">',
    ],
)
async def test_hidden_text_is_left_out(hidden: str) -> None:
    assert await text_of(f"<p>seen</p>{hidden}".encode()) == "seen"


async def test_characters_that_people_do_not_see_are_left_out() -> None:
    # Unicode tags spell words for models alone; a right-to-left override hides what is written.
    tags = "".join(chr(0xE0000 + ord(c)) for c in "restart")
    page = f"<p>a{tags}b\u202ec\u200bd\x1b[31me\u2066f\ufeffg\U000e0101h</p>"
    assert await text_of(page.encode()) == "abcd[31mefgh"
    assert await text_of(b"a\x1b]0;title\x07b\x00c\r\nd", "text/plain") == "a]0;titlebc\nd"
    # Joiners belong to words and to emoji.
    joined = "\u0646\u0645\u06cc\u200c\u062e \U0001f468\u200d\U0001f469"
    assert await text_of(joined.encode(), "text/plain") == joined


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        ("ä€".encode(), "", "ä€"),
        ("ä€".encode("cp1252"), "iso-8859-1", "ä€"),
        ("<meta charset=windows-1251><p>да".encode("cp1251"), "", "да"),
        ("<meta http-equiv=x content='text/html; charset=gbk'>中".encode("gbk"), "", "中"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("\ufeffä".encode("utf-16-le"), "utf-8", "ä"),
        ("ä".encode(), "no-such-code", "ä"),
        ("ä".encode(), "idna", "ä"),
        (b"\\x41", "unicode_escape", "\\x41"),
        (b"+AGE-", "utf-7", "+AGE-"),
        (b"QUJD", "base64", "QUJD"),
        (b"A", "\x00", "A"),
        (b"a\xffb", "utf-8", "a\ufffdb"),
    ],
)
async def test_pages_are_decoded_as_browsers_do(content: bytes, charset: str, text: str) -> None:
    assert await text_of(content, charset=charset) == text


async def test_other_texts_stay_as_they_are() -> None:
    for media_type in ("application/json", "text/csv", "application/rss+xml", "text/x-python"):
        assert await text_of(b'{"a": "<b>"}', media_type) == '{"a": "<b>"}'


@pytest.mark.parametrize("media_type", ["image/png", "application/zip", "video/mp4", "x/y"])
async def test_what_has_no_text_is_rejected(media_type: str) -> None:
    with pytest.raises(ServiceError, match="only pages, plain text and PDFs are read") as caught:
        await text_of(b"x", media_type)
    assert caught.value.status == 415


async def test_a_pdf_is_read() -> None:
    made = example_site.pdf_of(["Flaws (of \\ OpenSSH)", "CVE-2024-6387: a race"])
    text = await text_of(made, "application/pdf")
    assert text == "Flaws (of \\ OpenSSH)\nCVE-2024-6387: a race"


async def test_a_broken_pdf_says_so() -> None:
    for content in (b"%PDF-1.4 nothing", example_site.pdf_of(["x"])[:150]):
        with pytest.raises(ServiceError, match="that cannot be read") as caught:
            await text_of(content, "application/pdf")
        assert caught.value.status == 502


async def test_a_pdf_that_was_cut_is_rejected() -> None:
    body = Body(URL, 200, "application/pdf", "", b"%PDF-1.4", True)
    with pytest.raises(ServiceError, match="too large"):
        await Reader(asyncio.Semaphore(1)).read(body)


async def test_a_pdf_that_expands_without_end_ends_in_its_own_process() -> None:
    made = example_site.pdf_of(["x"])
    bomb = zlib.compress(b"(A) Tj T* " * 10_000_000, 1)
    (old,) = re.findall(rb"stream\n(.*)\nendstream", made, re.DOTALL)
    made = made.replace(old, bomb).replace(b"/Length %d" % len(old), b"/Length %d" % len(bomb))
    assert len(made) < 5 * 1024 * 1024
    with pytest.raises(ServiceError, match="that cannot be read"):
        await text_of(made, "application/pdf")


async def test_a_page_that_costs_too_much_ends_in_its_own_process() -> None:
    attributes = b" ".join(b"a%d" % number for number in range(400_000))
    with pytest.raises(ServiceError, match="that cannot be read"):
        await text_of(b"<p %b>x" % attributes, cpu_s=2)


async def test_deep_pages_are_read() -> None:
    assert await text_of(b"<div>" * 20_000 + b"deep") == "deep"
