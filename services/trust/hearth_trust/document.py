"""The page as a text: one document for plain HTTP and HTTPS, without a script in it."""

from collections.abc import Mapping
from html import escape
from io import BytesIO
from string import Template

import segno

from .config import Config
from .devices import guides

_PAGE = "/page/"


def code(address: str) -> str:
    """Return a QR code with the page's plain address, as an SVG picture."""
    # Level M: read also from a screen that mirrors a lamp. The quiet zone of 4 is the standard's.
    made = segno.make(plain(address), error="m", micro=False)
    drawn = BytesIO()
    made.save(drawn, kind="svg", border=4, dark="#000", light="#fff", omitsize=True, xmldecl=False)
    return drawn.getvalue().decode()


def plain(address: str) -> str:
    """Return the address to type: it needs neither names nor trust."""
    return f"http://{address}/"


def document(
    config: Config,
    files: Mapping[str, bytes],
    *,
    user_agent: str,
    secure: bool,
    address: str | None,
) -> str:
    """Return the page for one device; every value in it is escaped."""
    values = {
        "site": escape(config.site),
        "domain": escape(config.domain),
        "certificate": escape(f"Hearth root for {config.domain}"),
        # A narrow screen breaks it between two bytes.
        "fingerprint": escape(config.fingerprint).replace(":", ":<wbr>"),
        "address": escape(address or config.site),
        "plain": escape(plain(address or config.site)),
    }
    links = "\n".join(
        f'<li><a class="button" href="https://{escape(name)}/">{escape(name)}</a></li>'
        for name in config.pages
    )
    return Template(files["index.html"].decode()).substitute(
        values,
        files=_PAGE.rstrip("/"),
        secure="yes" if secure else "no",
        guides="\n".join(guides(user_agent, values)),
        pages=links,
    )


def policy(site: str) -> str:
    """Return the page's Content-Security-Policy: nothing but the house, and no script in a text."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        # Under its address the page looks whether it is found by name, and believed by HTTPS.
        f"connect-src 'self' http://{site} https://{site} wss://{site}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
