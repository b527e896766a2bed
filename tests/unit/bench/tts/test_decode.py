"""Each format is decoded from its bytes as they come, and no sooner than they allow."""

from __future__ import annotations

import io
import itertools
import math
import struct
import wave
from array import array

import av
import pytest

from hearth.bench.tts.decode import FORMATS, decode_sound
from hearth.clients import ClientError
from hearth.clients.sound import Chunk, duration, first_sound, stalls

CODECS = {
    "mp3": ("mp3", "libmp3lame", 24_000),
    "opus": ("ogg", "libopus", 48_000),
    "aac": ("adts", "aac", 24_000),
    "flac": ("flac", "flac", 24_000),
}
SILENT_S = 0.5
LONG_S = 2.0


def speech() -> bytes:
    """Half a second of silence, then one and a half of a tone."""
    silent = round(SILENT_S * 24_000)
    tone = (9000 * math.sin(0.115 * n) for n in range(round(LONG_S * 24_000) - silent))
    return array("h", [0] * silent + [round(level) for level in tone]).tobytes()


def encoded(kind: str) -> bytes:
    pcm = speech()
    if kind == "pcm":
        return pcm
    into = io.BytesIO()
    if kind == "wav":
        with wave.open(into, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(24_000)
            file.writeframes(pcm)
        return into.getvalue()
    container, codec, rate = CODECS[kind]
    frame = av.AudioFrame("s16", "mono", len(pcm) // 2)
    frame.planes[0].update(pcm)
    frame.sample_rate = 24_000
    with av.open(into, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        fit = av.AudioResampler(stream.format.name, "mono", rate)
        for part in [*fit.resample(frame), *fit.resample(None), None]:
            file.mux(stream.encode(part))
    return into.getvalue()


def arriving(data: bytes, size: int, each_s: float = 0.001) -> list[Chunk]:
    cuts = [*range(0, len(data), size), len(data)]
    return [Chunk(each_s * n, data[a:b]) for n, (a, b) in enumerate(itertools.pairwise(cuts), 1)]


def hears(kind: str, data: bytes) -> bool:
    try:
        sound = decode_sound(kind, [Chunk(0.0, data)])
    except ClientError:
        return False
    return first_sound(sound.chunks, sound.rate) is not None


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("size", [7, 1000, 10**6])
def test_the_sound_is_there_and_as_long_as_it_was(kind: str, size: int) -> None:
    sound = decode_sound(kind, arriving(encoded(kind), size))
    found = first_sound(sound.chunks, sound.rate)
    assert found is not None
    assert found.lead_s == pytest.approx(SILENT_S, abs=0.08)
    assert duration(sound.chunks, sound.rate) == pytest.approx(LONG_S, abs=0.13)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_counts_is_when_the_bytes_of_the_first_sound_were_there(kind: str) -> None:
    data = encoded(kind)
    sound = decode_sound(kind, arriving(data, 50))
    found = first_sound(sound.chunks, sound.rate)
    assert found is not None
    needed = round(found.at_s / 0.001) * 50
    # A client with these bytes alone can play it; without the last 600 it cannot.
    assert hears(kind, data[:needed])
    assert not hears(kind, data[: needed - 600])


@pytest.mark.parametrize("kind", ["mp3", "opus", "aac", "flac"])
def test_a_late_second_half_is_a_stall(kind: str) -> None:
    data = encoded(kind)
    half = len(data) * 2 // 3
    sound = decode_sound(kind, [Chunk(0.1, data[:half]), Chunk(5.0, data[half:])])
    assert len(stalls(sound.chunks, sound.rate)) == 1


@pytest.mark.parametrize("kind", ["wav", "mp3", "opus", "aac", "flac"])
def test_other_content_is_not_sound(kind: str) -> None:
    with pytest.raises(ClientError, match=f"no sound in 1320 bytes of {kind}"):
        decode_sound(kind, [Chunk(0.1, b'{"error": "the model is loading"}' * 40)])


def test_opus_of_two_streams_in_turn_is_one_sound() -> None:
    data = encoded("opus")
    sound = decode_sound("opus", [Chunk(0.1, data), Chunk(0.2, data)])
    assert duration(sound.chunks, sound.rate) == pytest.approx(2 * LONG_S, abs=0.2)


@pytest.mark.parametrize("size", [0, 0xFFFF_FFFF, 0x7FFF_FFFF])
def test_a_wav_that_does_not_know_its_length(size: int) -> None:
    data = encoded("wav")
    data = data[:40] + struct.pack("<I", size) + data[44:]
    assert duration(decode_sound("wav", arriving(data, 999)).chunks) == pytest.approx(LONG_S)


def test_chunks_after_a_wavs_samples_are_not_sound() -> None:
    data = encoded("wav") + b"LIST\x08\x00\x00\x00INFOabcd"
    assert duration(decode_sound("wav", arriving(data, 999)).chunks) == pytest.approx(LONG_S)


@pytest.mark.parametrize("at", [(20, 3), (22, 2), (34, 32)])
def test_a_wav_that_would_be_misheard_is_refused(at: tuple[int, int]) -> None:
    data = bytearray(encoded("wav"))
    struct.pack_into("<H", data, *at)
    with pytest.raises(ClientError, match=r"wav with .* is not supported"):
        decode_sound("wav", arriving(bytes(data), 999))


@pytest.mark.parametrize("kind", ["wav", "mp3", "opus", "aac", "flac"])
def test_a_stream_cut_in_its_middle_keeps_what_came(kind: str) -> None:
    data = encoded(kind)
    sound = decode_sound(kind, arriving(data[: len(data) * 2 // 3], 999))
    assert 0 < duration(sound.chunks, sound.rate) < 1.9


def test_ogg_without_the_header_of_opus_is_refused() -> None:
    data = encoded("opus").replace(b"OpusHead", b"SomeHead")
    with pytest.raises(ClientError, match="opus"):
        decode_sound("opus", arriving(data, 999))
