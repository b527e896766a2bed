"""Text to phonemes, by the espeak-ng in the wheel."""

# ruff: noqa: RUF001 - phonetic letters look like others
import gc
import threading

import pytest

from hearth_kokoro.engines.model_io import VOCABULARY
from hearth_kokoro.phonemes import misaki
from hearth_kokoro.phonemes.espeak import Espeak
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.voices import LANGUAGES
from hearth_serving.errors import ServiceError

TEXTS = {
    "en-us": "Hello there, Dr Smith! Is it (really) five o'clock?",
    "en-gb": "I would rather have a bath at home.",
    "es": "¿Qué hora es? Son las tres, y llueve.",
    "fr-fr": "J'aime la pluie; et vous?",
    "hi": "नमस्ते, आप कैसे हैं?",
    "it": "Ciao, come stai? Bene, grazie.",
    "pt-br": "Olá, tudo bem? Não sei.",
}
SPOKEN = "en-us, en-gb, es, fr-fr, hi, it, pt-br"


@pytest.fixture(scope="module")
def phonemizer() -> Phonemizer:
    return Phonemizer()


@pytest.mark.parametrize("language", TEXTS)
def test_phonemes_keep_the_punctuation(phonemizer: Phonemizer, language: str) -> None:
    text = TEXTS[language]
    phonemes = phonemizer.phonemes(text, language)
    assert set(phonemes) <= set(VOCABULARY)
    assert len(phonemes) > len(text) / 2
    marks = [c for c in text if c in ",.!?;()"]
    assert [c for c in phonemes if c in ",.!?;()"] == marks


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "\x00", "\u200b", "\ufffd", "\n"])
def test_a_text_without_words_returns_only_marks(phonemizer: Phonemizer, text: str) -> None:
    assert set(phonemizer.phonemes(text, "en-us")) <= set(".?!")


def test_a_foreign_word_brings_no_language_tags(phonemizer: Phonemizer) -> None:
    phonemes = phonemizer.phonemes("J'aime le football.", "fr-fr")
    assert "(" not in phonemes
    assert "en" not in phonemes


# Each of them ends the process that espeak-ng runs in, by a signal.
DEADLY = ["\uab68-\u0971", "\uab3bd\u1ea2"]


@pytest.mark.parametrize("text", DEADLY)
def test_a_text_that_kills_espeak_is_rejected_and_the_next_one_works(
    phonemizer: Phonemizer, text: str
) -> None:
    before = phonemizer.phonemes(TEXTS["hi"], "hi")
    with pytest.raises(ServiceError, match="cannot process this text"):
        phonemizer.phonemes(text, "hi")
    assert phonemizer.phonemes(TEXTS["hi"], "hi") == before


def test_espeak_ends_with_its_owner() -> None:
    espeak = Espeak()
    process = espeak._process
    assert process.poll() is None
    del espeak
    gc.collect()
    assert process.poll() is not None


def test_languages_do_not_affect_each_other(phonemizer: Phonemizer) -> None:
    alone = {language: Phonemizer().phonemes(text, language) for language, text in TEXTS.items()}
    wrong: list[str] = []

    def read(language: str) -> None:
        for _ in range(50):
            if phonemizer.phonemes(TEXTS[language], language) != alone[language]:
                wrong.append(language)

    threads = [threading.Thread(target=read, args=[language]) for language in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_every_language_is_supported(phonemizer: Phonemizer) -> None:
    languages = phonemizer.languages()
    assert set(languages) == set(LANGUAGES.values())
    assert [language for language, who in languages.items() if who == "espeak"] == list(TEXTS)
    assert {languages[language] for language in ("ja", "zh")} == {"misaki"}


@pytest.mark.parametrize(("language", "name"), [("zh", "Mandarin"), ("ja", "Japanese")])
def test_a_language_without_its_libraries_is_rejected(
    phonemizer: Phonemizer, monkeypatch: pytest.MonkeyPatch, language: str, name: str
) -> None:
    monkeypatch.setattr(misaki, "is_installed", lambda _: False)
    with pytest.raises(ServiceError) as caught:
        phonemizer.phonemes("\u4f60\u597d", language)
    assert str(caught.value) == (
        f"{name} is not supported by this server without misaki "
        f"(pip install './services/kokoro[misaki]'); supported languages: {SPOKEN}"
    )
    assert (caught.value.status, caught.value.param) == (400, "voice")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en-us", "boat", "bˈOt"),
        ("en-us", "now", "nˈW"),
        ("en-us", "water", "wˈɔTəɹ"),
        ("en-us", "choose", "ʧˈuz"),
        ("en-gb", "boat", "bˈQt"),
        ("en-gb", "there", "ðˈɛː"),
        ("es", "ocho", "ˈoʧo"),
        ("it", "grazie", "ɡrˈaʦje"),
        ("hi", "ठीक।", "ʈʰˈiːk."),
        ("ja", "東京へ。", "toːkʲoː e."),
        ("zh", "你好。", "ni↓xau↓."),
    ],
)
def test_phonemes_are_those_of_the_training_data(
    phonemizer: Phonemizer, language: str, text: str, expected: str
) -> None:
    assert phonemizer.phonemes(text, language) == expected
