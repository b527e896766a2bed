"""Converts espeak-ng's phonetic alphabet to misaki's, on which Kokoro was trained.

There, diphthongs and affricates are one letter. The tables are from misaki's espeak module
(Apache-2.0), which the model's own pipeline uses.
"""

# ruff: noqa: RUF001 - phonetic letters look like others
import re
from collections.abc import Sequence

from hearth_kokoro.phonemes.espeak import TIE

_Rules = Sequence[tuple[str, str]]
_ENGLISH: _Rules = (
    ("ʔˌn\u0329", "ʔn"),
    ("ʔn\u0329", "ʔn"),
    ("a^ɪ", "I"),
    ("a^ʊ", "W"),
    ("d^ʒ", "ʤ"),
    ("e^ɪ", "A"),
    ("t^ʃ", "ʧ"),
    ("ɔ^ɪ", "Y"),
    ("ə^l", "ᵊl"),
    ("ʲo", "jo"),
    ("ʲə", "jə"),
    ("ʲ", ""),
    ("ɚ", "əɹ"),
    ("r", "ɹ"),
    ("x", "k"),
    ("ç", "k"),
    ("ɐ", "ə"),
    ("ɬ", "l"),
    ("\u0303", ""),
    ("e", "A"),
)
_AMERICAN: _Rules = (
    ("o^ʊ", "O"),
    ("ɜːɹ", "ɜɹ"),
    ("ɜː", "ɜɹ"),
    ("ɪə", "iə"),
    ("ː", ""),
)
_BRITISH: _Rules = (("iə", "ɪə"), ("ə^ʊ", "Q"))
# These come before the rule for a single "e".
_BRITISH_FIRST: _Rules = (("e^ə", "ɛː"),)
_ENGLISH_LAST: _Rules = (("o", "ɔ"), ("ɾ", "T"), ("ʔ", "t"))
_OTHERS: _Rules = (
    ("a^ɪ", "I"),
    ("a^ʊ", "W"),
    ("d^z", "ʣ"),
    ("d^ʒ", "ʤ"),
    ("e^ɪ", "A"),
    ("o^ʊ", "O"),
    ("s^s", "S"),
    ("t^s", "ʦ"),
    ("t^ʃ", "ʧ"),
    ("ɔ^ɪ", "Y"),
    ("ə^ʊ", "Q"),
)
_SYLLABIC = re.compile("(\\S)\u0329")


def to_kokoro_alphabet(phonemes: str, language: str) -> str:
    """Return espeak's phonemes (with ties) in the model's alphabet."""
    if language == "en-us":
        phonemes = _english(phonemes, (*_ENGLISH, *_AMERICAN))
    elif language == "en-gb":
        phonemes = _english(phonemes, (*_BRITISH_FIRST, *_ENGLISH, *_BRITISH))
    else:
        phonemes = _replaced(phonemes, _OTHERS)
    return phonemes.replace(TIE, "")


def _english(phonemes: str, rules: _Rules) -> str:
    converted = _replaced(phonemes, rules)
    converted = _SYLLABIC.sub(r"ᵊ\1", converted).replace("\u0329", "")
    return _replaced(converted, _ENGLISH_LAST)


def _replaced(phonemes: str, rules: _Rules) -> str:
    for old, new in rules:
        phonemes = phonemes.replace(old, new)
    return phonemes
