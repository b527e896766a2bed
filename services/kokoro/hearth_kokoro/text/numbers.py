"""Verbalizes numbers; espeak-ng reads the digits of languages that num2words does not support."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from num2words import num2words

from hearth_kokoro.text.lexicon.schema import Lexicon

_LONGEST = 15
_GAPS = "\u00a0\u202f\u2009 '\u2019"


@lru_cache(maxsize=16)
def number_pattern(lexicon: Lexicon) -> str:
    """Return the pattern of a number without its sign, as this language writes it."""
    if lexicon.language == "hi":
        return r"(?:\d{1,3}(?:,\d{2,3})+(?!\d)|\d+)(?:\.\d+)?"
    mark, point = re.escape(lexicon.thousands), re.escape(lexicon.decimal)
    grouped = rf"\d{{1,3}}(?:[{mark}{_GAPS}]\d{{3}}(?!\d))+"
    foreign = r"|\d+\.\d+" if lexicon.decimal == "," else ""
    return (
        rf"(?:(?:{grouped}|\d+(?!\.\d))(?:{point}\d+)?{foreign})"
        if foreign
        else (rf"(?:{grouped}|\d+)(?:{point}\d+)?")
    )


def any_of(keys: Iterable[str]) -> str:
    """Return the pattern of any of these words, the longest first."""
    return "|".join(re.escape(key) for key in sorted(keys, key=len, reverse=True))


def parse_number(text: str, lexicon: Lexicon) -> tuple[str, str]:
    """Return the whole figures and the decimals of a number that `pattern` matched."""
    for gap in _GAPS:
        text = text.replace(gap, "")
    grouped = re.fullmatch(r"\d{1,3}(?:[.,]\d{2,3})*[.,]\d{3}", text)
    if lexicon.decimal == "," and "," not in text and not grouped:
        whole, _, decimals = text.partition(".")
        # Marks of two styles in one number: the decimals follow the first point.
        return whole, decimals.replace(".", "")
    whole, _, decimals = text.replace(lexicon.thousands, "").partition(lexicon.decimal)
    return whole, decimals


def cardinal(figures: str, lexicon: Lexicon) -> str:
    """Return an integer in words; with a leading zero, or if too long, digit by digit."""
    if not lexicon.numbers:
        return figures
    if len(figures) > _LONGEST or (len(figures) > 1 and figures[0] == "0"):
        return digit_by_digit(figures, lexicon)
    return _to_words(int(figures), lexicon.numbers, "cardinal", lexicon.language)


def digit_by_digit(figures: str, lexicon: Lexicon) -> str:
    """Return each figure's name."""
    if not lexicon.numbers:
        return " ".join(figures)
    return " ".join(
        _to_words(int(figure), lexicon.numbers, "cardinal", lexicon.language) for figure in figures
    )


@lru_cache(maxsize=4096)
def number(text: str, lexicon: Lexicon) -> str:
    """Return a number in words, with its decimals."""
    whole, decimals = parse_number(text, lexicon)
    spoken = cardinal(whole, lexicon)
    if not decimals:
        return spoken
    if not lexicon.point:
        return text
    if lexicon.spelled or len(decimals) > 2 or decimals[0] == "0":
        return f"{spoken} {lexicon.point} {digit_by_digit(decimals, lexicon)}"
    return f"{spoken} {lexicon.point} {cardinal(decimals, lexicon)}"


def year(figures: str, lexicon: Lexicon) -> str:
    """Return a year in words."""
    if lexicon.numbers.startswith("en"):
        return _to_words(int(figures), lexicon.numbers, "year", lexicon.language)
    return cardinal(figures, lexicon)


def ordinal(figures: str, lexicon: Lexicon, *, feminine: bool = False) -> str:
    """Return an ordinal: first, second, third."""
    if not lexicon.numbers or len(figures) > _LONGEST:
        return cardinal(figures, lexicon)
    spoken = _to_words(int(figures), lexicon.numbers, "ordinal", lexicon.language)
    if not feminine:
        return spoken
    if lexicon.language == "fr-fr":
        return "première" if spoken == "premier" else spoken
    if lexicon.language == "it":
        return spoken[:-1] + "a"
    return " ".join(word[:-1] + "a" if word.endswith("o") else word for word in spoken.split())


def is_singular(text: str, lexicon: Lexicon) -> bool:
    """Return whether the noun after this number is singular."""
    whole, decimals = parse_number(text, lexicon)
    if lexicon.language == "fr-fr":
        return Decimal(f"{whole}.{decimals or 0}") < 2
    return whole == "1" and not decimals


def signed(sign: str, spoken: str, lexicon: Lexicon) -> str:
    """Return the number with its sign in words."""
    word = {
        "-": lexicon.minus,
        "−": lexicon.minus,
        "–": lexicon.minus,
        "+": lexicon.plus,
        "±": lexicon.symbols.get("±", ""),
        "~": lexicon.symbols.get("≈", ""),
    }.get(sign, "")
    return f"{word} {spoken}" if word else spoken


def shorten_before_noun(spoken: str, lexicon: Lexicon) -> str:
    """Return the short form of a number before a noun: uno becomes un."""
    if lexicon.language == "es":
        return re.sub(r"\buno$", "un", re.sub(r"veintiuno$", "veintiún", spoken))
    if lexicon.language == "it":
        return re.sub(r"^uno$", "un", spoken)
    return spoken


@lru_cache(maxsize=4096)
def _to_words(value: int, language: str, form: str, variant: str) -> str:
    spoken = str(num2words(value, lang=language, to=form)).replace(",", "")
    # Britain says "two hundred and five"; America leaves the "and" out.
    return spoken.replace(" and ", " ") if variant == "en-us" else spoken
