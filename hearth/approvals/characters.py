"""Characters that a person cannot see, but a program reads: shown as such, or refused."""

import unicodedata
from collections.abc import Iterator

# Controls (the terminal's escape among them), formats (which reverse text or are invisible),
# surrogates, private and unassigned ones, and Unicode's own line ends.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_ALLOWED = {"\n", "\t"}


def _is_hidden(character: str) -> bool:
    return character not in _ALLOWED and unicodedata.category(character) in _HIDDEN


def visible(text: str) -> str:
    """Return a text in which hidden characters are written as `<U+202E>`."""
    if text.isprintable():
        return text
    return "".join(f"<U+{ord(one):04X}>" if _is_hidden(one) else one for one in text)


def hidden(text: str) -> Iterator[str]:
    """Yield line and name of each hidden character."""
    for number, line in enumerate(text.split("\n"), 1):
        for one in line:
            if _is_hidden(one):
                yield f"line {number} has the hidden character U+{ord(one):04X}"
