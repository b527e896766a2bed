"""Checks of single values; each returns the value or reports what to write instead."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from hearth.catalogue import naming


def address(text: str) -> str:
    """Accept an IPv4 address."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 address; write e.g. 10.140.30.11") from None


def network(text: str) -> str:
    """Accept an IPv4 range."""
    try:
        return str(ipaddress.IPv4Network(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 range; write e.g. 10.140.30.0/24") from None


def auto_or_address(text: str) -> str:
    """Accept `auto` or an IPv4 address."""
    return text if text == "auto" else address(text)


def callers(text: str) -> str:
    """Accept an IPv4 address or range."""
    return network(text) if "/" in text else address(text)


def absolute(text: str) -> str:
    """Accept an absolute folder that is not the root."""
    if not text.startswith("/") or text == "/" or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not an absolute folder; write e.g. /var/lib/name")
    return text.rstrip("/")


def route(text: str) -> str:
    """Accept a URL path, with `*` at its end at most."""
    if not text.startswith("/") or "*" in text[:-1] or re.search(r"\s", text):
        raise ValueError(f"{text!r} is not a path; start with / and use * only at the end")
    return text


def host(text: str) -> str:
    """Accept a host name: no address, URL or pattern."""
    if not naming.is_host(text):
        raise ValueError(f"{text!r} is not a host name; write only the name, e.g. example.org")
    return text


def domain(text: str) -> str:
    """Accept a domain that devices look up with our resolver."""
    labels = text.split(".")
    if not all(naming.LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{text!r} is not a domain; write e.g. lan or home.arpa")
    if labels[-1] == "local":
        raise ValueError(
            "'local' belongs to mDNS, so phones never use our resolver; write e.g. lan"
        )
    return text


def _formed(pattern: str, complaint: str) -> Callable[[str], str]:
    """Return a check of a pattern; an error is the rejected text and the complaint."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} {complaint}")
        return text

    return check


reach = _formed(
    r"local|ssh://([\w.-]+@)?[\w.-]+(:\d+)?",
    "is not a valid connection; write local or ssh://user@host",
)
image = _formed(r"[a-z]+/[a-z0-9.]+", "is not an image; write system/release, e.g. debian/13")
package = _formed(r"[a-z0-9][a-z0-9+.-]+", "is not a Debian package; write its name only")
source = _formed(
    r"https://[^\s/]+/\S+|/\S+",
    "is not a valid source; write https://… or the path of a local file",
)
# The start of a URL or of a folder.
prefix = _formed(
    r"(https?://[^\s/]+|)/(\S*/)?",
    "is not a valid prefix; write https://…/ or /folder/, ending in /",
)
sha256 = _formed(r"unverified|[0-9a-f]{64}", "is not a sha256; write 64 hex digits or unverified")
manifest = _formed(
    r"unverified|sha256:[0-9a-f]{64}", "is not a digest; write sha256:HEX or unverified"
)


# The directives of https://www.w3.org/TR/CSP3/.
_DIRECTIVES = (
    *("base-uri", "child-src", "connect-src", "default-src", "font-src", "form-action"),
    *("frame-ancestors", "frame-src", "img-src", "manifest-src", "media-src", "object-src"),
    *("script-src", "script-src-attr", "script-src-elem", "style-src", "style-src-attr"),
    *("style-src-elem", "worker-src"),
)
_POLICY_SOURCE = re.compile(
    r"'(none|self|unsafe-inline|unsafe-eval|unsafe-hashes|wasm-unsafe-eval)'"
    r"|'sha(256|384|512)-[A-Za-z0-9+/]+={0,2}'|(blob|data|mediastream):"
    r"|(https|wss)://[a-z0-9.-]+(:\d+)?"
)


def policy(text: str) -> str:
    """Accept a Content-Security-Policy: known directives, each once, with sources it can have."""
    seen: set[str] = set()
    for part in text.split(";"):
        name, *sources = part.split() or [""]
        if name not in _DIRECTIVES:
            raise ValueError(
                f"{name!r} is not a valid directive; {naming.suggest(name, _DIRECTIVES)}"
            )
        if name in seen:
            raise ValueError(f"{name} is in the policy twice; a browser reads only the first")
        seen.add(name)
        for source in sources or [""]:
            if not _POLICY_SOURCE.fullmatch(source):
                raise ValueError(
                    f"{name} {source!r} is not a valid source; write e.g. 'self', blob: or https://name.lan"
                )
            if name.startswith("script-src") and source in ("blob:", "data:"):
                raise ValueError(
                    f"{name} {source} allows any text as a script; leave it out, and use "
                    "worker-src for workers"
                )
    return text


def size(text: str) -> str:
    """Accept a number with a unit."""
    naming.size_bytes(text)
    return text


def memory_limit(text: str) -> str:
    """Accept a size or a share of the machine's memory."""
    percent = naming.PERCENT.fullmatch(text)
    if percent and 0 < int(percent[1]) <= 100:
        return text
    if percent or not naming.SIZE.fullmatch(text):
        raise ValueError(f"{text!r} is not a memory limit; write e.g. 8GiB or 60%")
    return text


def http_url(text: str) -> str:
    """Accept the URL of a server."""
    if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[^\s?#]*)?", text):
        raise ValueError(f"{text!r} is not a URL; write e.g. http://192.168.1.20:11434")
    return text.rstrip("/")


def version(text: str) -> str:
    """Accept a version that can be compared: of a release, or as Debian writes it."""
    if not re.fullmatch(r"([0-9]+:)?[0-9][A-Za-z0-9.+~-]*", text):
        raise ValueError(f"{text!r} is not a valid version; write numbers with dots, e.g. 1.2.3")
    return text


def enabled(value: object) -> bool | str:
    """Accept true, false or `auto`."""
    if value is True or value is False or value == "auto":
        return value
    raise ValueError(f"{value!r} is not a valid choice; write true, false or auto")


def time_of_day(text: str) -> str:
    """Accept HH:MM, or `off`."""
    if text == "off" or re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        return text
    raise ValueError(f"{text!r} is not a valid time; write e.g. 03:30, or off")


def recipient(text: str) -> str:
    """Accept the public half of a recovery key, without a mistake in it."""
    if text.upper().startswith("AGE-SECRET-KEY-"):
        # The refusal of anything else repeats it; this one must stay out of logs.
        raise ValueError(
            "is the recovery key itself, which opens every backup; keep it elsewhere, and let "
            "`hearth backup --new-key` make another one"
        )
    from pyrage import RecipientError, x25519

    try:
        # pyrage takes capitals too; the program age does not.
        if str(x25519.Recipient.from_str(text)) == text:
            return text
    except RecipientError:
        pass
    raise ValueError(f"{text!r} is not an age recipient; `hearth backup --new-key` writes one")


def upstream(value: object) -> str | list[str]:
    """Accept `auto` or a list of IPv4 addresses."""
    if value == "auto":
        return "auto"
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [address(item) for item in value]
    raise ValueError("is neither auto nor a list of addresses; write e.g. [9.9.9.9]")


def all_or_names(value: object) -> str | list[str]:
    """Accept `all` or a list of names."""
    if value == "all":
        return "all"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise ValueError("is neither all nor a list of names; write e.g. [fast, coder]")
