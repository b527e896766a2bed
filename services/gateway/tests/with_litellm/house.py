"""A small house: the models of the faulty server, an alias for each fault, three consumers."""

from __future__ import annotations

from typing import Any

MODES = ("plain", "streamed")
HEARING = (
    "ear",
    "unheard",
    "500-ear",
    "404-ear",
    "429-ear",
    "400-ear",
    "mute-ear",
    "mute-again",
    "cut-ear",
    "failing-ear",
    "garbage-ear",
    "empty-ear",
    "inside-ear",
    "drip-ear",
    "end-ear",
)
FAULTS = ("refused", "500", "404", "429", "mute", "roleonly", "drip", "garbage", "empty", "inside")
# They fail once more, after somebody else has seen it.
RESTS = ("mute-rests", "500-rests", "cut-rests", "500-crowd")
# Who says nothing is waited for so long, and its tests with it. Everybody else has far longer than
# any machine stands still: nothing there may wait, and the next one answers as soon as is promised.
WAITED = ("mute", "roleonly", "drip")
WAITED_S, PATIENT_S, TIMEOUT_S = 1.0, 30.0, 60.0
QUICK_S = 2.0
KEYS = {"owner": "key-of-the-owner", "guest": "key-of-the-guest", "nobody": "key-of-nobody"}
# A file may not be called by a secret that somebody could really use.
MASTER_KEY = "sk-only-for-this-test-0123456789abcdef"
NOBODY_LISTENS = "http://127.0.0.1:9"


def house(url: str) -> dict[str, Any]:
    """Return the part of `House.as_vars()` that the gateway reads."""
    models = {name: _model(name, url) for name in ("good", "slow", "endless", "cut", "crash")}
    models |= {name: _model(name, url) for name in ("tools", "picture", "forged", "llama3.1")}
    models["picture"]["kind"] = "vision"
    models["vectors"] = {**_model("vectors", url), "kind": "embed"}
    aliases = {"fast": _alias("good"), "slowly": _alias("slow", first_token_timeout_s=WAITED_S)}
    aliases |= {"forever": _alias("endless", timeout_s=3), "unending": _alias("endless")}
    aliases["embed"] = _alias("vectors")
    aliases["vision"] = _alias("picture")
    for fault in (*FAULTS, *RESTS):
        for mode in MODES:
            # One model per case: a slow one rests afterwards, and the next test must not see it.
            name = f"{fault}-{mode}"
            models[name] = _model(name, NOBODY_LISTENS if fault == "refused" else url)
            aliases[f"after-{name}"] = _alias(name, "good", first_token_timeout_s=_member_s(fault))
    for name in HEARING:
        models[name] = _hearing(name, NOBODY_LISTENS if name == "unheard" else url)
        aliases[f"by-{name}"] = _alias(name, "ear", first_token_timeout_s=_member_s(name))
    models["twin"] = _hearing("twin", f"{url}/")  # another server, as far as a gateway can tell
    aliases |= {
        "hear": _alias("ear"),
        "patient": _alias("mute-again", "ear", first_token_timeout_s=WAITED_S, timeout_s=3),
    }
    vectors = {**_model("500-vectors", url), "kind": "embed"}
    models["500-vectors"] = vectors
    aliases["numbers"] = _alias("500-vectors", "vectors")
    aliases["broken"] = _alias("500-plain", "mute-plain", first_token_timeout_s=WAITED_S)
    aliases["impatient"] = _alias("mute-ear", "twin", first_token_timeout_s=0.5)
    return {
        "models": models,
        "aliases": aliases,
        "services": {"litellm": {"offers": ["models"]}, "other": {"offers": []}},
        "consumers": {
            "owner": {"models": "all", "services": ["litellm"]},
            "guest": {"models": ["fast", "hear"], "services": ["litellm"]},
            "nobody": {"models": [], "services": ["litellm"]},
            "elsewhere": {"models": "all", "services": ["other"]},
        },
    }


def _hearing(name: str, url: str) -> dict[str, Any]:
    return {**_model(name, url), "id": f"{name}-there", "kind": "transcribe"}


def _model(name: str, url: str) -> dict[str, Any]:
    where = {"local": True, "url": url, "litellm": "ollama", "secret": None, "usable": True}
    return {"name": name, "id": name, "kind": "chat", "summary": f"Is {name}.", **where}


def _member_s(fault: str) -> float:
    return WAITED_S if fault.startswith(WAITED) else PATIENT_S


def _alias(
    *members: str, first_token_timeout_s: float = PATIENT_S, timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    deadlines = {"first_token_timeout_s": first_token_timeout_s, "timeout_s": timeout_s}
    summary = f"Answers by {members[0]}."
    return {"members": list(members), **deadlines, "offered": True, "summary": summary}
