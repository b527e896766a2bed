"""Tokens, the parts of a text that are never cut, and the values that they are made from."""

from dataclasses import dataclass, replace
from enum import Enum, IntEnum, auto
from textwrap import wrap

from hearth_kokoro.text.cleaning import mark_of


class Pause(IntEnum):
    """What may follow a token: no cut (it is glued to the next), or a pause of growing length."""

    NONE = 0
    WORD = 1
    CLAUSE = 2
    SENTENCE = 3
    PARAGRAPH = 4


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a number with its unit, an address: `source` as written, `spoken` as pronounced.

    The sources of all tokens, joined, are the text, to the last space. `spoken` is empty for
    markup; otherwise it has the punctuation that shapes the intonation.
    """

    source: str
    spoken: str
    pause: Pause


# The longest date or amount has fewer spoken characters; more is a run of digits or letters.
_LONGEST_SPOKEN, _PART = 100, 24


def split_long(token: Token) -> list[Token]:
    """Split a token that is too long for one inference: a run of digits, signs or letters.

    The parts have at most 24 spoken characters, where its words allow that; their sources joined
    are the source.
    """
    if len(token.spoken) <= _LONGEST_SPOKEN:
        return [token]
    parts = wrap(token.spoken, _PART, break_on_hyphens=False)
    written, spoken, source, found = len(token.source.rstrip()), 0, 0, list[Token]()
    for part in parts:
        spoken += len(part) + 1
        # A digit's word belongs to that digit; elsewhere the place in the source is approximate.
        end = round(written * spoken / (len(token.spoken) + 1))
        found.append(Token(token.source[source:end], part, Pause.WORD))
        source = end
    last = found[-1]
    rest = token.source[source:]
    return [*found[:-1], replace(last, source=last.source + rest, pause=token.pause)]


class LineKind(Enum):
    """The kinds of lines in Markdown."""

    TEXT = auto()
    HEADING = auto()
    ITEM = auto()
    TABLE = auto()


@dataclass(slots=True)
class TokenizerState:
    """The context of the next token; it changes only when a token is final."""

    line_start: bool = True
    line: LineKind = LineKind.TEXT
    length: int = 0
    """Characters of this line so far."""
    fence: str = ""
    """The marks that opened the current code block."""
    fence_line: bool = False
    """Whether this is still the line that opened the code block."""
    in_address: bool = False
    """Whether this chunk continues an address that was too long for one chunk."""
    until: str = ""
    """The characters that end the current tag or link target."""
    glued: int = 0
    """Glued tokens in a row."""
    word: str = ""
    """The last word, in lower case."""
    number: bool = False
    """Whether the last token was a number."""


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
class SpokenForm:
    """How a token is pronounced, before the end of its line is known."""

    text: str
    mark: str = ""
    pause: Pause = Pause.WORD
    line: LineKind | None = None
    """The kind of line that starts here."""
    word: str = ""
    """The word in lower case, as context for the next token."""
    number: bool = False

    def with_punctuation(self, marks: str) -> "SpokenForm":
        """Return the same form with these punctuation marks after it."""
        mark = mark_of(self.mark + marks)
        if not mark:
            return self
        return replace(self, mark=mark, pause=max(self.pause, pause_after(mark)))


def pause_after(mark: str) -> Pause:
    """Return the pause of a punctuation mark."""
    return _PAUSES.get(mark[-1:], Pause.WORD)
