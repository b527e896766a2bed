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
RESTS = ("mute-rests", "500-rests", "cut-rests")
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
    aliases = {"fast": _alias("good"), "slowly": _alias("slow", total_s=10)}
    aliases |= {"forever": _alias("endless"), "embed": _alias("vectors")}
    aliases["vision"] = _alias("picture")
    for fault in (*FAULTS, *RESTS):
        for mode in MODES:
            # One model per case: a slow one rests afterwards, and the next test must not see it.
            name = f"{fault}-{mode}"
            models[name] = _model(name, NOBODY_LISTENS if fault == "refused" else url)
            aliases[f"after-{name}"] = _alias(name, "good")
    for name in HEARING:
        models[name] = _hearing(name, NOBODY_LISTENS if name == "unheard" else url)
        aliases[f"by-{name}"] = _alias(name, "ear", member_s=1, total_s=10)
    models["twin"] = _hearing("twin", f"{url}/")  # another server, as far as a gateway can tell
    aliases |= {
        "hear": _alias("ear", total_s=10),
        "patient": _alias("mute-again", "ear", total_s=3),
    }
    vectors = {**_model("500-vectors", url), "kind": "embed"}
    models["500-vectors"] = vectors
    aliases["numbers"] = _alias("500-vectors", "vectors", total_s=10)
    aliases["broken"] = _alias("500-plain", "mute-plain", total_s=10)
    aliases["impatient"] = _alias("mute-ear", "twin", member_s=0.5, total_s=10)
    return {
        "models": models,
        "aliases": aliases,
        "services": {"litellm": {"routes_models": True}, "other": {"routes_models": False}},
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


def _alias(*members: str, member_s: float = 1, total_s: float = 3) -> dict[str, Any]:
    deadlines = {"member_s": member_s, "total_s": total_s}
    summary = f"Answers by {members[0]}."
    return {"members": list(members), **deadlines, "offered": True, "summary": summary}
