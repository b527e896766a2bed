"""What a language must say of itself so that its texts can be read aloud."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Pair = tuple[str, str]
"""One of it, and several of it."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(text.lower().split())


def table(text: str) -> Mapping[str, str]:
    """Return `key = value` lines as a mapping; several keys may share a line, split by `|`."""
    rows: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        # The sign itself may be a key: "= = equals".
        if found := re.fullmatch(r"(.+?) = (.+)", line.strip()):
            rows |= dict.fromkeys(found[1].split(" | "), found[2].strip())
    return MappingProxyType(rows)


def pairs(text: str) -> Mapping[str, Pair]:
    """Return `key = one, several` lines as a mapping; a single form serves for both."""
    rows: dict[str, Pair] = {}
    for key, value in table(text).items():
        one, _, several = value.partition(",")
        rows[key] = (one.strip(), several.strip() or one.strip())
    return MappingProxyType(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """The words and marks of one language; empty where the voice knows better."""

    language: str
    numbers: str = ""
    """num2words' name of the language; empty where it has none: digits are left to espeak-ng."""
    emoji: str = "en"
    """The emoji library's name of the language."""
    decimal: str = "."
    thousands: str = ","
    point: str = ""
    """How the decimal mark is said."""
    spelled: bool = True
    """Whether decimals are said digit by digit, rather than as a number."""
    minus: str = ""
    plus: str = ""
    to: str = ""
    """Between the ends of a range."""
    by: str = ""
    """Between the sides of a thing."""
    power: str = ""
    """Before an exponent."""
    cents: str = ""
    """Between the units of money and its hundredths."""
    of_money: str = ""
    """Between a million and its money: de, di."""
    clock: str = ""
    """Between hour and minutes, or empty."""
    code: str = ""
    """What is said in place of a block of code."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations, without their last dot, that no sentence ends with."""
    counted: frozenset[str] = frozenset()
    """Those of the titles that are abbreviations before a figure only: no. 5, p. 12."""
    dated: frozenset[str] = frozenset()
    """Those of the titles that are so only with a capital: Mar., Wed."""
    late: Mapping[str, str] = field(default_factory=dict)
    """What a title means when no name follows: Main St., Ocean Dr."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations that may end a sentence."""
    undotted: Mapping[str, str] = field(default_factory=dict)
    """Words that are abbreviated without a dot: Mr, No, vs."""
    symbols: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Pair] = field(default_factory=dict)
    money: Mapping[str, Pair] = field(default_factory=dict)
    cent: Mapping[str, Pair] = field(default_factory=dict)
    multipliers: Mapping[str, str] = field(default_factory=dict)
    months: tuple[str, ...] = ()
    ordinal: str = ""
    """A pattern of what follows a figure that is an ordinal; a group `f` says feminine."""
    starters: frozenset[str] = frozenset()
    """Words that begin a sentence far more often than they follow an abbreviation as a name."""
    joint: str = " "
    """Between the letters of a word that is spelled."""
    letters: Mapping[str, str] = field(default_factory=dict)
    """Letters that espeak-ng would take for a word."""
    spell: frozenset[str] = frozenset()
    """Capitals that espeak-ng takes for a word and a person spells."""
    centuries: frozenset[str] = frozenset()
    """Words beside which Roman figures are a number."""
    kings: frozenset[str] = frozenset()
    """Names after which Roman figures are an ordinal."""
    king_limit: int = 0
    """The last king who is counted by an ordinal."""
    scripts: str = "LATIN"
    """Words that begin the Unicode names of the letters that the voice can read."""
    zero: str = "0"
