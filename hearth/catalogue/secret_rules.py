"""Problems with a secret, reported without its value: public, guessable, or missing."""

import re
from collections.abc import Iterator, Mapping

# Published values are not secret: upstream's default key of Pipelines.
PUBLIC = frozenset({"0p3n-w3bu!"})
# Shorter ones can be guessed. The login rejects shorter passwords and consumers' keys, too; other
# keys come from elsewhere. People never type machine secrets, and generated ones are longer.
SHORTEST_PASSWORD, SHORTEST_KEY, SHORTEST_CONSUMER, SHORTEST_MACHINE = 12, 16, 24, 32
_MACHINE = ("cookie_secret", "_master_key")
# Different characters that must remain without the words below.
_FEWEST_CHARACTERS = 5
_TRIED = re.compile(
    "passwor[dt]|1234567890?|123456|0123456789|87654321|qwert[yz]uiop|qwert[yz]|asdfgh|abcdefgh"
    "|letmein|iloveyou|welcome|change-?me|admin|secret|hearth",
    re.IGNORECASE,
)


def public(name: str, value: str) -> str | None:
    """Reject a value from a program's own documentation."""
    if value not in PUBLIC:
        return None
    return (
        f"secret {name}: this is a program's public default: give it "
        f"another value with `hearth secret set {name}`"
    )


def weak(name: str, value: str) -> str | None:
    """Reject a value that can be guessed."""
    least = SHORTEST_CONSUMER if name.startswith("consumer_") else SHORTEST_KEY
    least = SHORTEST_PASSWORD if name.endswith("_password") else least
    least = SHORTEST_MACHINE if name.endswith(_MACHINE) else least
    if known := public(name, value):
        return known
    if len(value) < least:
        what = f"too short, fewer than {least} characters are easily guessed"
    elif len(set(_TRIED.sub("", value))) < _FEWEST_CHARACTERS:
        what = "easily guessed: a common password, or few different characters"
    else:
        return None
    return f"secret {name}: it is {what}: give it another value with `hearth secret set {name}`"


def missing(values: Mapping[str, str], needed: Mapping[str, str]) -> Iterator[str]:
    """Report each given secret without a value; `needed` has the services that need them."""
    for name, owner in needed.items():
        if name not in values:
            yield (
                f"secret {name}: {owner} needs it and it has no value: give it one with "
                f"`hearth secret set {name}`, or turn {owner} off"
            )
