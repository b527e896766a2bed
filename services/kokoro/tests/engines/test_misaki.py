"""Mandarin and Japanese have the phonemes that misaki gives with its own segmenters.

The expected ones were written by misaki 0.9.4 with jieba 0.42.1, and with fugashi 1.5.2 and UniDic.
"""

# ruff: noqa: RUF001 - phonetic letters and Chinese punctuation look like others
import pytest

from hearth_kokoro.engines.model_io import VOCABULARY
from hearth_kokoro.phonemes import misaki
from hearth_serving.errors import ServiceError

ROWS = {
    "zh": [
        ("你好，世界！", "ni↓xau↓, ʂɨ↘ʨje↘!"),
        ("南京市长江大桥。", "na↗nʨi→ŋʂɨ↘ ꭧʰa↗ŋʨja→ŋta↘ʨʰjau↗."),
        # One character, two readings.
        ("银行行长在重庆重新开会。", "i↗nxa↗ŋxa↗ŋꭧa↓ŋ ʦai↘ ꭧʰʊ↗ŋʨʰi↘ŋ ꭧʰʊ↗ŋɕi→n kʰai→xwei↘."),
        ("气温是-5度。", "ʨʰi↘wə→n ʂɨ↘ fu↘ u↓tu↘."),
        ("价格是100元，便宜3.5%！", "ʨja↘kɤ↗ ʂɨ↘ i↘pai↓ɥɛ↗n, pʰjɛ↗ni pai↓fə→nꭧɨ→sa→ntjɛ↓n u↓!"),
        ("《红楼梦》很长。", "“xʊ↗ŋlou↗mə↘ŋ” xə↓nꭧa↓ŋ."),
    ],
    "ja": [
        # The particles は and へ, and long vowels, are not read as they are written.
        ("今日は東京へ行きます。", "kʲoː βa toːkʲoː e ikʲimasɨ."),
        ("こんにちは、世界！", "koɲɲiʨiβa, sekai!"),
        ("3月5日の気温は25度です。", "saɴ ɡaʦɨ ɡo ɲiʨi no kʲioɴ βa ɲiʥɨːɡo do desɨ."),
        ("新幹線は時速三百キロで走る。", "ɕiŋkaɴseɴ βa ʥisokɯ sambʲakɯ kʲiɾo de haɕiɾɯ."),
        ("ヴァイオリンとチェロの音が聞こえる。", "baioɾʲiɴ to ʨeɾo no oto ɡa kʲikoeɾɯ."),
        ("「ありがとうございます」と彼は言った。", "“aɾʲiɡatoː ɡoʣaimasɨ” to kaɾe βa iʔta."),
        ("時々、人々は山々を見る。", "tokʲidokʲi, çitobʲito βa jamajama o mʲiɾɯ."),
        ("ﾊﾝｶｸｶﾅも読む。", "haŋkakɯkana mo jomɯ."),
    ],
}
CASES = [(language, *row) for language, rows in ROWS.items() for row in rows]


@pytest.fixture(scope="module")
def converters() -> dict[str, misaki.Convert]:
    """The conversion of each language, with its dictionaries loaded once."""
    return {language: misaki.load(language) for language in ROWS}


@pytest.mark.parametrize(("language", "text", "expected"), CASES)
def test_texts_have_misakis_phonemes(
    converters: dict[str, misaki.Convert], language: str, text: str, expected: str
) -> None:
    assert misaki.is_installed(language)
    assert converters[language](text) == expected
    # Kokoro knows nearly all of them; the rest would be dropped.
    assert set(expected) <= set(VOCABULARY) | {" "}


@pytest.mark.parametrize(("language", "text"), [("zh", "好嗧"), ("ja", "ンュ")])
def test_a_text_that_cannot_be_read_is_the_clients_error(
    converters: dict[str, misaki.Convert], language: str, text: str
) -> None:
    with pytest.raises(ServiceError, match="remove its unusual characters") as caught:
        converters[language](text)
    assert (caught.value.status, caught.value.param) == (400, "input")


@pytest.mark.parametrize("language", list(ROWS))
def test_what_is_no_word_has_no_phonemes(
    converters: dict[str, misaki.Convert], language: str
) -> None:
    assert not converters[language]("  ").strip()
