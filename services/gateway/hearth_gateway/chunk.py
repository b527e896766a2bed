"""What of a member's chunk goes on: OpenAI's form and its usual extras, and nothing else.

Whoever shows an answer may take other fields for words of a server that it trusts. To Open WebUI
an `event` is a dialogue or a script for the page, and a `selected_model_id` says who answers the
rest of the turn; a server outside the house shall say neither.
"""

from __future__ import annotations

from typing import Any

from hearth_gateway import wire

_FORM = {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "error"}
_FORM |= {"service_tier", "obfuscation", "moderation"}
# What llama.cpp measured, who served it for a reseller, what a searching model has found, ...
_EXTRAS = {"timings", "provider", "provider_specific_fields", "citations", "search_results"}
_EXTRAS |= {"prompt_filter_results", "x_groq"}
_KNOWN = frozenset(_FORM | _EXTRAS)


def kept(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a chunk, or of a whole answer, that go on."""
    return {name: value for name, value in event.items() if name in _KNOWN}


def plain(raw: bytes, event: Any) -> bytes:
    """Return one event of a stream as it goes on; comments and the end's mark stay.

    Some readers take each line for itself: what is spread over several is written anew.
    """
    if isinstance(event, dict):
        fits = event.keys() <= _KNOWN and b"\n" not in raw.removesuffix(b"\n\n")
        return raw if fits else wire.event_bytes(kept(event))
    data = [line[5:].strip() for line in raw.split(b"\n") if line.startswith(b"data:")]
    return raw if all(each == b"[DONE]" for each in data) else b""
