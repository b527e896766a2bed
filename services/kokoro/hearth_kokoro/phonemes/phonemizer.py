"""Converts text to the phonemes that Kokoro knows."""

import importlib
import importlib.util
import logging
import re
import threading
import warnings
from collections.abc import Callable, Mapping

from hearth_kokoro.engines.model_io import VOCABULARY
from hearth_kokoro.phonemes.alphabet import to_kokoro_alphabet
from hearth_kokoro.phonemes.espeak import VOICES, Espeak
from hearth_kokoro.voices import LANGUAGES
from hearth_serving.errors import ServiceError

PHONEMIZERS = ("espeak", "misaki")
"""The programs that phonemize a language; any other value is the reason why it is unsupported."""
_MISAKI_PARTS = ("misaki", "jieba", "pypinyin", "cn2an", "ordered_set")
# Languages that espeak-ng does not read well enough for these voices.
_NAMES: Mapping[str, str] = {"ja": "Japanese", "zh": "Mandarin"}
# espeak drops these marks but the voice needs them, so the text between them is converted alone.
_MARKS = re.compile(r'(\s*[;:,.!?¡¿—…"«»“”()\[\]{}।]+\s*)')
_KNOWN = str.maketrans("«»[]{}।", "“”()().")


class Phonemizer:
    """Converts text by espeak-ng in a separate process, Mandarin by misaki; safe for threads.

    The `phonemizer` library is not used: it copies espeak's library for each language, takes six
    times as long, and crashes with it.
    """

    def __init__(self) -> None:
        # espeak-ng has one global state: one call at a time.
        self._lock = threading.Lock()
        self._espeak = Espeak()
        self._mandarin: Callable[[str], str] | None = None

    def languages(self) -> dict[str, str]:
        """Return language -> espeak or misaki, or why it is not supported."""
        return {language: _phonemizer_of(language) for language in LANGUAGES.values()}

    def phonemes(self, text: str, language: str) -> str:
        """Return the model's input for `text`; ServiceError 400 for an unsupported language."""
        if language not in VOICES and _phonemizer_of(language) != "misaki":
            raise ServiceError(self._unsupported(language), param="voice")
        with self._lock:
            found = self._by_misaki(text) if language == "zh" else self._by_espeak(text, language)
        return "".join(c for c in " ".join(found.split()) if c in VOCABULARY)

    def _unsupported(self, language: str) -> str:
        """Return why a language is not supported, and which ones are."""
        spoken = ", ".join(one for one, by in self.languages().items() if by in PHONEMIZERS)
        name = _NAMES.get(language, language)
        return f"{name} is {_phonemizer_of(language)}; supported languages: {spoken}"

    def _by_misaki(self, text: str) -> str:
        """Convert Mandarin; misaki is loaded at the first request."""
        if self._mandarin is None:
            self._mandarin = _load_misaki()
        return self._mandarin(text)

    def _by_espeak(self, text: str, language: str) -> str:
        """Convert the words between the marks, and keep the marks."""
        parts = _MARKS.split(text)
        # Every second part is a mark.
        phonemes = self._espeak.phonemes(language, parts[0::2])
        parts[0::2] = [to_kokoro_alphabet(one, language) for one in phonemes]
        parts[1::2] = [part.translate(_KNOWN) for part in parts[1::2]]
        return "".join(parts)


def _phonemizer_of(language: str) -> str:
    """Return the program that phonemizes a language, or why it is not supported."""
    if language in VOICES:
        return "espeak"
    if language != "zh":
        # For Japanese, misaki needs pyopenjtalk, which has no wheels and downloads its dictionary
        # at its first use.
        return "not supported by this server yet"
    if _misaki_is_installed():
        return "misaki"
    return "not supported by this server without misaki (pip install './services/kokoro[misaki]')"


def _misaki_is_installed() -> bool:
    """Return whether all libraries for Mandarin are installed, without loading them."""
    return all(importlib.util.find_spec(part) for part in _MISAKI_PARTS)


def _load_misaki() -> Callable[[str], str]:
    """Load the dictionaries, which takes seconds, and return the conversion of a text."""
    with warnings.catch_warnings():
        # jieba's source has escape sequences that newer Pythons warn about.
        warnings.simplefilter("ignore")
        convert = importlib.import_module("misaki.zh").ZHG2P()
    # jieba reports on the standard error that it reads its dictionary.
    logging.getLogger("jieba").setLevel(logging.ERROR)

    def phonemes(text: str) -> str:
        converted: str = convert(text)[0]
        return converted

    return phonemes
