"""Text to the phonemes that Kokoro knows."""

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
"""Who reads a language; anything else that is said of one is why nobody does."""
_MISAKI_PARTS = ("misaki", "jieba", "pypinyin", "cn2an", "ordered_set")
# Languages that espeak-ng does not read well enough for these voices.
_UNREAD: Mapping[str, str] = {"ja": "Japanese", "zh": "Mandarin"}
# espeak swallows these and the voice needs them: what stands between them is said alone.
_MARKS = re.compile(r'(\s*[;:,.!?¡¿—…"«»“”()\[\]{}।]+\s*)')
_KNOWN = str.maketrans("«»[]{}।", "“”()().")


class Phonemizer:
    """Reads text by espeak-ng in a process of its own, and Mandarin by misaki; safe to share.

    No library stands between: phonemizer copies espeak's library to a temporary folder for each
    language, takes six times as long for the same phonemes, and dies with it.
    """

    def __init__(self) -> None:
        """Start espeak-ng with every language loaded, so that no request waits for one."""
        # It keeps one global state: one call at a time.
        self._lock = threading.Lock()
        self._espeak = Espeak()
        self._mandarin: Callable[[str], str] | None = None

    def languages(self) -> dict[str, str]:
        """Return language -> espeak or misaki, or why nobody reads it."""
        return {language: _reader(language) for language in LANGUAGES.values()}

    def phonemes(self, text: str, language: str) -> str:
        """Return what the model takes for `text`; 400 for a language that nobody reads."""
        if language not in VOICES and _reader(language) != "misaki":
            raise ServiceError(self._refusal(language), param="voice")
        with self._lock:
            said = self._mandarins(text) if language == "zh" else self._by_espeak(text, language)
        return "".join(c for c in " ".join(said.split()) if c in VOCABULARY)

    def _refusal(self, language: str) -> str:
        """Say in one line why nobody reads a language, and which ones are read."""
        spoken = ", ".join(one for one, who in self.languages().items() if who in PHONEMIZERS)
        name = _UNREAD.get(language, language)
        return f"{name} is {_reader(language)}; supported languages: {spoken}"

    def _mandarins(self, text: str) -> str:
        """Read by misaki, which is loaded when somebody first asks for it."""
        if self._mandarin is None:
            self._mandarin = _load_misaki()
        return self._mandarin(text)

    def _by_espeak(self, text: str, language: str) -> str:
        """Read the words between the marks by espeak, and keep the marks."""
        parts = _MARKS.split(text)
        # Every second part is what the split was made at.
        said = self._espeak.say(language, parts[0::2])
        parts[0::2] = [to_kokoro_alphabet(one, language) for one in said]
        parts[1::2] = [part.translate(_KNOWN) for part in parts[1::2]]
        return "".join(parts)


def _reader(language: str) -> str:
    """Return who reads a language, or why nobody does."""
    if language in VOICES:
        return "espeak"
    if language != "zh":
        # misaki reads Japanese by pyopenjtalk, which has no wheels and fetches its dictionary when
        # it is first used.
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
