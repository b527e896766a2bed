"""Texts for TTS: our own words, and never the same ones twice.

A server may cache its speech. So every phrase starts with words that no earlier phrase had, of
much the same length; only tests of the cache repeat a phrase.
"""

import itertools
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from hearth.clients.tts import VOICE

LONG_CHARACTERS = 8_700
SHORT_CHARACTERS = 900
"""The length of the long text in a quick run."""

_FIRST = """Anna Boris Clara David Elena Frank Greta Henry Irene James Karen Louis Maria Niels Olive
Peter Rosie Simon Tanya Ursus Vera Willa Yusuf Zelda""".split()  # noqa: SIM905
_LAST = """Adler Bloom Carver Decker Ellis Farrow Granger Hobbs Irving Jarvis Keller Landry Mercer
Norton Orwin Palmer Quincy Rowan Sutton Turner Upton Vaughn Walker Yarrow""".split()  # noqa: SIM905

# No comma in the first sentence: the server must find the first pause itself.
_PHRASES = {
    "en": "{name} opened the heavy old door at noon. A cold wind blew in, and {other} laughed.",
    "es": "{name} abrió la vieja puerta a mediodía. Entró un viento frío, y {other} se rio.",
}
_LANGUAGES = {"e": "es"}

_PARAGRAPH = (
    "{name} kept a small workshop at the end of the lane, where the road turns down to the river. "
    "Every morning began with the same three things: a kettle, a window, and a list. Some days the "
    "list was long, with clocks to be cleaned, a chair without a leg, and a radio that hummed. On "
    "other days there was a single line on it, and nobody could read the handwriting. It did not "
    "matter much; the people who came in wanted to talk as often as they wanted anything mended."
)


@dataclass(slots=True)
class Texts:
    """The texts of one run; every fresh one starts with a name that was not used before."""

    seed: str = field(default_factory=lambda: secrets.token_hex(8))
    _names: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        """Draw the order of the names: each run has its own, so that no earlier run helps."""
        names = [f"{first} {last}" for first, last in itertools.product(_FIRST, _LAST)]
        random.Random(self.seed).shuffle(names)  # noqa: S311 - filler text
        # When all have been used, a third word makes them new.
        more = (f"{name} {extra}" for extra in _FIRST for name in names)
        self._names = itertools.chain(names, itertools.cycle(more))

    def phrase(self, voice: str = VOICE) -> str:
        """Return two sentences of about 90 characters in the voice's language."""
        language = _LANGUAGES.get(voice[:1], "en")
        return _PHRASES[language].format(name=next(self._names), other=next(self._names))

    def paragraph(self) -> str:
        """Return five sentences of about 470 characters."""
        return _PARAGRAPH.format(name=next(self._names))

    def long(self, characters: int = LONG_CHARACTERS) -> str:
        """Return paragraphs of `characters` characters in all, ending with a sentence."""
        text = self.phrase()
        for number in itertools.count(1):
            if len(text) >= characters:
                break
            text += ("\n\n" if number % 6 == 0 else " ") + self.phrase()
        # Cut at a word and ended like a sentence: only the length is compared.
        return text[: characters - 1].rsplit(" ", 1)[0].rstrip(" ,;.") + "."


SAMPLE = "Yes, of course."
"""One piece for every server: repeated where only the path to it is measured."""
