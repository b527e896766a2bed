"""Text to the phonemes that Kokoro knows."""

import ctypes
import re
import threading
from collections.abc import Callable, Mapping

import espeakng_loader

from hearth_kokoro.engines import mandarin
from hearth_kokoro.engines.alphabet import TIE, in_kokoros
from hearth_kokoro.engines.vocabulary import VOCABULARY
from hearth_kokoro.errors import SpeechError
from hearth_kokoro.languages import LANGUAGES

# Language -> espeak-ng's name of its voice.
_VOICES: Mapping[str, bytes] = {
    "en-us": b"gmw/en-US",
    "en-gb": b"gmw/en",
    "es": b"roa/es",
    "fr-fr": b"roa/fr",
    "hi": b"inc/hi",
    "it": b"roa/it",
    "pt-br": b"roa/pt-BR",
}
_READERS = ("espeak", "misaki")
# Languages that espeak-ng does not read well enough for these voices.
_UNREAD: Mapping[str, str] = {"ja": "Japanese", "zh": "Mandarin"}
# Of espeak-ng's speak_lib.h: no sound device, no exit when its data is missing, UTF-8, and IPA
# with a tie between the letters of one phoneme.
_RETRIEVAL, _DONT_EXIT, _UTF8 = 1, 0x8000, 1
_TIED_IPA = 0x02 | 0x80 | ord(TIE) << 8
# espeak swallows these and the voice needs them: what stands between them is said alone.
_MARKS = re.compile(r'(\s*[;:,.!?¡¿—…"«»“”()\[\]{}।]+\s*)')
_KNOWN = str.maketrans("«»[]{}।", "“”()().")
# It says where it reads a foreign word by that language's rules: "(en)" and later "(fr)"; with
# ties even within these.
_SWITCH = re.compile(r"\([a-z^-]+\)")


class Phonemizer:
    """Reads text by espeak-ng, called directly, and Mandarin by misaki; safe to share.

    No library stands between: phonemizer copies espeak's library to a temporary folder for each
    language and takes six times as long for the same phonemes. A change of language costs 0.05 ms.
    """

    def __init__(self) -> None:
        """Load espeak-ng and every language, so that no request waits for one."""
        # It keeps one global state: one call at a time.
        self._lock = threading.Lock()
        self._espeak = ctypes.CDLL(espeakng_loader.get_library_path())
        self._espeak.espeak_TextToPhonemes.restype = ctypes.c_char_p
        folder = espeakng_loader.get_data_path().encode()
        if self._espeak.espeak_Initialize(_RETRIEVAL, 0, folder, _DONT_EXIT) <= 0:
            raise SpeechError(f"espeak-ng finds no data in {folder.decode()}", status=500)
        self._language = ""
        self._mandarin: Callable[[str], str] | None = None
        for language in _VOICES:
            self.phonemes("1", language)

    def languages(self) -> dict[str, str]:
        """Return language -> espeak or misaki, or why nobody reads it."""
        return {language: _reader(language) for language in LANGUAGES.values()}

    def phonemes(self, text: str, language: str) -> str:
        """Return what the model takes for `text`; 400 for a language that nobody reads."""
        if language not in _VOICES and _reader(language) != "misaki":
            raise SpeechError(self._refusal(language), param="voice")
        with self._lock:
            said = self._mandarins(text) if language == "zh" else self._by_espeak(text, language)
        return "".join(c for c in " ".join(said.split()) if c in VOCABULARY)

    def _refusal(self, language: str) -> str:
        """Say in one line why nobody reads a language, and which ones are read."""
        spoken = ", ".join(one for one, who in self.languages().items() if who in _READERS)
        return f"{_UNREAD.get(language, language)} is {_reader(language)}; it speaks {spoken}"

    def _mandarins(self, text: str) -> str:
        """Read by misaki, which is loaded when somebody first asks for it."""
        if self._mandarin is None:
            self._mandarin = mandarin.reader()
        return self._mandarin(text)

    def _by_espeak(self, text: str, language: str) -> str:
        """Read the words between the marks by espeak, and keep the marks."""
        if self._language != language:
            if self._espeak.espeak_SetVoiceByName(_VOICES[language]) != 0:
                raise SpeechError(f"espeak-ng has no voice for {language}", status=500)
            self._language = language
        parts = _MARKS.split(text)
        # Every second part is what the split was made at.
        parts[0::2] = [in_kokoros(self._say(part), language) for part in parts[0::2]]
        parts[1::2] = [part.translate(_KNOWN) for part in parts[1::2]]
        return "".join(parts)

    def _say(self, text: str) -> str:
        """Return espeak's phonemes for words without punctuation."""
        # It takes a C string, which ends at the first null.
        words = text.replace("\0", " ")
        if not words.strip():
            return text
        left = ctypes.c_char_p(words.encode("utf-8", "ignore"))
        said: list[str] = []
        while left:
            found = self._espeak.espeak_TextToPhonemes(ctypes.byref(left), _UTF8, _TIED_IPA)
            said.append((found or b"").decode("utf-8", "replace"))
        return _SWITCH.sub("", " ".join(said))


def _reader(language: str) -> str:
    """Return who reads a language, or why nobody does."""
    if language in _VOICES:
        return "espeak"
    if language != "zh":
        # misaki reads Japanese by pyopenjtalk, which has no wheels and fetches its dictionary when
        # it is first used.
        return "not supported by this server yet"
    if mandarin.is_installed():
        return "misaki"
    return "not supported by this server without misaki (pip install './services/kokoro[misaki]')"
