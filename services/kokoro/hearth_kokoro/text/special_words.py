"""Verbalizes special words: addresses, identifiers, acronyms, Roman numerals, formulas."""
# These characters look like others on purpose: people write them.
# ruff: noqa: RUF001

import re
import unicodedata
from functools import lru_cache

from hearth_kokoro.text.cleaning import TERMINALS, mark_of, plain_marks
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.numbers import cardinal, digit_by_digit, number, number_pattern, ordinal

_TOP = (
    "com|org|net|io|dev|ai|app|lan|local|gov|edu|info|biz|eu|co|uk|us|de|fr|es|it|pt|br|in|jp|cn|"
    "ch|at|be|nl|ca|au|mx|ar|me|tv|cloud|online|site|xyz|news|wiki|page|house|home|test|example"
)
_HOST = rf"(?:[\w-]{{1,63}}\.){{1,6}}(?:{_TOP})"
_URL = re.compile(
    rf"<?(?:(?:https?|ftp|wss?|file|git|ssh)://(?:[^\s/@]{{1,64}}@)?(?P<a>[^\s/?#:>]*)"
    rf"|(?P<b>www\.[^\s/?#:>]+)|(?P<c>{_HOST})(?=[/?#:]|$))(?P<port>:\d{{1,5}})?.*",
    re.IGNORECASE,
)
_MAIL = re.compile(r"<?(?:mailto:)?(?P<name>[\w.+-]{1,64})@(?P<host>[\w-]+(?:\.[\w-]+)+)>?.*")
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_CAMEL = re.compile(r"(?<=[a-zà-ÿ])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ELIDED = re.compile(r"([A-Za-z]{1,4}['’])([A-Z]+)")
_LOOSE = re.compile(r" ([,;:.!?…])")
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_AT = {"en": "at", "es": "arroba", "fr": "arobase", "it": "chiocciola", "pt": "arroba", "hi": "ऐट"}


MINUS = re.compile(r"(?<![A-Za-zÀ-ɏ\d)\]\u0900-\u097f])-(?=\d)")
"""A minus sign rather than a dash between words: x=-5."""


def verbalize_address(text: str, lexicon: Lexicon) -> str | None:
    """Return a URL or an e-mail address in words, None for anything else."""
    if "." not in text and "://" not in text:
        return None
    if mail := _MAIL.fullmatch(text):
        name = _host(mail["name"], lexicon)
        return f"{name} {_AT.get(lexicon.language[:2], '@')} {_host(mail['host'], lexicon)}"
    if not (found := _URL.fullmatch(text)):
        return None
    host = found["a"] or found["b"] or found["c"] or ""
    if host.lower().startswith("www."):
        host = host[4:]
    spoken = _host(host, lexicon)
    return f"{spoken} {cardinal(found['port'][1:], lexicon)}" if found["port"] else spoken


def is_address(text: str) -> bool:
    """Return whether an address starts in this text, however long it is."""
    return "://" in text or bool(re.search(r"(?:^|\W)www\.", text))


def _host(text: str, lexicon: Lexicon) -> str:
    dot = lexicon.symbols.get(".", "")
    spoken = [mixed_word(part.replace("-", " "), lexicon) for part in text.split(".")]
    return f" {dot} ".join(filter(None, spoken))


def is_dotted(core: str) -> bool:
    """Return whether these are letters with dots between them: U.S, J.K, a.m."""
    return bool(_DOTTED.fullmatch(core))


def verbalize_roman(core: str, before: str, after: str, lexicon: Lexicon) -> str | None:
    """Return a Roman numeral in words, None if it may be something else."""
    tail = ""
    if lexicon.language == "fr-fr" and (
        found := re.fullmatch(r"([IVXLC]+)(ers?|res?|e|ème)", core)
    ):
        core, tail = found[1], found[2]
    if not core.isupper() or not core.isascii() or not _ROMAN.fullmatch(core):
        return None
    value = _value(core)
    if tail:
        return ordinal(str(value), lexicon, feminine=tail.startswith("re"))
    if before in lexicon.kings and (len(core) > 1 or core in "VX" or after == "of"):
        if value > lexicon.king_limit:
            return cardinal(str(value), lexicon)
        feminine = before in {"isabel", "elisabetta", "maria", "élisabeth"}
        spoken = ordinal(str(value), lexicon, feminine=feminine)
        return f"the {spoken}" if lexicon.language.startswith("en") else spoken
    if lexicon.language == "it" and after in {"secolo", "sec"}:
        return ordinal(str(value), lexicon)
    if before in lexicon.centuries or after in lexicon.centuries:
        return cardinal(str(value), lexicon)
    safe = len(core) > 1 and set(core) <= set("IVX") and core not in {"XX", "XXX", "IV", "VI"}
    return cardinal(str(value), lexicon) if safe and before[:1].isalpha() else None


def _value(figures: str) -> int:
    values = [_VALUES[figure] for figure in figures]
    behind = [*values[1:], 0]
    return sum(-one if one < then else one for one, then in zip(values, behind, strict=True))


def plain_word(core: str, lexicon: Lexicon, *, is_code: bool = False) -> str:
    """Return the spoken form of a word that is neither a number nor an address."""
    if core in lexicon.symbols and not core.isalnum():
        return lexicon.symbols[core]
    if core.isupper() and core.lower() in lexicon.spell:
        return spell(core, lexicon)
    if (found := _ELIDED.fullmatch(core)) and found[2].lower() in lexicon.spell:
        return found[1] + spell(found[2], lexicon)
    if core.startswith("#") and len(core) > 1 and core[1:].isidentifier():
        return "hashtag " + _CAMEL.sub(" ", core[1:]).replace("_", " ")
    if core.startswith("@") and len(core) > 1:
        return f"{_AT.get(lexicon.language[:2], '')} {mixed_word(core[1:], lexicon)}"
    if spoken := verbalize_formula(core, lexicon):
        return spoken
    if re.fullmatch(r"[^\W\d_²³]+/[^\W\d_²³]+", core):
        return core.replace("/", " ")
    if is_code or "_" in core:
        return mixed_word(_CAMEL.sub(" ", core.replace("_", " ")), lexicon)
    return mixed_word(core, lexicon)


@lru_cache(maxsize=16)
def _parts(lexicon: Lexicon) -> re.Pattern[str]:
    word = r"[^\W\d_]+(?:[\u0900-\u094f\u200d\u0300-\u036f'’·-]+[^\W\d_]+)*[\u0900-\u094f]*"
    two = r"[!=]==|=>|->|<=|>=|==|!=|&&|\|\||::|\.\.\.+|--+"
    return re.compile(
        rf"({MINUS.pattern}|{two})|({number_pattern(lexicon)})|({word})|(.)", re.DOTALL
    )


def mixed_word(text: str, lexicon: Lexicon) -> str:
    """Return any text part by part: words, numbers, and characters with names."""
    if text.isalpha() and text.isascii():
        return text
    for mark in "²³":
        text = text.replace(mark, f" {lexicon.symbols.get(mark, '')} ")
    spoken: list[str] = []
    for sign, figures, word, other in _parts(lexicon).findall(text):
        if figures:
            # Many digits among letters belong to a name and are not a count.
            name = len(figures) > 4 and figures.isdecimal() and figures != text
            spoken.append((digit_by_digit if name else number)(figures, lexicon))
        elif word:
            spoken.append(drop_unreadable(word, lexicon))
        elif sign.startswith(("..", "--")):
            spoken.append("…" if sign[0] == "." else "")
        elif sign == "-":
            spoken.append(lexicon.minus)
        elif sign:
            spoken.append(lexicon.symbols.get(sign.replace("===", "==").replace("!==", "!="), ""))
        elif other in TERMINALS and other not in ".:":
            spoken.append(mark_of(plain_marks(other)))
        elif not other.isspace():
            spoken.append(_sign(other, lexicon))
    return _LOOSE.sub(r"\1", " ".join(filter(None, spoken))).strip(" ,:;.!?…")


def _sign(other: str, lexicon: Lexicon) -> str:
    if other in "-_()[]{}|:'\"’":
        return ""
    if unicodedata.category(other)[0] in "LM":
        return drop_unreadable(other, lexicon)
    return lexicon.symbols.get(other, "")


@lru_cache(maxsize=4096)
def drop_unreadable(word: str, lexicon: Lexicon) -> str:
    """Return a word without letters that the voice would read as "Chinese letter"."""
    if word.isascii() or (len(word) == 1 and "GREEK" in unicodedata.name(word, "")):
        return word
    scripts = tuple(lexicon.scripts.split("|"))
    return "".join(
        letter
        for letter in word
        if letter in "-'’·"
        or unicodedata.category(letter)[0] == "M"
        or unicodedata.name(letter, "").startswith((*scripts, "FEMININE", "MASCULINE", "MICRO"))
    ).strip("-'’·")


_ELEMENT = "Na|Cl|Ca|Mg|Fe|Cu|Al|Si|Zn|Ag|Au|Pb|Li|Br|He|H|C|N|O|S|P|K|F|I"
_FORMULA = re.compile(rf"(?P<parts>(?:(?:{_ELEMENT})\d{{0,2}}){{1,8}})(?P<charge>[²³]?[⁺⁻])?")
_PART = re.compile(r"([A-Za-z]+)(\d*)")
_FIGURES = {"²": "2", "³": "3"}


def spell(letters: str, lexicon: Lexicon) -> str:
    """Return letters so that each one is read by its name."""
    spoken = lexicon.joint.join(letters.upper())
    return lexicon.letters.get(spoken, spoken)


def verbalize_formula(core: str, lexicon: Lexicon) -> str | None:
    """Return a chemical formula in words (CO₂, H2SO4, Ca²⁺), None for anything else."""
    if not lexicon.numbers or not (found := _FORMULA.fullmatch(core)):
        return None
    charge = found["charge"] or ""
    if not charge and not any(letter.isdecimal() for letter in core):
        return None
    spoken = []
    for letters, figures in _PART.findall(found["parts"]):
        spoken += [spell(letters, lexicon), cardinal(figures, lexicon) if figures else ""]
    if charge:
        figure, sign = _FIGURES.get(charge[0], ""), charge[-1]
        spoken += [cardinal(figure, lexicon) if figure else ""]
        spoken += [lexicon.plus if sign == "⁺" else lexicon.minus]
    return " ".join(filter(None, spoken))
