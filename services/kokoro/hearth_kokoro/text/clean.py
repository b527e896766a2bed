"""Takes off a word what nobody says aloud: markup, links' targets, controls, emoji."""
# The signs that look like others are meant: they are what people write.
# ruff: noqa: RUF001

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import emoji

# The full-width forms are meant: they end sentences where there are no spaces.
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
class Clean:
    """A word without its dress: the core, and the punctuation behind it in plain marks."""

    core: str
    ends: str
    """The marks . , ; : ! ? … that follow, as they were written."""
    quoted: bool = False
    """Whether a quotation or a bracket closes behind the marks."""
    aside: bool = False
    """Whether a bracket that another word opened closes here."""
    is_code: bool = False
    is_emoji: bool = False
    """Whether it was nothing but emoji."""


@lru_cache(maxsize=2048)
def clean(text: str) -> Clean:
    """Return a chunk's word without its dress, in linear time."""
    if plain := _PLAIN.fullmatch(text):
        return Clean(plain[1], plain[2])
    if _SMILE.fullmatch(text):
        return Clean("", "")
    bare = _letters(text)
    if "&" in bare and ";" in bare:
        bare = html.unescape(bare)
    is_emoji = False
    if any(ord(letter) > 0x2000 for letter in bare):
        without = emoji.replace_emoji(bare, "")
        is_emoji = without.strip(_EDGES + TERMINALS + "\ufe0f\u200d") == "" and without != bare
        bare = without
    bare = "".join(mark for mark in bare if mark not in "\ufe0f\u200d\u20e3")
    is_code = "`" in bare
    return _edges(_markup(bare), is_code=is_code, is_emoji=is_emoji)


def emoji_name(text: str, language: str) -> str:
    """Return the names of the emoji in a text."""
    names = [
        str(emoji.demojize(found["emoji"], language=language, delimiters=("", "")))
        for found in emoji.emoji_list(text)[:3]
    ]
    return ", ".join(name.replace("_", " ").replace("-", " ") for name in names)


def _markup(bare: str) -> str:
    if "<" in bare:
        bare = _TAG.sub("", bare)
    if "[" in bare or "]" in bare:
        bare = _NOTE.sub("", _OPEN_LINK.sub("", _LINK.sub("", _TASK.sub("", bare))))
    return _MARKUP.sub("", bare) if any(mark in bare for mark in "*~`_") else bare


def _edges(bare: str, *, is_code: bool, is_emoji: bool) -> Clean:
    start, end = 0, len(bare)
    while start < end and bare[start] in _EDGES + TERMINALS:
        # A decimal that begins with its point, a file that begins with a dot.
        if bare[start] == "." and bare[start + 1 : start + 2].isalnum():
            break
        if bare.startswith("!=", start):
            break
        start += 1
    while end > start and bare[end - 1] in _EDGES + TERMINALS:
        end -= 1
    tail = bare[end:] if end > start else bare
    ends = "".join(mark for mark in tail if mark in TERMINALS).translate(_TERMINALS)
    closes = tail.strip(TERMINALS) if not tail.endswith(tuple(TERMINALS)) else ""
    return Clean(
        bare[start:end],
        ends,
        quoted=bool(ends and closes),
        aside=")" in tail and "(" not in bare,
        is_code=is_code,
        is_emoji=is_emoji,
    )


def _letters(text: str) -> str:
    """Return the text without controls, with plain letters, and no more accents than a few."""
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
    """Return punctuation in its plain form: a full-width question mark becomes ours."""
    return ends.translate(_TERMINALS)


def mark_of(ends: str) -> str:
    """Return the one mark that a run of punctuation is said as: ?! … , and so on."""
    if "?" in ends:
        return "?!" if "!" in ends else "?"
    for mark in ("!", "…"):
        if mark in ends:
            return mark
    if ".." in ends:
        return "…"
    return next((mark for mark in ".;:," if mark in ends), "")
