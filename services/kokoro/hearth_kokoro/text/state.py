"""What is remembered of the text before: the line one is in, and the last word."""

from dataclasses import dataclass
from enum import Enum, auto


class Line(Enum):
    """What sort of line one is in."""

    TEXT = auto()
    HEADING = auto()
    ITEM = auto()
    TABLE = auto()


@dataclass(slots=True)
class State:
    """What is remembered of the text before; it changes only when a token is settled."""

    line_start: bool = True
    line: Line = Line.TEXT
    length: int = 0
    """Characters of this line so far."""
    fence: str = ""
    """The marks that opened the block of code one is in."""
    fence_line: bool = False
    """Whether one is still in the line that opened it."""
    tail: bool = False
    """Whether this word goes on an address that was too long for one chunk."""
    until: str = ""
    """What ends the tag or the link's target that one is in."""
    glued: int = 0
    word: str = ""
    """The last word, in lower case."""
    number: bool = False
    """Whether the last token was a number."""
