"""What is wrong with a secret, said without its value: public, guessable, or not there."""

import re
from collections.abc import Iterator, Mapping

# What everybody knows is no secret: the key of upstream's Pipelines where none is given.
PUBLIC = frozenset({"0p3n-w3bu!"})
# Shorter ones are guessed: of what people type, and of what programs send.
SHORTEST_PASSWORD, SHORTEST_KEY = 8, 16
# No person types these, and Hearth's own are longer.
SHORTEST_MACHINE = 32
_MACHINE = ("cookie_secret", "_master_key")
# Of what is left without the words that everybody tries first.
_FEWEST_SIGNS = 5
_TRIED = re.compile(
    "passwor[dt]|1234567890?|123456|0123456789|87654321|qwert[yz]uiop|qwert[yz]|asdfgh|abcdefgh"
    "|letmein|iloveyou|welcome|change-?me|admin|secret|hearth",
    re.IGNORECASE,
)


def public(name: str, value: str) -> str | None:
    """Refuse what stands in a program's own documents."""
    if value not in PUBLIC:
        return None
    return (
        f"secret {name}: this is a program's public default, which everybody knows: give it "
        f"another value with `hearth secret set {name}`"
    )


def weak(name: str, value: str) -> str | None:
    """Refuse what anybody could guess."""
    least = SHORTEST_PASSWORD if name.endswith("_password") else SHORTEST_KEY
    least = SHORTEST_MACHINE if name.endswith(_MACHINE) else least
    if known := public(name, value):
        return known
    if len(value) < least:
        what = f"too short, one of fewer than {least} characters is soon guessed"
    elif len(set(_TRIED.sub("", value))) < _FEWEST_SIGNS:
        what = "soon guessed, being little more than what everybody tries first or the same few"
        what += " signs"
    else:
        return None
    return f"secret {name}: it is {what}: give it another value with `hearth secret set {name}`"


def lacking(values: Mapping[str, str], needed: Mapping[str, str]) -> Iterator[str]:
    """Name each secret that only a person can give and that nobody gave; `needed` says for whom."""
    for name, owner in needed.items():
        if name not in values:
            yield (
                f"secret {name}: {owner} needs it and it has no value: give it one with "
                f"`hearth secret set {name}`, or turn {owner} off"
            )
