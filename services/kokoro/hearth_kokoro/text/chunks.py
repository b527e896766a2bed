"""Splits a text at its spaces into bounded chunks, independent of how the text arrives."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re
from collections import deque
from dataclasses import dataclass

LIMIT = 200
"""The most characters of a word, and of a run of spaces, in one chunk."""

_WORD = re.compile(rf"\S{{0,{LIMIT}}}")
_SPACE = re.compile(rf"\s{{0,{LIMIT}}}")
# Text without spaces may be split after its marks, other text after a dash or an ellipsis between
# words. The quantifiers are possessive: a run at the end of known text waits for more.
_INNER = re.compile(
    r"""(?<![。！？｡、，；：])[。！？｡、，；：]++[」』”’）】》〉"')\]]*+(?=\S)
    | (?<![—…])[—…]++(?=[^\W\d_]) | (?<!\.)\.{3,}+(?=[^\W\d_])""",
    re.VERBOSE,
)
# A forced split moves back if it would be inside a number or before a combining character.
_BOUND = re.compile(r".*[^\w\u0300-\u036f\u200d\ufe0f](?=.)", re.DOTALL)
_JOINING = re.compile(r"[\u0300-\u036f\u0900-\u0903\u093a-\u094f\u200c\u200d\ufe0f]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A word as it was written, the spaces after it, and the next character."""

    text: str
    space: str
    after: str
    continues: bool = False
    """Whether the word was longer than LIMIT and continues in the next chunk."""

    @property
    def source(self) -> str:
        """The chunk as it was written."""
        return self.text + self.space

    @property
    def line_breaks(self) -> int:
        """The number of lines that end here, at most 2, which means the end of a paragraph."""
        if self.space == " " or not self.space:
            return 0
        if "\u2029" in self.space:
            return 2
        lines = sum(self.space.count(mark) for mark in "\n\u2028\x0b\x0c\x85")
        return min(2, lines or self.space.count("\r"))


class NeedsMoreText(Exception):
    """A decision depends on text that has not arrived yet."""


class Window:
    """The chunks that are known and not tokenized yet; `final` if no more can come."""

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self.final = False

    def peek(self, ahead: int) -> Chunk | None:
        """Return the chunk at this distance, None after the end; raises NeedsMoreText."""
        if ahead < len(self.chunks):
            return self.chunks[ahead]
        if self.final:
            return None
        raise NeedsMoreText


def next_chunk(text: str, start: int, final: bool, least: int = 2) -> Chunk | None:
    """Return the chunk at `start`, or None if its end depends on more text.

    Text without spaces is split at a mark only after `least` characters.
    """
    known = len(text)
    match = _WORD.match(text, start)
    end = match.end() if match else start
    behind = start + least
    inner = _INNER.search(text, behind, min(end + 1, known)) if end > behind + 1 else None
    if inner and inner.end() < end:
        return Chunk(text[start : inner.end()], "", text[inner.end()])
    if end - start == LIMIT and end < known and not text[end].isspace():
        end = _forced_end(text, start, end)
        return Chunk(text[start:end], "", text[end], continues=True)
    match = _SPACE.match(text, end)
    stop = match.end() if match else end
    if stop == known and not final and stop - end < LIMIT:
        return None
    if stop == start:
        return None
    return Chunk(text[start:end], text[end:stop], text[stop : stop + 1])


def _forced_end(text: str, start: int, end: int) -> int:
    """Return where a word that is too long is split: not in a number or before an accent."""
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
