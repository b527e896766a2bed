"""Says what is written in figures: money, measures, times, dates, ranges, telephone numbers."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from hearth_kokoro.text import dates
from hearth_kokoro.text.fractions import FRACTIONS, fraction
from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.money import forms, money
from hearth_kokoro.text.numbers import (
    any_of,
    before,
    cardinal,
    is_one,
    number,
    one_by_one,
    ordinal,
    parse,
    pattern,
    signed,
    year,
)

Say = Callable[[re.Match[str], Lexicon], str]

_LONGEST = 48
"""The most characters of an amount; longer ones are read part by part."""

_DASH = re.compile(r"\s?[-–—]\s?")
_ZEROS = {"k": 3, "K": 3, "M": 6, "bn": 9}
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


@dataclass(frozen=True, slots=True)
class _Rule:
    form: re.Pattern[str]
    say: Say


def amount(text: str, lexicon: Lexicon) -> str | None:
    """Return how a word of figures is said, or None when it is nothing that we know."""
    if len(text) > _LONGEST:
        return None
    return _one(text, lexicon) or _span(text, lexicon)


def _one(text: str, lexicon: Lexicon) -> str | None:
    for rule in _rules(lexicon):
        if match := rule.form.fullmatch(text):
            return rule.say(match, lexicon)
    return None


def _span(text: str, lexicon: Lexicon) -> str | None:
    """Say two amounts with a dash between: 10:30am-11pm, 20°C-25°C, 1st-3rd."""
    ends = _DASH.split(text)
    if len(ends) != 2 or not all(end[:1].isdecimal() for end in ends) or not lexicon.to:
        return None
    low, high = (_one(end, lexicon) for end in ends)
    return f"{low} {lexicon.to} {high}" if low and high else None


def _plain(match: re.Match[str], lexicon: Lexicon) -> str:
    text = match["n"]
    if not match["sign"] and re.fullmatch(r"10[1-9]\d|1[1-9]\d\d|20\d\d", text):
        return year(text, lexicon)
    return signed(match["sign"], number(text, lexicon), lexicon)


def _measure(match: re.Match[str], lexicon: Lexicon) -> str:
    one, several = lexicon.units[match["unit"]]
    counted = one if is_one(match["n"], lexicon) else several
    said = number(match["n"], lexicon)
    if match["m"]:
        said = f"{said} {lexicon.to} {number(match['m'], lexicon)}"
        counted = several
    whole = counted.format(said) if "{}" in counted else f"{before(said, lexicon)} {counted}"
    return signed(match["sign"], whole, lexicon)


def _many(match: re.Match[str], lexicon: Lexicon) -> str:
    text, times = match["n"], match["times"]
    whole, decimals = parse(text, lexicon)
    # A 4K film and a 5K run are names; 100K readers are many.
    if times == "K" and not decimals and (int(whole) < 11 or whole[-1] != "0"):
        said = f"{number(text, lexicon)} K"
    elif decimals and times in lexicon.multipliers:
        said = f"{number(text, lexicon)} {lexicon.multipliers[times]}"
    else:
        zeros = _ZEROS[times]
        figures = whole + decimals.ljust(zeros, "0") if len(decimals) <= zeros else ""
        said = cardinal(figures.lstrip("0") or "0", lexicon) if figures else number(text, lexicon)
    return signed(match["sign"], said, lexicon)


def _scientific(match: re.Match[str], lexicon: Lexicon) -> str:
    sign, figures = match["e"].rstrip("0123456789"), match["e"].lstrip("-−+")
    exponent = signed(
        "" if sign == "+" else sign, cardinal(figures.lstrip("0") or "0", lexicon), lexicon
    )
    times, ten = lexicon.symbols.get("×", ""), cardinal("10", lexicon)
    said = f"{number(match['n'], lexicon)} {times} {ten} {lexicon.power} {exponent}"
    return signed(match["sign"], said, lexicon)


def _range(match: re.Match[str], lexicon: Lexicon) -> str:
    low, high = (
        year(end, lexicon)
        if re.fullmatch(r"10[1-9]\d|1[1-9]\d\d|20\d\d", end)
        else number(end, lexicon)
        for end in (match["n"], match["m"])
    )
    return f"{low} {lexicon.to} {high}"


def _ordinal(match: re.Match[str], lexicon: Lexicon) -> str:
    said = ordinal(match["n"], lexicon, feminine=bool(match.groupdict().get("f")))
    # 1er, 3er: primer, tercer.
    return said[:-1] if lexicon.language == "es" and match[0].endswith("er") else said


def _decade(match: re.Match[str], lexicon: Lexicon) -> str:
    said = year(match["n"], lexicon) if len(match["n"]) == 4 else cardinal(match["n"], lexicon)
    return said[:-1] + "ies" if said.endswith("y") else f"{said}s"


def _sides(match: re.Match[str], lexicon: Lexicon) -> str:
    return f" {lexicon.by} ".join(
        number(side, lexicon) for side in re.split(r"\s?[x×]\s?", match[0])
    )


def _version(match: re.Match[str], lexicon: Lexicon) -> str:
    mark = lexicon.symbols.get(".", "") if match[0].count(".") > 2 else lexicon.point
    if lexicon.decimal == ",":
        mark = lexicon.symbols.get(".", "")
    said = f" {mark} ".join(cardinal(part, lexicon) for part in match["n"].split("."))
    return f"{match['v']} {said}" if match["v"] else said


def _telephone(match: re.Match[str], lexicon: Lexicon) -> str:
    groups = re.findall(r"\d+", match[0])
    sign = lexicon.plus + " " if match[0].startswith(("+", "(+")) else ""
    pairs = lexicon.language == "fr-fr" and not sign
    say = cardinal if pairs else one_by_one
    said = [
        f"{cardinal('0', lexicon)} {cardinal(group[1], lexicon)}"
        if pairs and group[0] == "0" and len(group) == 2
        else say(group, lexicon)
        for group in groups
    ]
    return sign + ", ".join(said)


def _power(match: re.Match[str], lexicon: Lexicon) -> str:
    if said := lexicon.symbols.get(match["e"]):
        return f"{number(match['n'], lexicon)} {said}"
    exponent = match["e"].translate(_SUPER)
    sign, figures = ("-", exponent[1:]) if exponent.startswith("-") else ("", exponent)
    said = signed(sign, cardinal(figures, lexicon), lexicon)
    return f"{number(match['n'], lexicon)} {lexicon.power} {said}"


@lru_cache(maxsize=16)
def _rules(lexicon: Lexicon) -> tuple[_Rule, ...]:
    n, sign = pattern(lexicon), r"(?P<sign>[-−–+±~]?)"
    part = rf"\d{{1,4}}/\d{{1,4}}|[{''.join(FRACTIONS)}]"
    rows: list[tuple[str, Say]] = [*dates.rules(lexicon)]
    if lexicon.language.startswith("en"):
        rows += [(r"[’']?(?P<n>\d?\d?\d0)s", _decade), (r"\d{3}-\d{4}", _telephone)]
    if lexicon.ordinal:
        rows += [(rf"(?P<n>\d{{1,9}}){lexicon.ordinal}", _ordinal)]
    rows += [(form, money) for form in forms(lexicon)]
    if lexicon.units:
        unit = any_of(lexicon.units)
        rows += [(rf"{sign}(?P<n>{n})(?:\s?[-–—−]\s?(?P<m>{n}))?[\s-]?(?P<unit>{unit})", _measure)]
    rows += [
        (rf"(?P<whole>)(?P<part>{part})", fraction),
        (rf"(?P<whole>\d{{1,6}})\s?(?P<part>{part})", fraction),
        (rf"{sign}(?P<n>{n})", _plain),
        (rf"{sign}(?P<n>{n})(?P<times>k|K|M|bn)", _many),
        (rf"{sign}(?P<n>{n})[eE](?P<e>[-−+]?\d{{1,3}})", _scientific),
        (r"(?P<v>[vV]?)(?P<n>\d{1,6}(?:\.\d{1,6}){2,7})", _version),
        (r"(?P<v>[vV])(?P<n>\d{1,6}(?:\.\d{1,6})?)", _version),
        (rf"(?P<n>{n})\s?[-–—−]\s?(?P<m>{n})", _range),
        (rf"{n}(?:\s?[x×]\s?{n}){{1,3}}", _sides),
        (rf"(?P<n>{n})(?:\^|(?=[⁻⁰-⁹¹²³]))(?P<e>-?\d{{1,4}}|⁻?[⁰¹²³⁴-⁹]{{1,4}})", _power),
        (r"\(?\+?\d[\d()./\s–-]{5,24}\d", _telephone),
    ]
    return tuple(_Rule(re.compile(form), say) for form, say in rows)
