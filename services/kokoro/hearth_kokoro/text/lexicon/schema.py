"""The fields of a language's lexicon, and helpers to write them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Pair = tuple[str, str]
"""Singular and plural."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case."""
    return frozenset(text.lower().split())


def table(text: str) -> Mapping[str, str]:
    """Parse `key = value` lines; `|` separates several keys of one line."""
    rows: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        # The equals sign itself may be a key: "= = equals".
        if found := re.fullmatch(r"(.+?) = (.+)", line.strip()):
            rows |= dict.fromkeys(found[1].split(" | "), found[2].strip())
    return MappingProxyType(rows)


def pairs(text: str) -> Mapping[str, Pair]:
    """Parse `key = singular, plural` lines; a single form is used for both."""
    rows: dict[str, Pair] = {}
    for key, value in table(text).items():
        one, _, several = value.partition(",")
        rows[key] = (one.strip(), several.strip() or one.strip())
    return MappingProxyType(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """The words of one language; an empty field leaves the text to espeak-ng or misaki."""

    language: str
    numbers: str = ""
    """num2words' name of the language; empty where it has none: digits are left to espeak-ng."""
    emoji: str = "en"
    """The emoji library's name of the language."""
    decimal: str = "."
    thousands: str = ","
    point: str = ""
    """The name of the decimal mark."""
    spelled: bool = True
    """Whether decimals are read digit by digit, not as a number."""
    minus: str = ""
    plus: str = ""
    to: str = ""
    """Between the ends of a range."""
    by: str = ""
    """Between dimensions, as in "two by four"."""
    power: str = ""
    """Before an exponent."""
    cents: str = ""
    """Between an amount of money and its cents."""
    of_money: str = ""
    """Between a million and the currency: de, di."""
    clock: str = ""
    """Between hour and minutes, or empty."""
    code: str = ""
    """Read instead of a code block."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations, without their last dot, that do not end a sentence."""
    counted: frozenset[str] = frozenset()
    """Titles that are abbreviations only before a number: no. 5, p. 12."""
    dated: frozenset[str] = frozenset()
    """Titles that are abbreviations only with a capital: Mar., Wed."""
    late: Mapping[str, str] = field(default_factory=dict)
    """The meaning of a title without a name after it: Main St., Ocean Dr."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations that may end a sentence."""
    undotted: Mapping[str, str] = field(default_factory=dict)
    """Abbreviations without a dot: Mr, No, vs."""
    symbols: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Pair] = field(default_factory=dict)
    money: Mapping[str, Pair] = field(default_factory=dict)
    cent: Mapping[str, Pair] = field(default_factory=dict)
    multipliers: Mapping[str, str] = field(default_factory=dict)
    months: tuple[str, ...] = ()
    ordinal: str = ""
    """A pattern of the suffix of an ordinal in figures; its group `f` means feminine."""
    starters: frozenset[str] = frozenset()
    """Words that usually start a sentence after an abbreviation, and are not names."""
    joint: str = " "
    """Between the letters of a spelled word."""
    letters: Mapping[str, str] = field(default_factory=dict)
    """Letters that espeak-ng would read as a word."""
    spell: frozenset[str] = frozenset()
    """Acronyms that people spell and espeak-ng would read as a word."""
    centuries: frozenset[str] = frozenset()
    """Words before or after which a Roman numeral is a number."""
    kings: frozenset[str] = frozenset()
    """Names before a Roman numeral that is an ordinal."""
    king_limit: int = 0
    """The largest Roman numeral after a name that is an ordinal."""
    scripts: str = "LATIN"
    """The first words of the Unicode names of letters that the voice can read."""
    zero: str = "0"
