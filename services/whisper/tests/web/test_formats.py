"""The response formats, and the names of languages."""

from collections.abc import Sequence

import pytest

from hearth_whisper.languages import NAMES, code_of, name_of
from hearth_whisper.recognition import Segment, Word
from hearth_whisper.recognition.transcription import Transcript
from hearth_whisper.web import formats


def written(*segments: tuple[float, float, str], language: str | None = "en") -> Transcript:
    return Transcript(tuple(Segment(*each) for each in segments), language, 1.0, 12.3456, 0.1)


def test_times_are_rounded_and_have_hours() -> None:
    long = written((0.0004, 59.9996, " a"), (3599.9995, 36_000.0, " b"))
    assert "00:00:00,000 --> 00:01:00,000" in formats.srt_content(long)
    assert "01:00:00.000 --> 10:00:00.000" in formats.vtt_content(long)


def test_srt_cues_are_numbered_and_empty_ones_left_out() -> None:
    text = formats.srt_content(written((0, 1, " One."), (1, 2, "  "), (2, 3, " Two.")))
    assert text == (
        "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:02,000 --> 00:00:03,000\nTwo.\n"
    )


@pytest.mark.parametrize("segment_text", [" a --> b", " a\n\n1\nb", " <i>a</i> & b"])
def test_no_text_can_start_a_cue(segment_text: str) -> None:
    odd = written((0, 1, segment_text))
    for text in (formats.srt_content(odd), formats.vtt_content(odd)):
        assert text.count("-->") == 1
        assert text.count("\n\n") == text.startswith("WEBVTT")
    assert "<" not in formats.vtt_content(odd)


def test_a_text_keeps_the_models_own_spaces() -> None:
    assert written((0, 1, " Eins,"), (1, 2, " zwei.")).text == "Eins, zwei."
    assert written((0, 1, "一"), (1, 2, "二")).text == "一二"
    assert formats.json_content(written()) == {
        "text": "",
        "usage": {"type": "duration", "seconds": 13},
    }


def test_words_are_those_of_all_segments() -> None:
    each = [Segment(n, n + 1, f" {n}", (Word(n, n + 0.5, f" {n}", 0.5),)) for n in range(3)]

    def keys(granularities: Sequence[str]) -> set[str]:
        shown = formats.verbose_content(
            Transcript(tuple(each), "de", 1.0, 3.0, 0.1), "transcribe", granularities
        )
        assert shown["language"] == "german"
        return {"words", "segments"} & set(shown)

    assert keys(()) == keys(("segment",)) == {"segments"}
    assert keys(("word",)) == {"words"}
    assert keys(("word", "segment")) == {"words", "segments"}


def test_audio_without_speech() -> None:
    nothing = Transcript((), None, 0.0, 3.0, 0.1)
    assert formats.verbose_content(nothing, "transcribe", ())["language"] == ""
    assert formats.vtt_content(nothing) == "WEBVTT\n"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("de", "de"), ("DE", "de"), ("de-AT", "de"), ("de_AT", "de"), ("German", "de"),
        ("haitian creole", "ht"), ("zh-Hant-TW", "zh"), ("iw", "he"), ("nb", "no"),
        ("klingon", None), ("", None), ("-", None),
    ],
)  # fmt: skip
def test_languages_by_code_and_by_name(name: str, code: str | None) -> None:
    assert code_of(name) == code


def test_every_language_has_one_name() -> None:
    assert len(NAMES) == len(set(NAMES.values())) == 100
    assert name_of("ht") == "haitian creole"
    assert name_of(None) == ""
