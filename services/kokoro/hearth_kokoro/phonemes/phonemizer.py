"""Converts text to the phonemes that Kokoro knows."""

import re
import threading
from collections.abc import Mapping

from hearth_kokoro.engines.model_io import VOCABULARY
from hearth_kokoro.phonemes import misaki
from hearth_kokoro.phonemes.alphabet import to_kokoro_alphabet
from hearth_kokoro.phonemes.espeak import VOICES, Espeak
from hearth_kokoro.voices import LANGUAGES
from hearth_serving.errors import ServiceError

PHONEMIZERS = ("espeak", "misaki")
"""The programs that phonemize a language; any other value is the reason why it is unsupported."""
# Languages that espeak-ng does not read well enough for these voices.
_NAMES: Mapping[str, str] = {"ja": "Japanese", "zh": "Mandarin"}
# espeak drops these marks but the voice needs them, so the text between them is converted alone.
_MARKS = re.compile(r'(\s*[;:,.!?¡¿—…"«»“”()\[\]{}।]+\s*)')
_KNOWN = str.maketrans("«»[]{}।", "“”()().")


class Phonemizer:
    """Converts text by espeak-ng in a separate process, or by misaki; safe for threads.

    The `phonemizer` library is not used: it copies espeak's library for each language, takes six
    times as long, and crashes with it.
    """

    def __init__(self) -> None:
        # espeak-ng has one global state: one call at a time.
        self._espeak_lock = threading.Lock()
        self._espeak = Espeak()
        # Of its own, because the first call loads dictionaries.
        self._misaki_lock = threading.Lock()
        self._misaki: dict[str, misaki.Convert] = {}

    def languages(self) -> dict[str, str]:
        """Return language -> espeak or misaki, or why it is not supported."""
        return {language: _phonemizer_of(language) for language in LANGUAGES.values()}

    def phonemes(self, text: str, language: str) -> str:
        """Return the model's input for `text`; ServiceError 400 for an unsupported language."""
        if language not in VOICES and _phonemizer_of(language) != "misaki":
            raise ServiceError(self._unsupported(language), param="voice")
        if language in VOICES:
            with self._espeak_lock:
                found = self._by_espeak(text, language)
        else:
            with self._misaki_lock:
                found = self._by_misaki(text, language)
        return "".join(c for c in " ".join(found.split()) if c in VOCABULARY)

    def _unsupported(self, language: str) -> str:
        """Return why a language is not supported, and which ones are."""
        spoken = ", ".join(one for one, by in self.languages().items() if by in PHONEMIZERS)
        name = _NAMES.get(language, language)
        return f"{name} is {_phonemizer_of(language)}; supported languages: {spoken}"

    def _by_misaki(self, text: str, language: str) -> str:
        """Convert Mandarin or Japanese; the dictionaries are loaded at the first request."""
        if language not in self._misaki:
            self._misaki[language] = misaki.load(language)
        return self._misaki[language](text)

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
    if misaki.is_installed(language):
        return "misaki"
    return "not supported by this server without misaki (pip install './services/kokoro[misaki]')"
