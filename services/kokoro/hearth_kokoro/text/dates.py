"""Verbalizes times of day and dates in figures."""

import re
from collections.abc import Callable
from functools import lru_cache

from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.numbers import cardinal, ordinal, year

Verbalize = Callable[[re.Match[str], Lexicon], str]

_MINUTES = {"hi": "मिनट", "ja": "分", "zh": "分"}
_EAST = frozenset({"ja", "zh"})
_CLOCK = r"(?P<h>[01]?\d|2[0-4]){0}(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d)(?:[.,]\d{{1,6}})?)?"
_HALF_DAY = r"(?:\s?(?P<half>[aApP])\.?\s?[mM])?"
_DATE = r"(?P<y>\d{4})-(?P<mo>0[1-9]|1[0-2])-(?P<d>0[1-9]|[12]\d|3[01])"


def date_rules(lexicon: Lexicon) -> list[tuple[str, Verbalize]]:
    """Return the patterns of times and dates, each with its function."""
    clock = _CLOCK.format(":")
    first, second = ("mo", "d") if lexicon.language == "en-us" else ("d", "mo")
    found: list[tuple[str, Verbalize]] = [
        (
            clock + (_HALF_DAY if lexicon.language[:2] in {"en", "es"} else "(?P<half>)(?: ?h)?"),
            _time,
        ),
        (clock + r"(?P<half>) ?h", _time),
        (_DATE, _date),
        (rf"{_DATE}[T ]{clock}(?P<half>)(?P<z>Z|[+-]\d\d:?\d\d)?", _moment),
        (
            rf"(?P<{first}>\d{{1,2}})(?P<sep>[/.-])(?P<{second}>\d{{1,2}})(?P=sep)"
            r"(?P<y>1[5-9]\d\d|20\d\d)",
            _date,
        ),
        (rf"(?P<{first}>\d{{1,2}})/(?P<{second}>\d{{1,2}})/(?P<y>\d\d)", _date),
        (r"(?P<h>1[0-2]|[1-9])(?P<m>)(?P<s>)\s?(?P<half>[aApP])\.?[mM]", _time),
    ]
    if lexicon.language in {"fr-fr", "pt-br", "it", "es"}:
        found.append((r"(?P<h>[01]?\d|2[0-4])\s?h\s?(?P<m>[0-5]\d)(?P<s>)(?P<half>)", _time))
    return found


def _time(match: re.Match[str], lexicon: Lexicon) -> str:
    hour, minute, second = match["h"].lstrip("0") or "0", match["m"] or "", match["s"] or ""
    half = {"a": "A-M", "p": "P-M", "": ""}[(match["half"] or "").lower()]
    if lexicon.language.startswith("en"):
        spoken = _english(hour, minute, second, half, lexicon)
    else:
        spoken = _european(hour, minute, second, lexicon)
        half = {"A-M": "a eme", "P-M": "pe eme", "": ""}[half] if lexicon.language == "es" else ""
    return f"{spoken} {half}".rstrip()


def _english(hour: str, minute: str, second: str, half: str, lexicon: Lexicon) -> str:
    spoken = [cardinal(hour, lexicon)]
    if minute == "00":
        spoken += (
            []
            if half or second.strip("0")
            else ["hundred hours" if int(hour) > 12 or hour == "0" else "o'clock"]
        )
    elif minute:
        spoken += (
            ["oh", cardinal(minute[1], lexicon)]
            if minute[0] == "0"
            else [cardinal(minute, lexicon)]
        )
    if second.strip("0"):
        spoken += ["and", cardinal(second.lstrip("0") or "0", lexicon), "seconds"]
    return " ".join(spoken)


def _european(hour: str, minute: str, second: str, lexicon: Lexicon) -> str:
    spoken = [_feminine(cardinal(hour, lexicon), lexicon)]
    whole = not minute.strip("0")
    if lexicon.language == "fr-fr":
        spoken.append("heure" if hour in "01" else "heures")
    elif lexicon.language == "hi":
        spoken.append("बजे" if whole else lexicon.clock)
    elif whole and lexicon.language in _EAST:
        spoken.append(lexicon.clock)
    elif whole and lexicon.language == "pt-br":
        spoken.append("hora" if hour in "01" else "horas")
    elif whole and lexicon.language == "es":
        spoken.append("en punto")
    elif not whole:
        spoken.append(lexicon.clock)
    if not whole:
        spoken.append(cardinal(minute.lstrip("0"), lexicon))
    if not whole:
        spoken.append(_MINUTES.get(lexicon.language, ""))
    if second.strip("0"):
        spoken += [{"fr-fr": "et", "hi": ""}.get(lexicon.language, lexicon.clock)]
        spoken += (
            [cardinal(second.lstrip("0"), lexicon), lexicon.units["s"][1]]
            if ("s" in lexicon.units)
            else [second.lstrip("0")]
        )
    return " ".join(filter(None, spoken))


def _feminine(spoken: str, lexicon: Lexicon) -> str:
    """Return the feminine form of an hour, in languages that use it."""
    if lexicon.language == "fr-fr":
        return re.sub(r"\bun$", "une", spoken)
    if lexicon.language in {"es", "pt-br"}:
        spoken = re.sub(r"dois$", "duas", re.sub(r"\bum$", "uma", spoken))
        return re.sub(r"uno$", "una", spoken)
    return "una" if lexicon.language == "it" and spoken == "uno" else spoken


def _date(match: re.Match[str], lexicon: Lexicon) -> str:
    month, day = int(match["mo"]), match["d"].lstrip("0") or "0"
    if month > 12 and int(day) <= 12:
        month, day = int(day), str(month)
    if not 1 <= month <= 12 or not 1 <= int(day) <= 31:
        return " ".join(
            cardinal(part.lstrip("0") or "0", lexicon) for part in re.findall(r"\d+", match[0])
        )
    text = match["y"]
    if lexicon.language in _EAST:
        return f"{text} 年 {month} 月 {day} 日"
    name = lexicon.months[month - 1]
    spoken = year(text, lexicon) if len(text) == 4 else cardinal(text, lexicon)
    if lexicon.language == "en-us":
        return f"{name} {ordinal(day, lexicon)}, {spoken}"
    if lexicon.language == "en-gb":
        return f"the {ordinal(day, lexicon)} of {name} {spoken}"
    of = " de " if lexicon.language in {"es", "pt-br"} else " "
    return f"{day_of_month(day, lexicon)}{of}{name}{of}{spoken}"


def day_of_month(day: str, lexicon: Lexicon) -> str:
    """Return a day before its month: the first is an ordinal in French, Italian, Portuguese."""
    if lexicon.language.startswith("en"):
        return ordinal(day, lexicon)
    if day == "1" and lexicon.language in {"fr-fr", "it", "pt-br"}:
        return ordinal(day, lexicon)
    return cardinal(day, lexicon)


def _moment(match: re.Match[str], lexicon: Lexicon) -> str:
    return f"{_date(match, lexicon)}, {_time(match, lexicon)}"


@lru_cache(maxsize=16)
def month_names(lexicon: Lexicon) -> frozenset[str]:
    """Return the months, in full and abbreviated, in lower case."""
    return frozenset(name.lower() for name in lexicon.months) | {
        key for key in lexicon.titles if lexicon.titles[key] in lexicon.months
    }


@lru_cache(maxsize=16)
def month_initials(lexicon: Lexicon) -> frozenset[str]:
    """Return the first letters of all months."""
    return frozenset(name[0] for name in month_names(lexicon))
