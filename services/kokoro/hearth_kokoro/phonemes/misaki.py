"""Mandarin and Japanese by misaki, with whose phonemes Kokoro was trained.

misaki splits text into words by jieba, and by MeCab with UniDic. These have no wheels for every
Python here, or come without their dictionaries. rjieba and lindera have the same algorithms and
dictionaries in wheels, so misaki gets them under the names that it imports.
"""

import importlib
import importlib.util
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

from hearth_serving.errors import ServiceError

Convert = Callable[[str], str]
"""Text -> phonemes; raises ServiceError 400."""

_PARTS: Mapping[str, tuple[str, ...]] = {
    "ja": ("misaki", "lindera", "jaconv"),
    "zh": ("misaki", "rjieba", "pypinyin", "cn2an", "ordered_set"),
}
# UniDic's field of the pronunciation, and its numbers for kinds of unknown words.
_PRONUNCIATION = 9
_KANJI, _SYMBOL, _HIRAGANA, _KATAKANA, _OTHER = 2, 3, 6, 7, 0


def is_installed(language: str) -> bool:
    """Return whether all libraries for `ja` or `zh` are installed, without loading them."""
    return language in _PARTS and all(importlib.util.find_spec(part) for part in _PARTS[language])


def load(language: str) -> Convert:
    """Load the dictionaries of `ja` or `zh`, which takes a second."""
    with warnings.catch_warnings():
        # Some of the libraries are older than the warnings of newer Pythons.
        warnings.simplefilter("ignore")
        convert = {"ja": _japanese, "zh": _mandarin}[language]()

    def phonemes(text: str) -> str:
        try:
            return str(convert(text)[0])
        # The libraries raise any of these for characters that they do not know.
        except (AssertionError, LookupError, ValueError, TypeError, AttributeError):
            raise ServiceError(
                "this text cannot be read: remove its unusual characters",
                param="input",
                code="unreadable_text",
            ) from None

    return phonemes


def _mandarin() -> Callable[[str], Any]:
    rjieba = importlib.import_module("rjieba")
    _provide("jieba", lcut=lambda text, cut_all: rjieba.cut(text))
    convert: Callable[[str], Any] = importlib.import_module("misaki.zh").ZHG2P()
    return convert


def _japanese() -> Callable[[str], Any]:
    # misaki has normalised the text when it calls these; nothing is left to do.
    _provide("mojimoji", zen_to_han=_unchanged, han_to_zen=_unchanged)
    _provide("fugashi", Tagger=_Tagger)
    convert: Callable[[str], Any] = importlib.import_module("misaki.cutlet").Cutlet()
    return convert


def _provide(name: str, **content: Any) -> None:
    """Let `import name` find these functions."""
    module = ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module


def _unchanged(text: str, **_: Any) -> str:
    return text


@dataclass(frozen=True, slots=True)
class _Word:
    """A word in the form of fugashi's."""

    surface: str
    feature: SimpleNamespace
    is_unk: bool
    char_type: int


class _Tagger:
    """fugashi's interface to lindera with UniDic."""

    def __init__(self) -> None:
        lindera = importlib.import_module("lindera")
        self._tokenizer = lindera.Tokenizer(lindera.load_dictionary("embedded://unidic"))

    def __call__(self, text: str) -> Iterator[_Word]:
        for token in self._tokenizer.tokenize(text):
            if token.surface.strip():
                unknown = bool(token.is_unknown)
                spoken = None if unknown else token.details[_PRONUNCIATION]
                feature = SimpleNamespace(pron=None if spoken == "*" else spoken, kana=None)
                yield _Word(token.surface, feature, unknown, _kind(token.surface[0]))


def _kind(character: str) -> int:
    """Return UniDic's number for the kind of a character."""
    name = unicodedata.name(character, "").split(" ")[0]
    if name in ("CJK", "HIRAGANA", "KATAKANA"):
        return {"CJK": _KANJI, "HIRAGANA": _HIRAGANA, "KATAKANA": _KATAKANA}[name]
    return _SYMBOL if unicodedata.category(character)[0] in "PS" else _OTHER
