"""Each format, in pieces and whole, as a client decodes it."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest

from hearth_kokoro.engines import SAMPLE_RATE
from hearth_kokoro.web.encoders import HELD_MS, MEDIA_TYPES, open_encoder, to_pcm
from hearth_kokoro.web.speech import slices

from .decoding import hear, tone

FORMATS = tuple(MEDIA_TYPES)
RATES = {"opus": 48_000}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_pieces_decode_to_their_length(name: str, streamed: bool) -> None:
    encoder = open_encoder(name, streamed=streamed)
    segments = [encoder.encode(tone(seconds)) for seconds in (0.37, 1.0, 0.111)]
    heard = hear(b"".join(segments) + encoder.finish(), name)
    assert heard.rate == RATES.get(name, 24_000)
    assert heard.seconds == pytest.approx(1.481, abs=0.09)
    assert np.sqrt(np.mean(heard.samples**2)) == pytest.approx(0.21, abs=0.02)
    assert all(segments) == streamed


@pytest.mark.parametrize("name", FORMATS)
def test_a_segment_is_encoded_at_once(name: str) -> None:
    # Lengths that fill no frame, too: the table says the most that stays inside.
    held_ms = []
    for seconds in np.arange(0.4, 0.44, 0.0013):
        encoder = open_encoder(name)
        heard = hear(encoder.encode(tone(float(seconds))), name)
        held_ms.append(1000 * (float(seconds) - heard.seconds))
    assert HELD_MS[name] - 2.5 <= max(held_ms) <= HELD_MS[name] + 0.1


def test_the_readme_quotes_the_table() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    most = ", ".join(f"{name} {ms}" for name, ms in HELD_MS.items() if ms)
    assert f"{most} ms" in readme


@pytest.mark.parametrize("name", FORMATS)
def test_the_segment_boundaries_do_not_change_the_output(name: str) -> None:
    sound = tone(1.1)
    whole, cut = open_encoder(name), open_encoder(name)
    parts = [cut.encode(part) for part in slices(sound, SAMPLE_RATE // 10)]
    assert parts[0]
    one, other = whole.encode(sound) + whole.finish(), b"".join(parts) + cut.finish()
    # Not the bytes: each ogg file has a number of its own.
    assert len(one) == len(other)
    assert np.array_equal(hear(one, name).samples, hear(other, name).samples)


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_stream_is_a_valid_file(name: str) -> None:
    encoder = open_encoder(name)
    assert isinstance(encoder.encode(tone(0)) + encoder.finish(), bytes)


def test_a_whole_wav_contains_its_length_and_a_streamed_one_does_not() -> None:
    whole, streamed = open_encoder("wav", streamed=False), open_encoder("wav")
    assert whole.encode(tone(1)) == b""
    with wave.open(io.BytesIO(whole.finish())) as read:
        assert (read.getnframes(), read.getframerate(), read.getsampwidth()) == (24_000, 24_000, 2)
    head = streamed.encode(tone(1))[:44]
    assert head[4:8] == head[40:44] == b"\xff\xff\xff\xff"


def test_loud_samples_are_clipped_and_never_wrap_around() -> None:
    loud = np.array([1.5, -1.5, np.nan, 0.5], np.float32)
    assert to_pcm(loud).tolist() == [32767, -32767, 0, 16384]
