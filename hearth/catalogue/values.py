"""Checks of single values; each returns the value or reports what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from pydantic import BeforeValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from hearth.catalogue import naming


@dataclass(frozen=True, slots=True)
class Form:
    """Texts of one form; `meaning` completes "must be" in errors, and is in the reference."""

    meaning: str
    check: str | Callable[[str], str]  # a pattern, or what returns the value or raises ValueError
    none: str | None = None  # the text that means no value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check after the type."""
        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def checked(self, text: str | None) -> str | None:
        """Return the value, or raise ValueError with the text after its name."""
        if text is None or text == self.none:
            return None
        if not isinstance(self.check, str):
            try:
                return self.check(text)
            except ValueError:
                pass
        elif re.fullmatch(self.check, text):
            return text
        raise ValueError(f"must be {self.meaning.replace('`', '')}, not {text!r}")


def word_or_list(
    word: str, complaint: str, check: Callable[[str], str | None] | None = None
) -> BeforeValidator:
    """Accept this word, or a list of texts; with a check, of at least one that passes it."""

    def choose(value: object) -> object:
        if value == word:
            return word
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not isinstance(value, list) or not texts or (check and not value):
            raise ValueError(complaint)
        return tuple(map(check, value)) if check else tuple(value)

    return BeforeValidator(choose)


def address(text: str) -> str:
    """Accept an IPv4 address."""
    return str(IPv4Address(text))


def network(text: str) -> str:
    """Accept an IPv4 range."""
    return str(IPv4Network(text))


ANY = "any"
"""The egress to every public address."""


def destination(text: str) -> str:
    """Accept a host name, with or without a port, or `any`."""
    if text == ANY:
        return text
    host, colon, port = text.partition(":")
    if not naming.HOST.fullmatch(host) or (colon and not 0 < int(port) <= 65535):
        raise ValueError(text)
    return text


def destinations(value: object) -> object:
    """Return the word `any` as a list of it; the rest is checked later."""
    items = [value] if value == ANY else value
    # In strict mode a list is a tuple only while no function has seen it.
    return tuple(items) if isinstance(items, list) else items


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
