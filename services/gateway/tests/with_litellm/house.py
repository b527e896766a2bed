"""A small house: the models of the faulty server, an alias for each fault, three consumers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hearth.catalogue.house import Alias, House, Model
from tests.small_house import alias, model, small_house

MODES = ("plain", "streamed")
TRANSCRIBERS = (
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
    "chosen-ear",
    "forged-ear",
)
FAULTS = ("refused", "500", "404", "429", "mute", "roleonly", "drip", "garbage", "empty", "inside")
# Of a member outside the house, each of which ends a request in another way.
CLOUD_FAULTS = ("503", "400", "429", "mute", "cut", "endless")
# Cases of their own, whose failures must not come from another test.
COOLDOWN_FAULTS = ("mute-rests", "500-rests", "cut-rests", "500-crowd")
# The timeout of silent members, which their tests wait for. The other timeouts are longer than any
# pause of a busy machine: those tests must not wait.
SILENT_FAULTS = ("mute", "roleonly", "drip")
SILENT_TIMEOUT_S, LONG_TIMEOUT_S, TIMEOUT_S = 1.0, 120.0, 180.0
QUICK_S = 2.0
KEYS = {"owner": "key-of-the-owner", "guest": "key-of-the-guest", "nobody": "key-of-nobody"}
# Not a secret that is used anywhere.
MASTER_KEY = "sk-only-for-this-test-0123456789abcdef"
UNREACHABLE_URL = "http://127.0.0.1:9"


def house(url: str) -> House:
    """Return a house with one alias for each fault of the server at `url`."""
    models = [_model(name, url) for name in ("good", "crowded", "slow", "endless", "cut", "crash")]
    models += [_model(name, url) for name in ("forged", "llama3.1", "other", "strange")]
    models.append(replace(_model("tools", url), capabilities=("tools",)))
    models += [_thinker(name, url) for name in ("thinks", "broods", "ponders")]
    models.append(replace(_thinker("thinks-always", url), always_thinks=True))
    models.append(replace(_model("short", url), context=1000))
    models.append(replace(_model("picture", url), capabilities=("vision",)))
    # As if outside the house: OpenAI's interface at another address.
    outside: dict[str, Any] = {"local": False, "litellm": "openai", "secret": "litellm_master_key"}
    away = ("cloud", "500-cloud", *(f"{fault}-cloud" for fault in CLOUD_FAULTS))
    models += [model(name, url, **outside) for name in away]
    aliases = [
        _alias("fast", "good"),
        _alias("roomy", "crowded", "good"),
        _alias("slowly", "slow", first_token_timeout_s=SILENT_TIMEOUT_S),
        _alias("forever", "endless", timeout_s=3),
        _alias("unending", "endless"),
        _alias("embed", "vectors"),
        _alias("vision", "picture"),
        replace(_alias("quick", "thinks", "good"), thinking="off"),
        replace(_alias("deep", "thinks"), thinking="high"),
        replace(_alias("levels", "thinks-always"), thinking="off"),
        replace(_alias("plain", "good"), thinking="high"),
        _alias("helper", "good", "tools"),
        _alias("away", "cloud"),
        _alias("hybrid", "500-cloud", "good"),
        *(_alias(f"away-{fault}", f"{fault}-cloud", timeout_s=3) for fault in CLOUD_FAULTS),
        _alias("pondering", "ponders", "good", first_token_timeout_s=SILENT_TIMEOUT_S),
    ]
    for fault in (*FAULTS, *COOLDOWN_FAULTS):
        for mode in MODES:
            # One model per case: a slow one rests, which must not affect the next test.
            name = f"{fault}-{mode}"
            models.append(_model(name, UNREACHABLE_URL if fault == "refused" else url))
            aliases.append(
                _alias(f"after-{name}", name, "good", first_token_timeout_s=_timeout_s(fault))
            )
    for name in TRANSCRIBERS:
        models.append(_transcriber(name, UNREACHABLE_URL if name == "unheard" else url))
        aliases.append(_alias(f"by-{name}", name, "ear", first_token_timeout_s=_timeout_s(name)))
    models.append(_transcriber("twin", f"{url}/"))  # another server, as far as a gateway can tell
    models += [
        replace(_model(name, url), kind="embed")
        for name in ("vectors", "500-vectors", "other-vectors")
    ]
    aliases += [
        _alias("hear", "ear"),
        _alias("patient", "mute-again", "ear", first_token_timeout_s=SILENT_TIMEOUT_S, timeout_s=3),
        _alias("numbers", "500-vectors", "vectors"),
        _alias("broken", "500-plain", "mute-plain", first_token_timeout_s=SILENT_TIMEOUT_S),
        _alias("impatient", "mute-ear", "twin", first_token_timeout_s=0.5),
    ]
    consumers = {"owner": "all", "guest": ("fast", "hear", "helper"), "nobody": ()}
    return small_house(models, aliases, consumers, others=["elsewhere"])


def _thinker(name: str, url: str) -> Model:
    return replace(_model(name, url), capabilities=("thinking",))


def _transcriber(name: str, url: str) -> Model:
    return replace(_model(name, url), id=f"{name}-there", kind="transcribe")


def _model(name: str, url: str) -> Model:
    return model(name, url, summary=f"Is {name}.")


def _timeout_s(fault: str) -> float:
    return SILENT_TIMEOUT_S if fault.startswith(SILENT_FAULTS) else LONG_TIMEOUT_S


def _alias(
    name: str,
    *members: str,
    first_token_timeout_s: float = LONG_TIMEOUT_S,
    timeout_s: float = TIMEOUT_S,
) -> Alias:
    return alias(
        name,
        *members,
        summary=f"Answers by {members[0]}.",
        first_token_timeout_s=first_token_timeout_s,
        timeout_s=timeout_s,
    )
