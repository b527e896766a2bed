"""Reads a whole text."""

from hearth_kokoro.text.reader import Reader
from hearth_kokoro.text.token import Token


def read(text: str, language: str) -> list[Token]:
    """Return the tokens of a text, in linear time; their sources joined are the text."""
    reader = Reader(language)
    return [*reader.feed(text), *reader.flush()]
