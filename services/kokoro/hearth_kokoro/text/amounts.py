"""Verbalizes figures: money, measures, fractions, times, dates, ranges, telephone numbers."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from hearth_kokoro.text import dates
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.numbers import (
    any_of,
    cardinal,
    digit_by_digit,
    is_singular,
    number,
    number_pattern,
    ordinal,
    parse_number,
    shorten_before_noun,
    signed,
    year,
)

Verbalize = Callable[[re.Match[str], Lexicon], str]

_LONGEST = 48
"""The most characters of an amount; a longer one is split."""

_DASH = re.compile(r"\s?[-–—]\s?")
_ZEROS = {"k": 3, "K": 3, "M": 6, "bn": 9}
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


@dataclass(frozen=True, slots=True)
class _Rule:
    form: re.Pattern[str]
    verbalize: Verbalize


def verbalize_amount(text: str, lexicon: Lexicon) -> str | None:
    """Return the spoken form of figures, or None if no rule matches."""
    if len(text) > _LONGEST:
        return None
    return _one(text, lexicon) or _span(text, lexicon)


def _one(text: str, lexicon: Lexicon) -> str | None:
    for rule in _rules(lexicon):
        if match := rule.form.fullmatch(text):
            return rule.verbalize(match, lexicon)
    return None


def _span(text: str, lexicon: Lexicon) -> str | None:
    """Verbalize two amounts with a dash between them: 10:30am-11pm, 20°C-25°C, 1st-3rd."""
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
    counted = one if is_singular(match["n"], lexicon) else several
    spoken = number(match["n"], lexicon)
    if match["m"]:
        spoken = f"{spoken} {lexicon.to} {number(match['m'], lexicon)}"
        counted = several
    whole = (
        counted.format(spoken)
        if "{}" in counted
        else f"{shorten_before_noun(spoken, lexicon)} {counted}"
    )
    return signed(match["sign"], whole, lexicon)


def _many(match: re.Match[str], lexicon: Lexicon) -> str:
    text, times = match["n"], match["times"]
    whole, decimals = parse_number(text, lexicon)
    # In "4K film" and "5K run" the K is a name; in "100K readers" it means thousand.
    if times == "K" and not decimals and (int(whole) < 11 or whole[-1] != "0"):
        spoken = f"{number(text, lexicon)} K"
    elif decimals and times in lexicon.multipliers:
        spoken = f"{number(text, lexicon)} {lexicon.multipliers[times]}"
    else:
        zeros = _ZEROS[times]
        figures = whole + decimals.ljust(zeros, "0") if len(decimals) <= zeros else ""
        spoken = cardinal(figures.lstrip("0") or "0", lexicon) if figures else number(text, lexicon)
    return signed(match["sign"], spoken, lexicon)


def _scientific(match: re.Match[str], lexicon: Lexicon) -> str:
    sign, figures = match["e"].rstrip("0123456789"), match["e"].lstrip("-−+")
    exponent = signed(
        "" if sign == "+" else sign, cardinal(figures.lstrip("0") or "0", lexicon), lexicon
    )
    times, ten = lexicon.symbols.get("×", ""), cardinal("10", lexicon)
    spoken = f"{number(match['n'], lexicon)} {times} {ten} {lexicon.power} {exponent}"
    return signed(match["sign"], spoken, lexicon)


def _range(match: re.Match[str], lexicon: Lexicon) -> str:
    low, high = (
        year(end, lexicon)
        if re.fullmatch(r"10[1-9]\d|1[1-9]\d\d|20\d\d", end)
        else number(end, lexicon)
        for end in (match["n"], match["m"])
    )
    return f"{low} {lexicon.to} {high}"


def _ordinal(match: re.Match[str], lexicon: Lexicon) -> str:
    spoken = ordinal(match["n"], lexicon, feminine=bool(match.groupdict().get("f")))
    # 1er, 3er: primer, tercer.
    return spoken[:-1] if lexicon.language == "es" and match[0].endswith("er") else spoken


def _decade(match: re.Match[str], lexicon: Lexicon) -> str:
    spoken = year(match["n"], lexicon) if len(match["n"]) == 4 else cardinal(match["n"], lexicon)
    return spoken[:-1] + "ies" if spoken.endswith("y") else f"{spoken}s"


def _sides(match: re.Match[str], lexicon: Lexicon) -> str:
    return f" {lexicon.by} ".join(
        number(side, lexicon) for side in re.split(r"\s?[x×]\s?", match[0])
    )


def _version(match: re.Match[str], lexicon: Lexicon) -> str:
    mark = lexicon.symbols.get(".", "") if match[0].count(".") > 2 else lexicon.point
    if lexicon.decimal == ",":
        mark = lexicon.symbols.get(".", "")
    spoken = f" {mark} ".join(cardinal(part, lexicon) for part in match["n"].split("."))
    return f"{match['v']} {spoken}" if match["v"] else spoken


def _telephone(match: re.Match[str], lexicon: Lexicon) -> str:
    groups = re.findall(r"\d+", match[0])
    sign = lexicon.plus + " " if match[0].startswith(("+", "(+")) else ""
    pairs = lexicon.language == "fr-fr" and not sign
    verbalize = cardinal if pairs else digit_by_digit
    spoken = [
        f"{cardinal('0', lexicon)} {cardinal(group[1], lexicon)}"
        if pairs and group[0] == "0" and len(group) == 2
        else verbalize(group, lexicon)
        for group in groups
    ]
    return sign + ", ".join(spoken)


def _power(match: re.Match[str], lexicon: Lexicon) -> str:
    if spoken := lexicon.symbols.get(match["e"]):
        return f"{number(match['n'], lexicon)} {spoken}"
    exponent = match["e"].translate(_SUPER)
    sign, figures = ("-", exponent[1:]) if exponent.startswith("-") else ("", exponent)
    spoken = signed(sign, cardinal(figures, lexicon), lexicon)
    return f"{number(match['n'], lexicon)} {lexicon.power} {spoken}"


@lru_cache(maxsize=16)
def _rules(lexicon: Lexicon) -> tuple[_Rule, ...]:
    n, sign = number_pattern(lexicon), r"(?P<sign>[-−–+±~]?)"
    part = rf"\d{{1,4}}/\d{{1,4}}|[{''.join(_FRACTIONS)}]"
    rows: list[tuple[str, Verbalize]] = [*dates.date_rules(lexicon)]
    if lexicon.language.startswith("en"):
        rows += [(r"[’']?(?P<n>\d?\d?\d0)s", _decade), (r"\d{3}-\d{4}", _telephone)]
    if lexicon.ordinal:
        rows += [(rf"(?P<n>\d{{1,9}}){lexicon.ordinal}", _ordinal)]
    rows += [(form, _money) for form in _money_forms(lexicon)]
    if lexicon.units:
        unit = any_of(lexicon.units)
        rows += [(rf"{sign}(?P<n>{n})(?:\s?[-–—−]\s?(?P<m>{n}))?[\s-]?(?P<unit>{unit})", _measure)]
    rows += [
        (rf"(?P<whole>)(?P<part>{part})", _fraction),
        (rf"(?P<whole>\d{{1,6}})\s?(?P<part>{part})", _fraction),
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
    return tuple(_Rule(re.compile(form), verbalize) for form, verbalize in rows)


_THOUSANDS = frozenset({"mil", "mille", "mila"})


def _money_forms(lexicon: Lexicon) -> list[str]:
    """Return the patterns of money: the currency before or after the figures."""
    if not lexicon.money:
        return []
    money, n = any_of(lexicon.money), number_pattern(lexicon)
    times = rf"\s?(?P<{{}}>{any_of(lexicon.multipliers)})?"
    first = rf"(?P<n>{n}){times.format('few')}"
    until = rf"(?:\s?[-–—]\s?(?:{money})?\s?(?P<m>{n}){times.format('times')})?"
    sign = r"(?P<sign>[-−–+±~]?)"
    return [
        rf"{sign}(?P<before>{money})\s?{first}{until}(?P<behind>)",
        rf"{sign}(?P<before>){first}{until}\s?(?P<behind>{money})",
    ]


def _money(match: re.Match[str], lexicon: Lexicon) -> str:
    """Return an amount of money in words, or a range of two."""
    symbol = match["before"] or match["behind"]
    several = lexicon.money[symbol][1]
    if not match["m"]:
        spoken = _sum(match["n"], match["few"], symbol, lexicon)
    elif match["times"]:
        low = number(match["n"], lexicon)
        if match["few"] and match["few"] != match["times"]:
            low = f"{low} {lexicon.multipliers[match['few']]}"
        spoken = f"{low} {lexicon.to} {_sum(match['m'], match['times'], symbol, lexicon)}"
    elif lexicon.decimal in match["n"] + match["m"]:
        low, high = (_sum(match[end], None, symbol, lexicon) for end in "nm")
        spoken = f"{low} {lexicon.to} {high}"
    else:
        low, high = (number(match[end], lexicon) for end in "nm")
        spoken = f"{low} {lexicon.to} {shorten_before_noun(high, lexicon)} {several}"
    return signed(match["sign"], spoken, lexicon)


def _sum(text: str, times: str | None, symbol: str, lexicon: Lexicon) -> str:
    one, several = lexicon.money[symbol]
    if times:
        many = lexicon.multipliers[times]
        # "de" or "di" comes between a million and the currency, but not after a thousand.
        of = f"{lexicon.of_money} " if lexicon.of_money and many not in _THOUSANDS else ""
        return f"{number(text, lexicon)} {many} {of}{several}"
    cents = re.fullmatch(rf"(.*){re.escape(lexicon.decimal)}(\d\d)", text)
    if not cents or symbol not in lexicon.cent:
        spoken = shorten_before_noun(number(text, lexicon), lexicon)
        return f"{spoken} {one if is_singular(text, lexicon) else several}"
    whole, small = cents[1], cents[2].lstrip("0")
    spoken = shorten_before_noun(number(whole, lexicon), lexicon)
    spoken = f"{spoken} {one if is_singular(whole, lexicon) else several}"
    if not small:
        return spoken
    cent = lexicon.cent[symbol][0 if small == "1" else 1]
    bits = f"{shorten_before_noun(cardinal(small, lexicon), lexicon)} {cent}"
    # Only the cents, if there are no dollars.
    return " ".join(filter(None, (spoken, lexicon.cents, bits))) if whole.strip("0") else bits


_FRACTIONS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}
_NAMED_FRACTIONS = {
    "en": {
        "1/2": "half",
        "1/3": "third",
        "2/3": "two thirds",
        "1/4": "quarter",
        "3/4": "three quarters",
        "1/8": "eighth",
    },
    "es": {
        "1/2": "medio",
        "1/3": "un tercio",
        "2/3": "dos tercios",
        "1/4": "un cuarto",
        "3/4": "tres cuartos",
        "1/8": "un octavo",
    },
    "fr": {
        "1/2": "demi",
        "1/3": "un tiers",
        "2/3": "deux tiers",
        "1/4": "un quart",
        "3/4": "trois quarts",
        "1/8": "un huitième",
    },
    "it": {
        "1/2": "mezzo",
        "1/3": "un terzo",
        "2/3": "due terzi",
        "1/4": "un quarto",
        "3/4": "tre quarti",
        "1/8": "un ottavo",
    },
    "pt": {
        "1/2": "meio",
        "1/3": "um terço",
        "2/3": "dois terços",
        "1/4": "um quarto",
        "3/4": "três quartos",
        "1/8": "um oitavo",
    },
}
_AND = {"en": "and", "es": "y", "fr": "et", "it": "e", "pt": "e", "hi": "और"}


def _fraction(match: re.Match[str], lexicon: Lexicon) -> str:
    """Return a fraction in words, with the whole number before it."""
    whole, text = match["whole"], _FRACTIONS.get(match["part"], match["part"])
    kind = lexicon.language[:2]
    part = _NAMED_FRACTIONS.get(kind, {}).get(text)
    if part is None:
        over = {"en": "over", "es": "sobre", "fr": "sur", "it": "su", "pt": "sobre"}.get(
            kind, "बटा"
        )
        top, _, bottom = text.partition("/")
        # 9/11 and 24/7 are not fractions.
        between = over if 2 <= int(bottom) <= 10 or bottom == "100" else ""
        part = " ".join(filter(None, (cardinal(top, lexicon), between, cardinal(bottom, lexicon))))
    elif kind == "en" and text.startswith("1/"):
        part = f"a {part}" if whole else ("one " + part)
    return f"{cardinal(whole, lexicon)} {_AND.get(kind, '')} {part}" if whole else part
