"""The page as text: one document for HTTP and HTTPS, without scripts in it, with device guides."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from io import BytesIO
from string import Template

import segno

from .config import Config

_PAGE = "/page/"
_PARTS = files("hearth_trust") / "page"


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device: its name for people, and a pattern for its browsers' `User-Agent`."""

    key: str
    title: str
    user_agent: str


# In the order on the page. An iPad may call itself a Mac; the page's script detects that.
DEVICES = (
    Device("ios", "iPhone, iPad", r"iPhone|iPad|iPod"),
    Device("android", "Android", r"Android"),
    Device("windows", "Windows", r"Windows NT"),
    Device("macos", "Mac", r"Macintosh"),
    Device("linux", "Linux", r"^(?!.*Android).*(Linux|X11)"),
    Device("firefox", "Firefox on any device", r"Firefox/|FxiOS/"),
)


def render_page(
    config: Config,
    assets: Mapping[str, bytes],
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
        # A narrow screen may break the line between two bytes.
        "fingerprint": escape(config.fingerprint).replace(":", ":<wbr>"),
        "address": escape(address or config.site),
        "plain": escape(_http_url(address or config.site)),
        "old": escape(config.address),
    }
    moved = _part("moved") if address not in (None, config.address) else ""
    links = "\n".join(
        f'<li><a class="button" href="https://{escape(name)}/">{escape(name)}</a></li>'
        for name in config.pages
    )
    return Template(assets["index.html"].decode()).substitute(
        values,
        files=_PAGE.rstrip("/"),
        secure="yes" if secure else "no",
        moved=Template(moved).substitute(values),
        guides="\n".join(_guides(user_agent, values)),
        pages=links,
    )


def _guides(user_agent: str, values: dict[str, str]) -> Iterator[str]:
    """Yield each guide as HTML: first, and open, those for the requesting device."""
    matching = {device.key for device in DEVICES if re.search(device.user_agent, user_agent)}
    for device in sorted(DEVICES, key=lambda device: device.key not in matching):
        template = Template(_part(f"guides/{device.key}"))
        opened = " open" if device.key in matching else ""
        yield (
            f'<details id="{device.key}"{opened}><summary>{device.title}</summary>\n'
            f"{template.substitute(values)}</details>"
        )


def _part(name: str) -> str:
    return (_PARTS / f"{name}.html").read_text(encoding="utf-8")


def _http_url(address: str) -> str:
    return f"http://{address}/"


def qr_code(address: str) -> str:
    """Return a QR code of the page's URL at `address`, as SVG; it needs neither DNS nor trust."""
    # Level M is readable on a screen with reflections. The standard requires a quiet zone of 4.
    code = segno.make(_http_url(address), error="m", micro=False)
    svg = BytesIO()
    code.save(svg, kind="svg", border=4, dark="#000", light="#fff", omitsize=True, xmldecl=False)
    return svg.getvalue().decode()


def content_security_policy(site: str) -> str:
    """Return the page's policy: it loads from its own house only, and runs no inline scripts."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        # Opened by address, the page tests the name and the certificate of `site`.
        f"connect-src 'self' http://{site} https://{site} wss://{site}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
