"""The vocabulary of text normalisation for each language."""

from collections.abc import Mapping
from types import MappingProxyType

from hearth_kokoro.text.lexicon.english import AMERICAN, BRITISH
from hearth_kokoro.text.lexicon.french import FRENCH
from hearth_kokoro.text.lexicon.hindi import HINDI
from hearth_kokoro.text.lexicon.italian import ITALIAN
from hearth_kokoro.text.lexicon.japanese_chinese import CHINESE, JAPANESE
from hearth_kokoro.text.lexicon.portuguese import PORTUGUESE
from hearth_kokoro.text.lexicon.schema import Lexicon
from hearth_kokoro.text.lexicon.spanish import SPANISH

LEXICONS: Mapping[str, Lexicon] = MappingProxyType(
    {
        known.language: known
        for known in (
            AMERICAN,
            BRITISH,
            SPANISH,
            FRENCH,
            HINDI,
            ITALIAN,
            PORTUGUESE,
            JAPANESE,
            CHINESE,
        )
    }
)


def lexicon_for(language: str) -> Lexicon:
    """Return the lexicon of a language; raises KeyError for one that no voice speaks."""
    return LEXICONS[language]
