"""Which parts of an argument also occur in what the run read from outside.

A text that an agent copies is found here, also within other text and with other spaces or
capitals. One that it rewrites is not: so a proposal also shows everything that the run read.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from hearth.approvals.proposal import Mark, Read

# Between words; and what may stand around one, as in `"word":`.
_BETWEEN = r"\s\"'`,;(){}\[\]<>|"
_AROUND = ".:=-!?*_"
_WORD = re.compile(f"[^{_BETWEEN}]+")
# A single word of a file's new text is marked from this length on, and two from that.
_LEAST, _LEAST_WORDS = 5, 8
MOST_MARKS = 50
# What is searched in, of one read.
_READ_CHARACTERS = 128 * 1024


@dataclass(frozen=True, slots=True)
class Text:
    """One argument: `whole` if it is one value, such as a name; else text with parts."""

    argument: str
    text: str
    whole: bool


def marks(
    texts: Sequence[Text], reads: Sequence[Read], known: Collection[str] = ()
) -> tuple[list[Mark], int]:
    """Return the parts of these arguments that occur in a read, and how many more there are.

    Each is there once for each origin. Of too many, every origin keeps its longest: one page full
    of words must not crowd out another. `known` are words that the house itself uses: alone they
    say nothing about their source.
    """
    found: dict[str, dict[Mark, None]] = {}
    for read in reads:
        words = _words(read.text[:_READ_CHARACTERS])
        # Between spaces, so that only whole words match.
        joined = f" {' '.join(words)} "
        source = _Source(joined, frozenset(words), frozenset(pairwise(words)))
        own = found.setdefault(read.origin, {})
        for one in texts:
            own |= {
                Mark(one.argument, read.origin, text): None for text in _found(one, source, known)
            }
    longest = [sorted(own, key=lambda mark: -len(mark.text)) for own in found.values()]
    turns = [mark for turn in zip_longest(*longest) for mark in turn if mark]
    return turns[:MOST_MARKS], len(turns[MOST_MARKS:])


@dataclass(frozen=True, slots=True)
class _Source:
    joined: str
    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    def has(self, words: Sequence[str]) -> bool:
        return f" {' '.join(words)} " in self.joined


def _words(text: str) -> list[str]:
    """Return the words of a text, without what stands around them."""
    return [word for raw in _WORD.findall(text.casefold()) if (word := raw.strip(_AROUND))]


def _found(one: Text, source: _Source, known: Collection[str]) -> list[str]:
    words = _words(one.text)
    if one.whole:
        return [one.text] if words and source.has(words) else []
    found, at = [], 0
    while at < len(words):
        length = _longest(words, at, source)
        run = words[at : at + length]
        if _says_something(run, known):
            found.append(" ".join(run))
        at += max(length, 1)
    return found


def _longest(words: Sequence[str], at: int, source: _Source) -> int:
    """Return how many words from `at` on occur in the source one after the other."""
    if words[at] not in source.words:
        return 0
    length = 1
    # The pair first: a search through the whole source takes far longer.
    while tuple(words[at + length - 1 : at + length + 1]) in source.pairs:
        if not source.has(words[at : at + length + 1]):
            break
        length += 1
    return length


def _says_something(run: Sequence[str], known: Collection[str]) -> bool:
    if len(run) == 1:
        return len(run[0]) >= _LEAST and run[0] not in known
    return sum(map(len, run)) >= _LEAST_WORDS and any(word not in known for word in run)


def texts_of(name: str, value: object) -> list[Text]:
    """Return the texts in an argument, each with the way to it."""
    if isinstance(value, str):
        return [Text(name, value, whole="\n" not in value and len(value) <= 100)]
    if isinstance(value, Mapping):
        pairs = [(f"{name}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"{name}[{index}]", item) for index, item in enumerate(value)]
    else:
        return []
    return [text for key, item in pairs for text in texts_of(key, item)]


def known_words(texts: Sequence[str]) -> frozenset[str]:
    """Return the words that these texts of the house use."""
    return frozenset(word for text in texts for word in _words(text))


def pattern(mark: Mark) -> re.Pattern[str]:
    """Return what finds the text of a mark in an argument again."""
    between = f"[{_BETWEEN}{re.escape(_AROUND)}]+"
    words = (re.escape(word) for word in _words(mark.text))
    return re.compile(between.join(words) or "(?!)", re.IGNORECASE)
