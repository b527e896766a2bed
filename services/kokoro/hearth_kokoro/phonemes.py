"""Text to the phonemes that Kokoro knows."""

import ctypes
import re
import threading
from collections.abc import Mapping
from pathlib import Path

import espeakng_loader

from hearth_kokoro.engines.vocabulary import VOCABULARY
from hearth_kokoro.errors import SpeechError
from hearth_kokoro.languages import LANGUAGES

_NAMES: Mapping[str, bytes] = {
    "en-us": b"gmw/en-US",
    "en-gb": b"gmw/en",
    "es": b"roa/es",
    "fr-fr": b"roa/fr",
    "hi": b"inc/hi",
    "it": b"roa/it",
    "pt-br": b"roa/pt-BR",
}
# espeak swallows these and the voice needs them: what stands between them is said alone.
_MARKS = re.compile(r'(\s*[;:,.!?¡¿—…"«»“”()\[\]{}]+\s*)')
_SWITCH = re.compile(r"\([a-z-]+\)")


class Phonemizer:
    """Reads text by espeak-ng; safe to use from several threads."""

    def __init__(self) -> None:
        """Load espeak-ng, which keeps one global state: one call at a time."""
        self._lock = threading.Lock()
        self._espeak = ctypes.CDLL(espeakng_loader.get_library_path())
        self._espeak.espeak_TextToPhonemes.restype = ctypes.c_char_p
        folder = str(Path(espeakng_loader.get_data_path())).encode()
        if self._espeak.espeak_Initialize(2, 0, folder, 0x8000) <= 0:
            raise SpeechError("espeak-ng does not start", status=500)
        self._now = ""

    def languages(self) -> dict[str, str]:
        """Return language -> who reads it, or why nobody does."""
        return {
            language: "espeak" if language in _NAMES else "misaki is not installed"
            for language in LANGUAGES.values()
        }

    def phonemes(self, text: str, language: str) -> str:
        """Return what the model takes for `text`; 400 for a language that nobody reads here."""
        if language not in _NAMES:
            raise SpeechError(f"{language} needs misaki, which is not installed", param="voice")
        with self._lock:
            if self._now != language:
                self._espeak.espeak_SetVoiceByName(_NAMES[language])
                self._now = language
            parts = [
                part if odd else self._say(part) for odd, part in _alternate(_MARKS.split(text))
            ]
        return "".join(c for c in " ".join("".join(parts).split()) if c in VOCABULARY)

    def _say(self, text: str) -> str:
        """Return espeak's phonemes for words without punctuation."""
        if not text.strip():
            return text
        left = ctypes.c_char_p(text.encode())
        said: list[str] = []
        while left:
            found = self._espeak.espeak_TextToPhonemes(ctypes.byref(left), 1, 0x02)
            said.append((found or b"").decode())
        return _SWITCH.sub("", " ".join(said))


def _alternate(parts: list[str]) -> list[tuple[bool, str]]:
    """Number the parts of a split with one group: every second one is the group."""
    return [(index % 2 == 1, part) for index, part in enumerate(parts)]
