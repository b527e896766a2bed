"""Says what is written in figures: money, measures, times, dates, ranges, telephone numbers."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from hearth_kokoro.text import dates
from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.numbers import cardinal, is_one, number, one_by_one, ordinal, pattern, year

Say = Callable[[re.Match[str], Lexicon], str]

_LONGEST = 48
"""The most characters of an amount; longer ones are read part by part."""

FRACTIONS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}
_HALVES = {
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
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


@dataclass(frozen=True, slots=True)
class _Rule:
    form: re.Pattern[str]
    say: Say


def amount(text: str, lexicon: Lexicon) -> str | None:
    """Return how a word of figures is said, or None when it is nothing that we know."""
    if len(text) > _LONGEST:
        return None
    for rule in _rules(lexicon):
        if match := rule.form.fullmatch(text):
            return rule.say(match, lexicon)
    return None


def _signed(sign: str, said: str, lexicon: Lexicon) -> str:
    word = {
        "-": lexicon.minus,
        "−": lexicon.minus,
        "–": lexicon.minus,
        "+": lexicon.plus,
        "±": lexicon.symbols.get("±", ""),
        "~": lexicon.symbols.get("≈", ""),
    }.get(sign, "")
    return f"{word} {said}" if word else said


def _plain(match: re.Match[str], lexicon: Lexicon) -> str:
    text = match["n"]
    if not match["sign"] and re.fullmatch(r"1[1-9]\d\d|20\d\d", text):
        return year(text, lexicon)
    return _signed(match["sign"], number(text, lexicon), lexicon)


def _measure(match: re.Match[str], lexicon: Lexicon) -> str:
    one, several = lexicon.units[match["unit"]]
    counted = one if is_one(match["n"], lexicon) else several
    said = number(match["n"], lexicon)
    if match["m"]:
        said = f"{said} {lexicon.to} {number(match['m'], lexicon)}"
        counted = several
    return _signed(match["sign"], f"{_before(said, lexicon)} {counted}", lexicon)


def _before(said: str, lexicon: Lexicon) -> str:
    """Shorten a number before what it counts: uno becomes un."""
    if lexicon.language == "es":
        return re.sub(r"\buno$", "un", re.sub(r"veintiuno$", "veintiún", said))
    if lexicon.language == "it":
        return re.sub(r"^uno$", "un", said)
    return said


def _money(match: re.Match[str], lexicon: Lexicon) -> str:
    found = match.groupdict()
    symbol = found["before"] or found["behind"]
    one, several = lexicon.money[symbol]
    text = found["n"]
    if times := found["times"]:
        many = f"{number(text, lexicon)} {lexicon.multipliers[times]}"
        return _signed(found["sign"], f"{many} {_of(times, lexicon)}{several}", lexicon)
    cents = re.fullmatch(rf"(.*){re.escape(lexicon.decimal)}(\d\d)", text)
    if not cents or symbol not in lexicon.cent:
        said = _before(number(text, lexicon), lexicon)
        return _signed(
            found["sign"], f"{said} {one if is_one(text, lexicon) else several}", lexicon
        )
    whole, small = cents[1], cents[2].lstrip("0")
    said = _before(number(whole, lexicon), lexicon)
    said = f"{said} {one if is_one(whole, lexicon) else several}"
    if small:
        cent = lexicon.cent[symbol][0 if small == "1" else 1]
        bits = f"{_before(cardinal(small, lexicon), lexicon)} {cent}"
        zero = not whole.strip("0")
        said = bits if zero else " ".join(filter(None, (said, lexicon.cents, bits)))
    return _signed(found["sign"], said, lexicon)


def _of(times: str, lexicon: Lexicon) -> str:
    """Return de or di, which stands between a million and its money, not after a thousand."""
    if not lexicon.of_money or lexicon.multipliers[times] in {"mil", "mille", "mila"}:
        return ""
    return f"{lexicon.of_money} "


def _range(match: re.Match[str], lexicon: Lexicon) -> str:
    low, high = (
        year(end, lexicon) if re.fullmatch(r"1[1-9]\d\d|20\d\d", end) else number(end, lexicon)
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


def _fraction(match: re.Match[str], lexicon: Lexicon) -> str:
    whole, text = match["whole"], FRACTIONS.get(match["part"], match["part"])
    kind = lexicon.language[:2]
    part = _HALVES.get(kind, {}).get(text)
    if part is None:
        over = {"en": "over", "es": "sobre", "fr": "sur", "it": "su", "pt": "sobre"}.get(
            kind, "बटा"
        )
        top, _, bottom = text.partition("/")
        # 9/11 and 24/7 are no fractions.
        between = over if 2 <= int(bottom) <= 10 or bottom == "100" else ""
        part = " ".join(filter(None, (cardinal(top, lexicon), between, cardinal(bottom, lexicon))))
    elif kind == "en" and text.startswith("1/"):
        part = f"a {part}" if whole else ("one " + part)
    return f"{cardinal(whole, lexicon)} {_AND.get(kind, '')} {part}" if whole else part


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
    said = _signed(sign, cardinal(figures, lexicon), lexicon)
    return f"{number(match['n'], lexicon)} {lexicon.power} {said}"


def _any(keys: object) -> str:
    """Return the pattern of any of these words, the longest first."""
    return "|".join(re.escape(key) for key in sorted(map(str, list(keys)), key=len, reverse=True))  # type: ignore[call-overload]


@lru_cache(maxsize=16)
def _rules(lexicon: Lexicon) -> tuple[_Rule, ...]:
    n, sign = pattern(lexicon), r"(?P<sign>[-−–+±~]?)"
    part = rf"\d{{1,4}}/\d{{1,4}}|[{''.join(FRACTIONS)}]"
    money, times = _any(lexicon.money), _any(lexicon.multipliers)
    rows: list[tuple[str, Say]] = [*dates.rules(lexicon)]
    if lexicon.language.startswith("en"):
        rows += [(r"[’']?(?P<n>\d?\d?\d0)s", _decade)]
    if lexicon.ordinal:
        rows += [(rf"(?P<n>\d{{1,9}}){lexicon.ordinal}", _ordinal)]
    if lexicon.money:
        rows += [
            (rf"{sign}(?P<before>{money})\s?(?P<n>{n})\s?(?P<times>{times})?(?P<behind>)", _money),
            (rf"{sign}(?P<before>)(?P<n>{n})\s?(?P<times>{times})?\s?(?P<behind>{money})", _money),
        ]
    if lexicon.units:
        unit = _any(lexicon.units)
        rows += [(rf"{sign}(?P<n>{n})(?:\s?[-–—−]\s?(?P<m>{n}))?[\s-]?(?P<unit>{unit})", _measure)]
    rows += [
        (rf"(?P<whole>)(?P<part>{part})", _fraction),
        (rf"(?P<whole>\d{{1,6}})\s?(?P<part>{part})", _fraction),
        (rf"{sign}(?P<n>{n})", _plain),
        (r"(?P<v>[vV]?)(?P<n>\d{1,6}(?:\.\d{1,6}){2,7})", _version),
        (r"(?P<v>[vV])(?P<n>\d{1,6}(?:\.\d{1,6})?)", _version),
        (rf"(?P<n>{n})\s?[-–—−]\s?(?P<m>{n})", _range),
        (rf"{n}(?:\s?[x×]\s?{n}){{1,3}}", _sides),
        (rf"(?P<n>{n})(?:\^|(?=[⁻⁰-⁹¹²³]))(?P<e>-?\d{{1,4}}|⁻?[⁰¹²³⁴-⁹]{{1,4}})", _power),
        (r"\(?\+?\d[\d()./\s–-]{5,24}\d", _telephone),
    ]
    return tuple(_Rule(re.compile(form), say) for form, say in rows)
