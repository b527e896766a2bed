"""The table rows.yml: how a person reads a text aloud, in every language."""

import unicodedata
from pathlib import Path

import pytest
import yaml

from hearth_kokoro.text.tokenizer import tokenize
from hearth_kokoro.text.tokens import Pause

ROWS: dict[str, list[dict[str, str]]] = yaml.safe_load(
    Path(__file__).with_name("rows.yml").read_text(encoding="utf-8")
)
ALL = [(language, row["written"], row["said"]) for language, rows in ROWS.items() for row in rows]
JOINS = {
    Pause.NONE: "_",
    Pause.WORD: " ",
    Pause.CLAUSE: " / ",
    Pause.SENTENCE: " // ",
    Pause.PARAGRAPH: " ¶ ",
}
UNREAD_FIGURES = {"hi", "ja", "zh"}
"""Languages whose digits espeak-ng and misaki read."""


def shown(written: str, language: str) -> str:
    *most, last = tokenize(written, language)
    return "".join((one.spoken or "∅") + JOINS[one.pause] for one in most) + (last.spoken or "∅")


@pytest.mark.parametrize(("language", "written", "said"), ALL)
def test_a_row_is_read_as_a_person_would(language: str, written: str, said: str) -> None:
    assert shown(written, language) == said


@pytest.mark.parametrize(("language", "written", "said"), ALL)
def test_no_character_is_left_that_the_voice_skips_or_spells(
    language: str, written: str, said: str
) -> None:
    for token in tokenize(written, language):
        for letter in token.spoken:
            kind = unicodedata.category(letter)[0]
            figure = letter.isdecimal() and language in UNREAD_FIGURES
            assert kind in "LM" or letter in " .,;:!?…—-'’" or figure, token  # noqa: RUF001


def test_the_table_is_long_enough_and_has_every_language() -> None:
    assert len(ALL) >= 150
    assert set(ROWS) == {"en-us", "en-gb", "es", "fr-fr", "hi", "it", "pt-br", "ja", "zh"}
