"""The recordings: as long as they say, trimmed, with known words; and a person's own."""

from __future__ import annotations

import time
import wave
from array import array
from pathlib import Path

import pytest

from hearth.bench.stt.word_errors import own_recordings
from hearth.clients import ClientError
from hearth.clients.recordings import (
    BYTES,
    RATE,
    concatenated,
    read_audio,
    trimmed,
    utterances,
    wav,
)
from hearth.clients.stats import error_rate, words_of
from hearth.clients.stt import background_noise, in_real_time
from tests.unit.bench.stt.conftest import tone

LOUD = 327


@pytest.mark.parametrize("kind_s", [1, 3, 10, 30])
def test_the_recordings_are_as_long_as_they_say_and_end_with_their_last_word(kind_s: int) -> None:
    spoken = utterances(kind_s)
    assert spoken
    for one in spoken:
        assert one.seconds == pytest.approx(kind_s, rel=0.12, abs=0.4)
        samples = array("h", one.pcm)
        assert min(abs(samples[0]), abs(samples[-1])) > LOUD
        assert 20_000 < max(map(abs, samples)) < 32_767
        # People say two to four words a second.
        assert 2 < len(words_of(one.text)) / one.seconds < 4.5


def test_no_pause_in_them_would_end_them() -> None:
    half = RATE // 2
    for one in (*utterances(3), *utterances(10), *utterances(30)):
        samples = array("h", one.pcm)
        windows = [samples[at : at + half // 2] for at in range(0, len(samples), half // 2)]
        assert all(max(map(abs, window)) > LOUD for window in windows)


def test_sound_is_trimmed_to_its_first_and_last_loud_sample() -> None:
    assert trimmed(background_noise(0.1) + tone() + background_noise(0.2)) == trimmed(tone())
    assert trimmed(background_noise(0.1)) == b""


def test_a_long_file_has_the_requested_length() -> None:
    assert len(concatenated(70)) == 70 * RATE * BYTES


async def test_a_microphone_hands_over_what_was_heard_and_no_sooner() -> None:
    sound, heard = tone(0.05), b""
    started = time.perf_counter()
    async for at, chunk in in_real_time(sound, started):
        assert at / BYTES / RATE <= time.perf_counter() - started + 1e-6
        heard += chunk
        assert len(heard) == at
        if at > len(sound):
            break
    assert heard.startswith(sound)


def test_a_persons_own_recordings(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(tone()))
    (tmp_path / "a.txt").write_text("Good morning.")
    (tmp_path / "b.txt").write_text("words without a sound")
    (one,) = own_recordings(tmp_path)
    assert one.text == "Good morning."
    assert one.seconds == pytest.approx(0.1, abs=0.01)
    (tmp_path / "a.wav").write_bytes(b"no sound")
    with pytest.raises(ClientError, match=r"a\.wav"):
        own_recordings(tmp_path)
    with pytest.raises(ClientError, match=r"a\.wav and a\.txt"):
        own_recordings(tmp_path / "nowhere")


def test_any_rate_becomes_ours(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(48_000)
        file.writeframes(bytes(48_000 * 2 * 2))
    assert len(read_audio(tmp_path / "a.wav")) == pytest.approx(RATE * BYTES, abs=400)


@pytest.mark.parametrize(
    ("spoken", "written", "rate"),
    [
        ("Put the kettle on.", "put the kettle on", 0.0),
        ("Put the kettle on.", "Put a kettle on!", 0.25),
        ("Put the kettle on.", "Put the old kettle on", 0.25),
        ("Put the kettle on.", "kettle on", 0.5),
        ("Put the kettle on.", "", 1.0),
        ("It's ten o’clock", "it's ten o'clock", 0.0),  # noqa: RUF001
        ("Übung", "übung", 0.0),
    ],
)
def test_what_was_written_wrongly_is_counted(spoken: str, written: str, rate: float) -> None:
    assert error_rate([(spoken, written)]) == pytest.approx(rate)


def test_long_texts_weigh_more_than_short_ones_and_none_is_no_figure() -> None:
    assert error_rate([("one", "two"), ("a b c", "a b c")]) == pytest.approx(0.25)
    assert error_rate([]) is None
    assert error_rate([("...", "a")]) is None
