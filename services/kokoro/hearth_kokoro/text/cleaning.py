"""Removes the unspoken parts of a word: markup, link targets, control characters, emoji."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import emoji

# The full-width forms end sentences in languages without spaces.
_TERMINALS = str.maketrans("。！？｡、，；：।॥", ".!?.,,;:..")
TERMINALS = ".,;:!?…।॥。！？｡、，；："
_QUOTES = "\"'“”‘’«»„‹›()[]{}「」『』【】《》〈〉（）¿¡"
_EDGES = _QUOTES + "*_`|"
_PLAIN = re.compile(r"([A-Za-z]+)([.,;:!?]?)")
_TAG = re.compile(r"</?[A-Za-z!][^<>]{0,300}/?>")
_LINK = re.compile(r"\]\((?:[^()\s]|\([^()]*\)|\s(?=[\"']))*(?:\s?[\"'][^\"')]*[\"'])?\)")
_OPEN_LINK = re.compile(r"\]\([^)]*$")
_NOTE = re.compile(r"\[\^?[\w.-]{1,12}\](?![(\w])|(?<=\])\[[^\]]*\]")
_TASK = re.compile(r"\[[ xX]?\]")
_SMILE = re.compile(r"[:;=8xX]['’]?-?[)(DPpOo3/\\|*\]\[]{1,4}|<3+|\^[_.-]?\^|[oO]_[oO]|¯.*¯")
_MARKUP = re.compile(r"\*{1,3}(?=[\w\"“(])(?<![\d\w]\*)|(?<=[\w.,;:!?)\"”])\*{2,3}|~~|`+|__+")
_SPECIAL = {"…": "…", "™": "", "®": "", "\u00ad": ""} | dict(
    zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True)
)
_LEAVE = frozenset("½⅓⅔¼¾⅛²³¹⁰⁴⁵⁶⁷⁸⁹⁻⁺ºª…℃℉№´¨¯")


@dataclass(frozen=True, slots=True)
class CleanWord:
    """A word without markup: its core, and the punctuation after it in ASCII form."""

    core: str
    ends: str
    """The marks . , ; : ! ? … that follow, as they were written."""
    quoted: bool = False
    """Whether a quotation or a bracket closes after the marks."""
    closes_aside: bool = False
    """Whether a bracket closes here that an earlier word opened."""
    is_code: bool = False
    is_emoji: bool = False
    """Whether it was nothing but emoji."""


@lru_cache(maxsize=2048)
def clean_word(text: str) -> CleanWord:
    """Return a chunk's word without markup, in linear time."""
    if plain_word := _PLAIN.fullmatch(text):
        return CleanWord(plain_word[1], plain_word[2])
    if _SMILE.fullmatch(text):
        return CleanWord("", "")
    stripped = _letters(text)
    if "&" in stripped and ";" in stripped:
        stripped = html.unescape(stripped)
    is_emoji = False
    if any(ord(letter) > 0x2000 for letter in stripped):
        without = emoji.replace_emoji(stripped, "")
        is_emoji = without.strip(_EDGES + TERMINALS + "\ufe0f\u200d") == "" and without != stripped
        stripped = without
    stripped = "".join(mark for mark in stripped if mark not in "\ufe0f\u200d\u20e3")
    is_code = "`" in stripped
    return _edges(_markup(stripped), is_code=is_code, is_emoji=is_emoji)


def emoji_name(text: str, language: str) -> str:
    """Return the names of the emoji in a text."""
    names = [
        str(emoji.demojize(found["emoji"], language=language, delimiters=("", "")))
        for found in emoji.emoji_list(text)[:3]
    ]
    return ", ".join(name.replace("_", " ").replace("-", " ") for name in names)


def _markup(stripped: str) -> str:
    if "<" in stripped:
        stripped = _TAG.sub("", stripped)
    if "[" in stripped or "]" in stripped:
        stripped = _NOTE.sub("", _OPEN_LINK.sub("", _LINK.sub("", _TASK.sub("", stripped))))
    return _MARKUP.sub("", stripped) if any(mark in stripped for mark in "*~`_") else stripped


def _edges(stripped: str, *, is_code: bool, is_emoji: bool) -> CleanWord:
    start, end = 0, len(stripped)
    while start < end and stripped[start] in _EDGES + TERMINALS:
        # A decimal such as .5, or a file name with a leading dot.
        if stripped[start] == "." and stripped[start + 1 : start + 2].isalnum():
            break
        if stripped.startswith("!=", start):
            break
        start += 1
    while end > start and stripped[end - 1] in _EDGES + TERMINALS:
        end -= 1
    tail = stripped[end:] if end > start else stripped
    ends = "".join(mark for mark in tail if mark in TERMINALS).translate(_TERMINALS)
    closes = tail.strip(TERMINALS) if not tail.endswith(tuple(TERMINALS)) else ""
    return CleanWord(
        stripped[start:end],
        ends,
        quoted=bool(ends and closes),
        closes_aside=")" in tail and "(" not in stripped,
        is_code=is_code,
        is_emoji=is_emoji,
    )


def _letters(text: str) -> str:
    """Return the text normalised, without control characters, with few accents per letter."""
    if text.isascii():
        return text if text.isprintable() else "".join(filter(str.isprintable, text))
    kept: list[str] = []
    marks = 0
    for letter in unicodedata.normalize("NFC", text):
        kind = unicodedata.category(letter)
        marks = marks + 1 if kind == "Mn" else 0
        if marks > 2 or (kind[0] == "C" and letter != "\u200d"):
            continue
        if letter in _SPECIAL:
            kept.append(_SPECIAL[letter])
        elif kind == "Nd":
            kept.append(str(unicodedata.digit(letter)))
        elif letter in _LEAVE or kind[0] not in "L":
            kept.append(letter)
        else:
            kept.append(unicodedata.normalize("NFKC", letter))
    return "".join(kept)


def plain_marks(ends: str) -> str:
    """Return punctuation in ASCII form, such as for a full-width question mark."""
    return ends.translate(_TERMINALS)


def mark_of(ends: str) -> str:
    """Return the one mark that represents a run of punctuation: ?! … , and so on."""
    if "?" in ends:
        return "?!" if "!" in ends else "?"
    for mark in ("!", "…"):
        if mark in ends:
            return mark
    if ".." in ends:
        return "…"
    return next((mark for mark in ".;:," if mark in ends), "")
