"""What is wrong with a secret, said without its value: public, too short, or not there."""

from collections.abc import Iterator, Mapping

# What everybody knows is no secret: the key of upstream's Pipelines where none is given.
PUBLIC = frozenset({"0p3n-w3bu!"})
# Shorter ones are guessed: of what people type, and of what programs send.
SHORTEST_PASSWORD, SHORTEST_KEY = 8, 16


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
    if len(value) >= least:
        return public(name, value)
    return public(name, value) or (
        f"secret {name}: it is too short, one of fewer than {least} characters is soon guessed: "
        f"give it another value with `hearth secret set {name}`"
    )


def lacking(values: Mapping[str, str], needed: Mapping[str, str]) -> Iterator[str]:
    """Name each secret that only a person can give and that nobody gave; `needed` says for whom."""
    for name, owner in needed.items():
        if name not in values:
            yield (
                f"secret {name}: {owner} needs it and it has no value: give it one with "
                f"`hearth secret set {name}`, or turn {owner} off"
            )
