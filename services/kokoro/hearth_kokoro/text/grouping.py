"""Groups the chunks of one amount: 10 km, $5 million, 1 234, 12 h 30, 06 12 34 56 78."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re
from dataclasses import replace

from hearth_kokoro.text.chunks import Chunk, Window
from hearth_kokoro.text.cleaning import CleanWord, clean_word
from hearth_kokoro.text.lexicon.schema import Lexicon

MAX_CHUNKS = 8
"""The most chunks of one amount."""

_WORDS_TOO = frozenset({"in", "A", "a", "K", "x", "B", "h", "t", "T", "bi", "mi", "cal", "mil"})
_NUMBERS = re.compile(r"[-+−±~]?[\d.,]*\d(?:[-–][\d.,]*\d)?")
_PRICE = re.compile(r"[A-Z]{0,3}[$€£¥₹]\d|\d{1,2}(?::\d\d|[ap]m|:\d\d ?[ap]m)$")
_END = re.compile(r"[A-Z]{0,3}[$€£¥₹]?[-+−±~]?[\d.,:]*\d(?:[kM]|bn|[ap]m|h|h\d\d)?")
_PREFIX = re.compile(r"[-+]?[A-Z]{0,3}[$€£¥₹₩₽₿]")
_THREE = re.compile(r"\d{3}(?:[.,]\d+)?")
_PHONE = re.compile(r"(?:\+\d{1,3}|0\d{1,4}|\(\d{2,5}\))(?:[\s.-]\(?\d{1,5}\)?)*")


def group_amount(window: Window, clean: CleanWord, lexicon: Lexicon) -> tuple[int, CleanWord]:
    """Return the number of chunks of this amount, and its whole word; raises NeedsMoreText."""
    used = 1
    if re.fullmatch(r"\(\d{2,5}\)", window.chunks[0].text):
        clean = replace(clean, core=f"({clean.core})")
    while used < MAX_CHUNKS:
        last = window.chunks[used - 1]
        if (
            clean.ends
            or last.line_breaks
            or not last.space
            or not _may_continue(last, clean.core, lexicon)
        ):
            break
        following = window.peek(used)
        if following is None:
            break
        word = clean_word(following.text)
        if _is_dash(word.core, clean.core) and _opens_amount(following):
            end = window.peek(used + 1)
            if end is None or not _END.fullmatch(clean_word(end.text).core):
                break
            clean = replace(clean_word(end.text), core=f"{clean.core}–{clean_word(end.text).core}")
            used += 2
            continue
        if not _belongs(clean.core, word.core, last, lexicon):
            break
        clean = replace(word, core=f"{clean.core} {word.core}")
        used += 1
    return used, clean


def _is_dash(word: str, core: str) -> bool:
    """Return whether a range continues here; between plain figures a hyphen is a minus."""
    return word in {"–", "—"} or (word == "-" and bool(_PRICE.match(core)))


def _opens_amount(dash: Chunk) -> bool:
    return bool(dash.space) and (dash.after.isdecimal() or dash.after in "$€£¥₹")


def _may_continue(last: Chunk, core: str, lexicon: Lexicon) -> bool:
    """Return whether the next character alone allows a continuation."""
    after = last.after
    if after == "-":
        return bool(_PRICE.match(core))
    if after.isdecimal() or after in "+(½⅓⅔¼¾⅛–—%°‰€£¥₹$":
        return True
    return (core[-1].isdecimal() or core[-1] in "½¼¾") and (after.isalpha() or after in "ºµμ℃℉")


def _belongs(core: str, word: str, last: Chunk, lexicon: Lexicon) -> bool:
    if not word:
        return False
    if (core in lexicon.money or _PREFIX.fullmatch(core)) and _NUMBERS.fullmatch(word):
        return True
    if _PHONE.fullmatch(core) and re.fullmatch(r"[\d()./-]{2,}", word):
        return len(core) < 24
    if not core[-1].isdecimal() and core[-1] not in "½¼¾":
        return core.endswith(" h") and bool(re.fullmatch(r"[0-5]\d", word))
    if core.split()[0] in lexicon.money or core[0] in "$€£¥₹" or core.startswith(("R$", "US$")):
        return word in lexicon.multipliers and len(word) > 1
    if re.fullmatch(r"\d{1,2}:\d\d", core) and word == "h":
        return True
    if word in lexicon.money:
        return True
    if word in lexicon.units and word not in _WORDS_TOO:
        return True
    if word == "h" and lexicon.language != "en-us":
        return True
    if word[0] in "½⅓⅔¼¾⅛" or re.fullmatch(r"[1-7]/[2-9]", word):
        return core.isdecimal()
    if re.fullmatch(r"\d{1,2}:\d\d(?::\d\d)?", core) and word.lower() in {"am", "pm", "a.m", "p.m"}:
        return True
    if word.lower() in {"am", "pm"} and re.fullmatch(r"\d{1,2}(?:[-–]\d{1,2})?", core):
        return lexicon.language.startswith("en")
    narrow = last.space in {"\u00a0", "\u202f", "\u2009"}
    grouped = bool(re.fullmatch(r"\d{1,3}(?: \d{3})*", core) and _THREE.fullmatch(word))
    return grouped and (narrow or lexicon.decimal == ",")
