"""The text of a page, made in a process of its own: what it parses was written by anyone.

`python3 -m hearth_fetcher.text` reads a line of JSON and then the page from standard input, and
writes a line of JSON.
"""

import codecs
import io
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

TEXT_BYTES = 64 * 1024
# A PDF that takes longer is cut, before the process is ended.
_PAGES_S = 6
_LINK_CHARS = 500
_PDF = "application/pdf"
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_PLAIN = re.compile(r"text/.*|application/(json|xml|javascript|yaml|toml)|.*\+(json|xml)")
# What people do not see: controls, directions of writing, tags and selectors outside emoji.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
_CODECS = re.compile(
    r"ascii|utf-8|utf-16(-[lb]e)?|iso8859-\d+|cp125\d|cp(874|866|932|949)|koi8-[rut]|gb2312|gbk"
    r"|gb18030|big5|euc_(jp|kr)|shift_jis|iso2022_jp|mac-roman"
)
_META = re.compile(rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.I)

_SKIPPED = frozenset(
    (
        *("script", "style", "template", "svg", "math", "canvas", "iframe", "object", "nav"),
        *("aside", "footer", "button", "select", "textarea", "dialog", "video", "audio"),
    )
)
# The line breaks around a block: one, or two around a paragraph.
_LINES = (
    *("address", "article", "center", "dd", "details", "div", "dt", "fieldset", "figcaption"),
    *("figure", "form", "header", "hr", "li", "main", "section", "summary", "tbody", "tfoot"),
    *("thead", "tr"),
)
_PARAGRAPHS = ("blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "table", "ul")
_GAPS = dict.fromkeys(_LINES, 1) | dict.fromkeys(_PARAGRAPHS, 2)
_STARTS = {f"h{level}": "#" * level + " " for level in range(1, 7)} | {"li": "- "}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


def readable(media_type: str) -> bool:
    """Return whether pages of this type have a text."""
    return media_type == _PDF or media_type in _HTML or bool(_PLAIN.fullmatch(media_type))


def text_of(content: bytes, media_type: str, charset: str, url: str) -> tuple[str, bool]:
    """Return a page's text, and whether it was cut."""
    if media_type == _PDF:
        return _whole(_pdf_parts(content))
    if media_type in _HTML:
        return _whole(_html_parts(_decoded(content, charset, html=True), url))
    return _whole(iter([_decoded(content[: 4 * TEXT_BYTES + 4], charset)]))


def _whole(parts: Iterator[str]) -> tuple[str, bool]:
    """Join the parts up to the limit; without what people do not see."""
    made, size = [], 0
    for part in parts:
        clean = _UNSEEN.sub("", part)
        made.append(clean)
        size += len(clean.encode("utf-8", "replace"))
        if size > TEXT_BYTES:
            break
    data = "".join(made).strip().encode("utf-8", "replace")
    return data[:TEXT_BYTES].decode("utf-8", "ignore"), len(data) > TEXT_BYTES


def _decoded(content: bytes, charset: str, *, html: bool = False) -> str:
    """Decode as browsers do: a byte order mark, the header, the page's own word, then UTF-8."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
                       (codecs.BOM_UTF16_BE, "utf-16-be")):  # fmt: skip
        if content.startswith(mark):
            return content[len(mark) :].decode(name, "replace")
    meta = _META.search(content[:4096]) if html and not charset else None
    name = charset or (meta[1].decode() if meta else "") or "utf-8"
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        known = "utf-8"
    # The web calls Windows' encoding Latin-1; Python's other codecs are not for pages.
    if known in ("ascii", "iso8859-1"):
        known = "cp1252"
    return content.decode(known if _CODECS.fullmatch(known) else "utf-8", "replace")


def _pdf_parts(content: bytes) -> Iterator[str]:
    from pypdf import PdfReader

    logging.disable()
    until = time.process_time() + _PAGES_S
    for page in PdfReader(io.BytesIO(content)).pages:
        yield page.extract_text().strip() + "\n\n"
        if time.process_time() > until:
            yield "\n[the rest of this PDF takes too long to read]"
            return


def _html_parts(text: str, url: str) -> Iterator[str]:
    """Yield the text of a page from top to bottom: headings, lists and links as in Markdown."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    title, base = tree.css_first("head > title"), tree.css_first("base[href]")
    flow = _Flow(urljoin(url, base.attributes.get("href") or "") if base else url)
    if title and (named := " ".join(title.text().split())):
        yield f"# {named}"
        flow.gap = 2
    # A stack, because pages nest deeper than Python calls: nodes, and the ends of open ones.
    stack: list[Any] = [tree.body] if tree.body else []
    while stack:
        item = stack.pop()
        if callable(item):
            yield item()
        elif item.is_text_node:
            yield flow.words(item.text_content or "")
        elif item.is_element_node and not _invisible(item):
            if item.tag == "pre":
                yield flow.literal(item.text())
                continue
            stack.append(flow.open(item))
            stack += reversed(list(item.iter(include_text=True)))


def _invisible(node: Any) -> bool:
    if node.tag in _SKIPPED:
        return True
    attributes = node.attributes
    return "hidden" in attributes or bool(_HIDDEN.search(attributes.get("style") or ""))


@dataclass(slots=True)
class _Flow:
    """Places words in lines as a browser would: white space collapses, blocks stand apart."""

    url: str
    gap: int = 0
    space: bool = False
    start: str = ""
    """What stands before the next words: the sign of a heading, an item or a link."""

    def words(self, text: str) -> str:
        """Return these words with the white space before them."""
        found = " ".join(text.split())
        self.space |= text[:1].isspace()
        if not found:
            return ""
        before = "\n" * self.gap or (" " if self.space else "")
        before, self.gap, self.space, self.start = (
            before + self.start, 0, text[-1:].isspace(), ""
        )  # fmt: skip
        return before + found

    def literal(self, text: str) -> str:
        """Return preformatted text as it is."""
        self.gap, self.space, self.start = 2, False, ""
        return f"\n\n```\n{text.strip(chr(10))}\n```" if text.strip() else ""

    def open(self, node: Any) -> Callable[[], str]:
        """Start an element, and return what ends it."""
        tag, gap = node.tag, _GAPS.get(node.tag, 0)
        self.gap = max(self.gap, gap, tag == "br")
        if tag in _STARTS:
            self.start = _STARTS[tag]
        place = self._place(node.attributes.get("href")) if tag == "a" else ""
        if place:
            self.start += "["

        def close() -> str:
            if place and self.start.endswith("["):
                # A link without words.
                self.start = self.start[:-1]
            elif place:
                return f"]({place})"
            elif tag in ("td", "th"):
                self.space = True
                return " |"
            self.gap = max(self.gap, gap)
            return ""

        return close

    def _place(self, href: str | None) -> str:
        """Return the URL of a link to another page."""
        if not href or href.startswith("#") or len(href) > _LINK_CHARS:
            return ""
        try:
            place = urljoin(self.url, href.strip())
        except ValueError:
            return ""
        plain = place.startswith(("https://", "http://")) and not re.search(r"[\s()<>]", place)
        return place if plain else ""


def main() -> int:
    """Read one page and write its text; any error ends with 1, and its words are for nobody."""
    try:
        page = json.loads(sys.stdin.buffer.readline())
        text, cut = text_of(sys.stdin.buffer.read(), page["type"], page["charset"], page["url"])
    except Exception:
        return 1
    sys.stdout.write(json.dumps({"text": text, "cut": cut}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
