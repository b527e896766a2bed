"""Checks of single values; each returns the value or reports what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network

from pydantic import AfterValidator, BeforeValidator

from hearth.catalogue import naming

# What a text must match, and the end of the error if it does not.
_FORMS: Mapping[str, tuple[str, str]] = {
    "digest": ("unverified|sha256:[0-9a-f]{64}", "is not a digest; write sha256:HEX or unverified"),
    "host": (naming.HOST.pattern, "is not a host name; write only the name, e.g. example.org"),
    "image": ("[a-z]+/[a-z0-9.]+", "is not an image; write system/release, e.g. debian/13"),
    "location": (
        r"https://[^\s/]+/\S+|/\S+",
        "is not a valid source; write https://… or the path of a local file",
    ),
    "memory": (
        rf"(100|[1-9]\d?)%|{naming.SIZE.pattern}",
        "is not a memory limit; write e.g. 8GiB or 60%",
    ),
    "package": ("[a-z0-9][a-z0-9+.-]+", "is not a Debian package; write its name only"),
    "prefix": (
        r"(https?://[^\s/]+|)/(\S*/)?",
        "is not a valid prefix; write https://…/ or /folder/, ending in /",
    ),
    "reach": (
        r"local|ssh://([\w.-]+@)?[\w.-]+(:\d+)?",
        "is not a valid connection; write local or ssh://user@host",
    ),
    "route": (r"/[^\s*]*\*?", "is not a path; start with / and use * only at the end"),
    "sha256": ("unverified|[0-9a-f]{64}", "is not a sha256; write 64 hex digits or unverified"),
    "size": (naming.SIZE.pattern, "is not a size; write a number and a unit, e.g. 3.4GB or 8GiB"),
    "time": (r"off|([01]\d|2[0-3]):[0-5]\d", "is not a valid time; write e.g. 03:30, or off"),
    "url": (
        r"https?://[A-Za-z0-9.-]+(:\d{1,5})?(/[^\s?#]*)?",
        "is not a URL; write e.g. http://192.168.1.20:11434",
    ),
    "version": (
        "([0-9]+:)?[0-9][A-Za-z0-9.+~-]*",
        "is not a valid version; write numbers with dots, e.g. 1.2.3",
    ),
}


def formed(name: str, none: str | None = None) -> AfterValidator:
    """Accept texts of this form; the text `none` means that there is no value."""
    pattern, complaint = _FORMS[name]

    def check(text: str | None) -> str | None:
        if text is not None and not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} {complaint}")
        return None if text == none else text

    return AfterValidator(check)


def word_or_list(
    word: str, complaint: str, check: Callable[[str], str] = str, least: int = 0
) -> BeforeValidator:
    """Accept this word, or a list of at least that many texts that pass the check."""

    def choose(value: object) -> str | tuple[str, ...]:
        if value == word:
            return word
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not isinstance(value, list) or not texts or len(value) < least:
            raise ValueError(complaint)
        return tuple(check(item) for item in value)

    return BeforeValidator(choose)


def _parsed(kind: Callable[[str], object], complaint: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        try:
            return str(kind(text))
        except ValueError:
            raise ValueError(f"{text!r} {complaint}") from None

    return check


address = _parsed(IPv4Address, "is not an IPv4 address; write e.g. 10.140.30.11")
network = _parsed(IPv4Network, "is not an IPv4 range; write e.g. 10.140.30.0/24")


def absolute(text: str) -> str:
    """Accept an absolute folder that is not the root."""
    if not text.startswith("/") or text == "/" or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not an absolute folder; write e.g. /var/lib/name")
    return text.rstrip("/")


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


# The resolver and the reverse proxy; no service may take these.
_HOUSE_PORTS = {53: "the resolver's", 80: "the reverse proxy's", 443: "the reverse proxy's"}


def published_port(text: str | int) -> int:
    """Accept a port that services may publish."""
    port = int(text) if re.fullmatch("[0-9]{1,5}", str(text)) else 0
    if not 1 <= port <= 65535:
        raise ValueError("is not a valid port; write a number, e.g. 10300: []")
    if port in _HOUSE_PORTS:
        raise ValueError(f"is {_HOUSE_PORTS[port]}; choose another port")
    return port


def enabled(value: object) -> bool | str:
    """Accept true, false or `auto`."""
    if value is True or value is False or value == "auto":
        return value
    raise ValueError(f"{value!r} is not a valid choice; write true, false or auto")


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
