"""The smallest part of a text that is never cut: a word, a number with its unit, an address."""

from dataclasses import dataclass
from enum import IntEnum


class Pause(IntEnum):
    """What may follow a token: nothing (glued to the next), or a longer and longer pause."""

    NONE = 0
    WORD = 1
    CLAUSE = 2
    SENTENCE = 3
    PARAGRAPH = 4


@dataclass(frozen=True, slots=True)
class Token:
    """One part of a text: `source` as it was written, `spoken` as it is said.

    The sources of all tokens of a text, joined, are that text, to the last space. `spoken` is
    empty for what nobody says aloud, and carries the punctuation that shapes the voice.
    """

    source: str
    spoken: str
    pause: Pause
