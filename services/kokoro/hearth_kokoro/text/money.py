"""Says money: with its cents, from so much to so much, and by the million."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

import re

from hearth_kokoro.text.lexicon.shape import Lexicon
from hearth_kokoro.text.numbers import any_of, before, cardinal, is_one, number, pattern, signed

_THOUSANDS = frozenset({"mil", "mille", "mila"})


def forms(lexicon: Lexicon) -> list[str]:
    """Return the patterns of money: its sign before the figures, or behind them."""
    if not lexicon.money:
        return []
    money, n = any_of(lexicon.money), pattern(lexicon)
    times = rf"\s?(?P<{{}}>{any_of(lexicon.multipliers)})?"
    first = rf"(?P<n>{n}){times.format('few')}"
    until = rf"(?:\s?[-–—]\s?(?:{money})?\s?(?P<m>{n}){times.format('times')})?"
    sign = r"(?P<sign>[-−–+±~]?)"
    return [
        rf"{sign}(?P<before>{money})\s?{first}{until}(?P<behind>)",
        rf"{sign}(?P<before>){first}{until}\s?(?P<behind>{money})",
    ]


def money(match: re.Match[str], lexicon: Lexicon) -> str:
    """Return an amount of money in words, or two with "to" between them."""
    symbol = match["before"] or match["behind"]
    several = lexicon.money[symbol][1]
    if not match["m"]:
        said = _sum(match["n"], match["few"], symbol, lexicon)
    elif match["times"]:
        low = number(match["n"], lexicon)
        if match["few"] and match["few"] != match["times"]:
            low = f"{low} {lexicon.multipliers[match['few']]}"
        said = f"{low} {lexicon.to} {_sum(match['m'], match['times'], symbol, lexicon)}"
    elif lexicon.decimal in match["n"] + match["m"]:
        low, high = (_sum(match[end], None, symbol, lexicon) for end in "nm")
        said = f"{low} {lexicon.to} {high}"
    else:
        low, high = (number(match[end], lexicon) for end in "nm")
        said = f"{low} {lexicon.to} {before(high, lexicon)} {several}"
    return signed(match["sign"], said, lexicon)


def _sum(text: str, times: str | None, symbol: str, lexicon: Lexicon) -> str:
    one, several = lexicon.money[symbol]
    if times:
        many = lexicon.multipliers[times]
        # Between a million and its money stands "de" or "di", not after a thousand.
        of = f"{lexicon.of_money} " if lexicon.of_money and many not in _THOUSANDS else ""
        return f"{number(text, lexicon)} {many} {of}{several}"
    cents = re.fullmatch(rf"(.*){re.escape(lexicon.decimal)}(\d\d)", text)
    if not cents or symbol not in lexicon.cent:
        said = before(number(text, lexicon), lexicon)
        return f"{said} {one if is_one(text, lexicon) else several}"
    whole, small = cents[1], cents[2].lstrip("0")
    said = before(number(whole, lexicon), lexicon)
    said = f"{said} {one if is_one(whole, lexicon) else several}"
    if not small:
        return said
    cent = lexicon.cent[symbol][0 if small == "1" else 1]
    bits = f"{before(cardinal(small, lexicon), lexicon)} {cent}"
    # Ninety-nine cents alone, where there is not one dollar.
    return " ".join(filter(None, (said, lexicon.cents, bits))) if whole.strip("0") else bits
