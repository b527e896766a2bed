"""Mandarin by misaki, where it is installed: jieba, pypinyin and cn2an, without spaCy."""

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Callable

_PARTS = ("misaki", "jieba", "pypinyin", "cn2an", "ordered_set")


def is_installed() -> bool:
    """Say whether everything that reads Mandarin is there, without loading it."""
    return all(importlib.util.find_spec(part) for part in _PARTS)


def reader() -> Callable[[str], str]:
    """Load the dictionaries, in seconds, and return what reads a text."""
    with warnings.catch_warnings():
        # jieba's source has escapes that newer Pythons warn of.
        warnings.simplefilter("ignore")
        read = importlib.import_module("misaki.zh").ZHG2P()
    # It tells on the standard error that it reads its dictionary.
    logging.getLogger("jieba").setLevel(logging.ERROR)

    def phonemes(text: str) -> str:
        said: str = read(text)[0]
        return said

    return phonemes
