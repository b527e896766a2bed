"""Each format, piece by piece and whole, as a listener decodes it."""

import io
import wave

import numpy as np
import pytest

from hearth_kokoro.encode import MEDIA_TYPES, open_encoder, to_pcm

from .decoding import hear, tone

FORMATS = tuple(MEDIA_TYPES)
RATES = {"opus": 48_000}
# One frame and the codec's look-ahead: what may still be inside after a piece.
HELD_S = {"mp3": 0.05, "opus": 0.03, "aac": 0.09, "flac": 0.03, "wav": 0.0, "pcm": 0.0}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_pieces_decode_to_their_length(name: str, streamed: bool) -> None:
    encoder = open_encoder(name, streamed=streamed)
    pieces = [encoder.encode(tone(seconds)) for seconds in (0.37, 1.0, 0.111)]
    heard = hear(b"".join(pieces) + encoder.finish(), name)
    assert heard.rate == RATES.get(name, 24_000)
    assert heard.seconds == pytest.approx(1.481, abs=0.09)
    assert np.sqrt(np.mean(heard.samples**2)) == pytest.approx(0.21, abs=0.02)
    assert all(pieces) == streamed


@pytest.mark.parametrize("name", FORMATS)
def test_a_piece_leaves_at_once(name: str) -> None:
    encoder = open_encoder(name)
    heard = hear(encoder.encode(tone(0.5)), name)
    assert heard.seconds >= 0.5 - HELD_S[name]


@pytest.mark.parametrize("name", FORMATS)
def test_no_sound_at_all_still_ends(name: str) -> None:
    encoder = open_encoder(name)
    assert isinstance(encoder.encode(tone(0)) + encoder.finish(), bytes)


def test_a_whole_wav_says_its_length_and_a_streamed_one_says_unknown() -> None:
    whole, streamed = open_encoder("wav", streamed=False), open_encoder("wav")
    assert whole.encode(tone(1)) == b""
    with wave.open(io.BytesIO(whole.finish())) as read:
        assert (read.getnframes(), read.getframerate(), read.getsampwidth()) == (24_000, 24_000, 2)
    head = streamed.encode(tone(1))[:44]
    assert head[4:8] == head[40:44] == b"\xff\xff\xff\xff"


def test_too_loud_is_clipped_and_never_wrapped() -> None:
    loud = np.array([1.5, -1.5, np.nan, 0.5], np.float32)
    assert to_pcm(loud).tolist() == [32767, -32767, 0, 16384]
