"""A small house: the models of the faulty server, an alias for each fault, three consumers."""

from __future__ import annotations

from dataclasses import replace

from hearth.catalogue.house import Alias, House, Model
from tests.small_house import alias, model, small_house

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


def house(url: str) -> House:
    """Return a house with one alias for each fault of the server at `url`."""
    models = [_model(name, url) for name in ("good", "slow", "endless", "cut", "crash")]
    models += [_model(name, url) for name in ("tools", "forged", "llama3.1")]
    models.append(replace(_model("picture", url), kind="vision"))
    aliases = [
        _alias("fast", "good"),
        _alias("slowly", "slow", first_token_timeout_s=WAITED_S),
        _alias("forever", "endless", timeout_s=3),
        _alias("unending", "endless"),
        _alias("embed", "vectors"),
        _alias("vision", "picture"),
    ]
    for fault in (*FAULTS, *RESTS):
        for mode in MODES:
            # One model per case: a slow one rests afterwards, and the next test must not see it.
            name = f"{fault}-{mode}"
            models.append(_model(name, NOBODY_LISTENS if fault == "refused" else url))
            aliases.append(
                _alias(f"after-{name}", name, "good", first_token_timeout_s=_member_s(fault))
            )
    for name in HEARING:
        models.append(_hearing(name, NOBODY_LISTENS if name == "unheard" else url))
        aliases.append(_alias(f"by-{name}", name, "ear", first_token_timeout_s=_member_s(name)))
    models.append(_hearing("twin", f"{url}/"))  # another server, as far as a gateway can tell
    models += [replace(_model(name, url), kind="embed") for name in ("vectors", "500-vectors")]
    aliases += [
        _alias("hear", "ear"),
        _alias("patient", "mute-again", "ear", first_token_timeout_s=WAITED_S, timeout_s=3),
        _alias("numbers", "500-vectors", "vectors"),
        _alias("broken", "500-plain", "mute-plain", first_token_timeout_s=WAITED_S),
        _alias("impatient", "mute-ear", "twin", first_token_timeout_s=0.5),
    ]
    consumers = {"owner": "all", "guest": ("fast", "hear"), "nobody": ()}
    return small_house(models, aliases, consumers, elsewhere=["elsewhere"])


def _hearing(name: str, url: str) -> Model:
    return replace(_model(name, url), id=f"{name}-there", kind="transcribe")


def _model(name: str, url: str) -> Model:
    return model(name, url, summary=f"Is {name}.")


def _member_s(fault: str) -> float:
    return WAITED_S if fault.startswith(WAITED) else PATIENT_S


def _alias(
    name: str,
    *members: str,
    first_token_timeout_s: float = PATIENT_S,
    timeout_s: float = TIMEOUT_S,
) -> Alias:
    return alias(
        name,
        *members,
        summary=f"Answers by {members[0]}.",
        first_token_timeout_s=first_token_timeout_s,
        timeout_s=timeout_s,
    )
