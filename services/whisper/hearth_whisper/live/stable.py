"""What of a growing guess may be shown as said: what two guesses in a row agree on."""

import re

# Scripts that write without spaces agree character by character.
_UNIT = re.compile(
    r"\s*(?:[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|"
    r"[^\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+)"
)
_UNSPOKEN = re.compile(r"[\W_]+")


class Stable:
    """Guesses of one utterance; what once was stable begins every later guess."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._kept: list[str] = []
        self._last: list[str] = []

    def hear(self, guess: str) -> tuple[str, str]:
        """Take a guess; return the text to show, and how much of its beginning is stable."""
        units = _UNIT.findall(guess)
        shown = self._kept + units[len(self._kept) :]
        # Both begin with what is kept, so it never shrinks.
        self._kept = shown[: _agreed(shown, self._last)]
        self._last = shown
        return "".join(shown).strip(), "".join(self._kept).strip()


def _agreed(one: list[str], other: list[str]) -> int:
    """Count the units that both begin with, however they are written."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if _plain(mine) != _plain(theirs):
            break
        count += 1
    return count


def _plain(unit: str) -> str:
    return _UNSPOKEN.sub("", unit).casefold() or unit.strip()
