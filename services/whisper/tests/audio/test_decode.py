"""Any audio becomes 16 kHz mono; other files are rejected, and no second file is ever read."""

import io
import os
import struct
import tracemalloc
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_serving.metrics import memory_bytes
from hearth_whisper.audio import decode
from hearth_whisper.audio.bounded_reader import BoundedReader
from hearth_whisper.audio.decode import AudioFile
from hearth_whisper.recognition import SAMPLE_RATE, Samples

from .sounds import encoded, png, tone, wav

TONE = tone(2.0)
HOUR_S = 3600.0


def open_audio(file: IO[bytes], max_s: float) -> AudioFile:
    return decode.open_audio(BoundedReader(file), max_s)


def hear(data: bytes, max_s: float = HOUR_S) -> Samples:
    blocks = [np.zeros(0, np.float32), *open_audio(io.BytesIO(data), max_s)]
    return np.concatenate(blocks)


def refused(data: bytes, max_s: float = HOUR_S) -> ServiceError:
    with pytest.raises(ServiceError) as error:
        hear(data, max_s)
    assert (error.value.status, error.value.param) == (400, "file")
    return error.value


@pytest.mark.parametrize(
    ("container", "codec", "rate"),
    [
        ("wav", "pcm_s16le", 16_000),
        ("wav", "pcm_f32le", 44_100),
        ("flac", "flac", 44_100),
        ("mp3", "libmp3lame", 44_100),
        ("ogg", "libopus", 48_000),
        ("matroska", "aac", 44_100),
        ("webm", "libopus", 48_000),
        ("matroska", "pcm_s16le", 22_050),
        ("adts", "aac", 44_100),
        ("mov", "aac", 48_000),
        ("mpegts", "mp2", 48_000),
        ("aiff", "pcm_s16be", 8_000),
        ("au", "pcm_mulaw", 8_000),
        ("caf", "pcm_s16le", 96_000),
        ("avi", "libmp3lame", 32_000),
    ],
)
def test_every_container_is_decoded(container: str, codec: str, rate: int) -> None:
    samples = hear(encoded(container, codec, tone(2.0, rate), rate))
    assert samples.dtype == np.float32
    assert samples.size / SAMPLE_RATE == pytest.approx(2.0, abs=0.12)
    middle = samples[SAMPLE_RATE // 2 : SAMPLE_RATE]
    assert 0.2 < np.abs(middle).max() <= 1.0
    spectrum = np.abs(np.fft.rfft(middle))
    assert np.argmax(spectrum) * SAMPLE_RATE / middle.size == pytest.approx(440, abs=5)


def test_samples_are_unchanged() -> None:
    samples = hear(wav(TONE.tobytes()))
    assert np.array_equal(samples, TONE.astype(np.float32) / 32768)


@pytest.mark.parametrize("channels", [2, 3, 4, 6, 24])
def test_many_channels_become_one(channels: int) -> None:
    pcm = np.repeat(TONE, channels).tobytes()
    assert hear(wav(pcm, channels=channels)).size == TONE.size


def test_the_rate_may_change_in_the_middle() -> None:
    first = encoded("mp3", "libmp3lame", tone(2.0, 44_100), 44_100, options={"write_xing": "0"})
    second = encoded("mp3", "libmp3lame", tone(2.0, 22_050), 22_050)
    assert hear(first + second).size / SAMPLE_RATE == pytest.approx(4.0, abs=0.3)


def test_a_file_without_samples_is_empty() -> None:
    assert hear(wav(b"")).size == 0


def test_a_truncated_file_gives_its_beginning() -> None:
    whole = encoded("flac", "flac", tone(60.0, 44_100), 44_100)
    assert 20 < hear(whole[: len(whole) // 2]).size / SAMPLE_RATE < 40
    assert hear(wav(TONE.tobytes())[: 44 + 16_000]).size == 8_000
    mp3 = encoded("mp3", "libmp3lame", tone(60.0, 44_100), 44_100)
    assert 20 < hear(mp3[: len(mp3) // 2]).size / SAMPLE_RATE < 40


def test_a_damaged_file_gives_the_rest() -> None:
    whole = bytearray(encoded("ogg", "libopus", tone(20.0, 48_000), 48_000))
    at = len(whole) // 2
    whole[at : at + 200] = os.urandom(200)
    assert hear(bytes(whole)).size / SAMPLE_RATE > 15


def test_a_missing_index_is_reported() -> None:
    whole = encoded("mov", "aac", tone(5.0, 48_000), 48_000)
    assert "truncated" in str(refused(whole[: len(whole) // 2]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"RIFF",
        wav(TONE.tobytes())[:30],
        b"This is a letter, and no sound at all.\n" * 500,
        b"PK\x03\x04" + bytes(5000),
        bytes(100_000),
        wav(TONE.tobytes(), rate=0),
        wav(TONE.tobytes(), rate=0xFFFF_FFFF),
        wav(TONE.tobytes(), channels=0),
        wav(TONE.tobytes(), bits=0),
        wav(TONE.tobytes(), bits=65_535),
    ],
)
def test_other_files_are_rejected(data: bytes) -> None:
    assert "no audio" in str(refused(data))


def test_a_picture_is_rejected() -> None:
    assert refused(png()).code == "no_audio"


def test_random_bytes_cause_no_other_error() -> None:
    dice = np.random.default_rng(5)
    for size in (10, 1000, 100_000, 1_000_000):
        try:
            assert hear(dice.bytes(size)).size >= 0
        except ServiceError as error:
            assert error.param == "file"  # noqa: PT017 - both ends are right


def test_nan_and_infinity_become_values_in_range() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30] * 4000, np.float32)
    samples = hear(wav(odd.tobytes(), bits=32, kind=3))
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1


@pytest.mark.parametrize("safe", [True, False])
def test_no_other_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool) -> None:
    (tmp_path / "secret.wav").write_bytes(wav(TONE.tobytes()))
    monkeypatch.chdir(tmp_path)
    name = "secret.wav" if safe else tmp_path / "secret.wav"
    refused(f"ffconcat version 1.0\nfile '{name}'\n".encode())
    refused(f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{name}\n#EXT-X-ENDLIST\n".encode())


def test_no_address_is_opened() -> None:
    sdp = b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 9 RTP/AVP 0\n"
    refused(sdp)


def test_a_stated_length_above_the_limit_is_rejected_unread() -> None:
    data = encoded("flac", "flac", np.zeros(16_000 * 300, np.int16))
    with pytest.raises(ServiceError) as error:
        open_audio(io.BytesIO(data), 60)
    assert error.value.code == "audio_too_long"


def test_decoded_audio_is_counted_against_the_limit() -> None:
    recording = open_audio(io.BytesIO(wav(bytes(2 * 400_000), rate=2_000)), HOUR_S)
    recording._max_s = 100
    with pytest.raises(ServiceError, match="longer than"):
        list(recording)
    assert recording.seconds < 100 + 2


def test_hours_take_no_more_memory_than_minutes() -> None:
    bomb = encoded("flac", "flac", np.zeros(16_000 * 3600, np.int16))
    assert len(bomb) < 2_000_000
    tracemalloc.start()
    seconds = sum(block.size for block in open_audio(io.BytesIO(bomb), 2 * HOUR_S)) / SAMPLE_RATE
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds == pytest.approx(HOUR_S)
    assert most < 4_000_000


def test_a_packet_of_many_megabytes_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth_whisper.audio.decode._MAX_PACKET_BYTES", 1000)
    refused(wav(TONE.tobytes()))


@pytest.mark.parametrize("rate", [1, 1_999, 768_001, 0x7FFF_FFFF])
def test_an_unusual_rate_is_rejected(rate: int) -> None:
    refused(wav(TONE.tobytes(), rate=rate), 1e9)


def test_too_many_channels_are_rejected() -> None:
    assert "no audio" in str(refused(wav(TONE.tobytes(), channels=65)))


def test_a_frame_of_minutes_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth_whisper.audio.decode._MAX_FRAME_S", 0.01)
    refused(wav(TONE.tobytes()))


def test_a_frame_of_millions_of_samples_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    # A few bytes may code any number of silent samples: only the codec can check it in time.
    flac = encoded("flac", "flac", TONE)
    assert hear(flac).size == TONE.size
    monkeypatch.setitem(decode._CODEC_OPTIONS, "max_samples", "500")
    refused(flac)


def test_audio_is_decoded_in_blocks_of_seconds() -> None:
    whole = encoded("flac", "flac", tone(100.0, 8_000), 8_000)
    sizes = [block.size for block in open_audio(io.BytesIO(whole), HOUR_S)]
    assert sum(sizes) == pytest.approx(100 * SAMPLE_RATE, abs=50)
    assert set(sizes[:-1]) == {4 * SAMPLE_RATE}
    assert 0 < sizes[-1] <= 4 * SAMPLE_RATE


def test_a_long_frame_is_split_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_BLOCK", 100)
    blocks = list(open_audio(io.BytesIO(wav(TONE.tobytes())), HOUR_S))
    assert {block.size for block in blocks} == {100}
    assert np.array_equal(np.concatenate(blocks), TONE.astype(np.float32) / 32768)


def test_the_limit_is_checked_before_resampling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = open_audio(io.BytesIO(wav(TONE.tobytes())), HOUR_S)
    recording._max_s = 0.01
    monkeypatch.setattr(decode, "AudioResampler", None)
    with pytest.raises(ServiceError, match="longer than"):
        list(recording)


def test_closing_stops_the_decoding() -> None:
    recording = open_audio(io.BytesIO(wav(bytes(16_000 * 2 * 600))), HOUR_S)
    blocks = iter(recording)
    next(blocks)
    recording.close()
    rest = list(blocks)
    assert len(rest) <= 1
    assert not list(recording)


def test_a_file_can_be_closed_unread() -> None:
    file = io.BytesIO(wav(TONE.tobytes()))
    recording = open_audio(file, HOUR_S)
    recording.close()
    recording.close()
    assert not list(recording)
    assert recording.seconds == 0


def test_read_and_rejected_files_leak_no_memory() -> None:
    video = encoded("mov", "aac", tone(1.0, 48_000), 48_000)

    def grown(count: int) -> int:
        before = memory_bytes()
        for _ in range(count):
            hear(video)
            open_audio(io.BytesIO(video), HOUR_S).close()
            refused(png())
        return memory_bytes() - before

    grown(200)
    # Without the explicit close, this would be several megabytes.
    assert grown(600) < 1_000_000


def test_a_header_that_overstates_the_length() -> None:
    data = bytearray(wav(TONE.tobytes()))
    data[40:44] = struct.pack("<I", 0x7FFF_FFFF)
    assert hear(bytes(data), 7 * 24 * HOUR_S).size == TONE.size


def test_an_undecodable_file_is_rejected() -> None:
    whole = bytearray(encoded("mov", "aac", tone(5.0, 48_000), 48_000, options={}))
    begins = whole.index(b"mdat") + 4
    ends = whole.index(b"moov") - 4
    assert ends - begins > 10_000
    whole[begins:ends] = b"\xff" * (ends - begins)
    refused(bytes(whole))
