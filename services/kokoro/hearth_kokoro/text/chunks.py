"""Cuts a text at its spaces into bounded chunks, the same ones however the text arrives."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

import re
from collections import deque
from dataclasses import dataclass

LIMIT = 200
"""The most characters of a word, and of a run of spaces, that one chunk holds."""

_WORD = re.compile(rf"\S{{0,{LIMIT}}}")
_SPACE = re.compile(rf"\s{{0,{LIMIT}}}")
# Writing without spaces may be cut after its marks, and ours after a dash or an ellipsis between
# words. Possessive: a run that touches the end of what is known must wait for its next character.
_INNER = re.compile(
    r"""(?<![。！？｡、，；：])[。！？｡、，；：]++[」』”’）】》〉"')\]]*+(?=\S)
    | (?<![—…])[—…]++(?=[^\W\d_]) | (?<!\.)\.{3,}+(?=[^\W\d_])""",
    re.VERBOSE,
)
# A cap that would fall inside a number, or before what belongs to the letter before, moves back.
_BOUND = re.compile(r".*[^\w\u0300-\u036f\u200d\ufe0f](?=.)", re.DOTALL)
_JOINING = re.compile(r"[\u0300-\u036f\u0900-\u0903\u093a-\u094f\u200c\u200d\ufe0f]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A word as it was written, the spaces after it, and the character that comes then."""

    text: str
    space: str
    after: str
    continues: bool = False
    """Whether the word was longer than LIMIT and its rest is the next chunk."""

    @property
    def source(self) -> str:
        """The chunk as it was written."""
        return self.text + self.space

    @property
    def line_breaks(self) -> int:
        """How many lines end here, two at the most: two are a paragraph's end."""
        if self.space == " " or not self.space:
            return 0
        if "\u2029" in self.space:
            return 2
        lines = sum(self.space.count(mark) for mark in "\n\u2028\x0b\x0c\x85")
        return min(2, lines or self.space.count("\r"))


class NeedsMoreText(Exception):
    """What comes next must be known first."""


class Window:
    """The chunks that are known and not yet read."""

    def __init__(self) -> None:
        """Begin with none, and more to come."""
        self.chunks: deque[Chunk] = deque()
        self.final = False

    def peek(self, ahead: int) -> Chunk | None:
        """Return the chunk so far ahead, None behind the text's end; raises More."""
        if ahead < len(self.chunks):
            return self.chunks[ahead]
        if self.final:
            return None
        raise NeedsMoreText


def next_chunk(text: str, start: int, final: bool, least: int = 2) -> Chunk | None:
    """Return the chunk at `start`, or None when only more text can say where it ends.

    Writing without spaces is cut at a mark only behind so many characters: `least`.
    """
    known = len(text)
    match = _WORD.match(text, start)
    end = match.end() if match else start
    behind = start + least
    inner = _INNER.search(text, behind, min(end + 1, known)) if end > behind + 1 else None
    if inner and inner.end() < end:
        return Chunk(text[start : inner.end()], "", text[inner.end()])
    if end - start == LIMIT and end < known and not text[end].isspace():
        end = _cap(text, start, end)
        return Chunk(text[start:end], "", text[end], continues=True)
    match = _SPACE.match(text, end)
    stop = match.end() if match else end
    if stop == known and not final and stop - end < LIMIT:
        return None
    if stop == start:
        return None
    return Chunk(text[start:end], text[end:stop], text[stop : stop + 1])


def _cap(text: str, start: int, end: int) -> int:
    """Return where a word that is too long is cut: not in a number, nor before an accent."""
    if (bound := _BOUND.match(text, start, end + 1)) and bound.end() - start >= LIMIT // 2:
        return bound.end()
    cap = end
    while cap > start + LIMIT // 2 and (
        _JOINING.match(text, cap)
        or text[cap - 1] == "\u200d"
        or (text[cap].isdecimal() and text[cap - 1].isdecimal())
    ):
        cap -= 1
    return cap if cap > start + LIMIT // 2 else end
