"""What one token says, before its line is known."""

from dataclasses import dataclass, replace

from hearth_kokoro.text.clean import mark_of
from hearth_kokoro.text.state import Line
from hearth_kokoro.text.token import Pause

_PAUSES = {
    ".": Pause.SENTENCE,
    "!": Pause.SENTENCE,
    "?": Pause.SENTENCE,
    "…": Pause.CLAUSE,
    "—": Pause.CLAUSE,
    ",": Pause.CLAUSE,
    ";": Pause.CLAUSE,
    ":": Pause.CLAUSE,
}


@dataclass(frozen=True, slots=True)
class Said:
    """The words of a token, its mark, and the pause that they ask for."""

    text: str
    mark: str = ""
    pause: Pause = Pause.WORD
    line: Line | None = None
    """What sort of line begins here."""
    word: str = ""
    """What the next token may ask for, in lower case."""
    number: bool = False

    def with_ends(self, ends: str) -> "Said":
        """Return the same with this punctuation behind it."""
        mark = mark_of(self.mark + ends)
        if not mark:
            return self
        return replace(self, mark=mark, pause=max(self.pause, pause_of(mark)))


def pause_of(mark: str) -> Pause:
    """Return the pause that a mark asks for."""
    return _PAUSES.get(mark[-1:], Pause.WORD)
