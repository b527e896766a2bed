"""The client of `hearth talk` and of the smoke test, against the real server."""

import asyncio
import wave
from pathlib import Path

import numpy as np
import pytest

from hearth.clients import ClientError
from hearth.clients.calls import RATE, Turn, at_24_khz, read_wav
from hearth.clients.calls import ask as ask_blocking
from hearth.clients.endpoints import Endpoint

from .conftest import House, OpenHouse
from .sounds import SPOKEN_RATE, pcm, spoken

QUESTION = "What time is dinner today?"


async def ask(house: House, sound: bytes, within_s: float = 20) -> Turn:
    endpoint = Endpoint(name="voice", url=house.url)
    return await asyncio.to_thread(ask_blocking, endpoint, sound, within_s)


async def test_it_asks_and_times_the_answer(house: House) -> None:
    house.recogniser.texts = ["When is dinner?"]
    turn = await ask(house, pcm(spoken(QUESTION)))
    assert turn.question == "When is dinner?"
    assert turn.answer.strip() == house.gateway.default
    assert len(turn.sound) == 2 * sum(spoken(text).size for text in house.speaker.spoken)
    assert set(turn.lengths_ms) == {"silence", "transcription", "model", "voice"}
    assert 500 <= turn.waits_ms <= 5000


async def test_it_says_what_is_wrong(open_house: OpenHouse) -> None:
    async with open_house(calls=1) as house:
        house.recogniser.texts = [""]
        with pytest.raises(ClientError, match="no words were recognised"):
            await ask(house, pcm(spoken(QUESTION)))
        house.gateway.status = 500
        with pytest.raises(ClientError, match="no model of voice answered"):
            await ask(house, pcm(spoken(QUESTION)))
        with pytest.raises(ClientError, match="no answer within 1 s"):
            await ask(house, b"", 1)
    with pytest.raises(ClientError, match="the call broke off"):
        await ask(house, b"")


def test_a_recording_at_any_rate_is_read(tmp_path: Path) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    for channels in (1, 2):
        path = tmp_path / f"{channels}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(np.repeat((tone * 16000).astype("<i2"), channels).tobytes())
        read = np.frombuffer(read_wav(path), "<i2")
        assert read.size == RATE == SPOKEN_RATE
        wanted = 16000 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
        assert np.abs(read[:-3] - wanted[:-3]).max() < 1000
    assert at_24_khz([], 8000) == b""


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    for content in (b"", b"no sound", b"RIFF\0\0\0\0WAVE"):
        path = tmp_path / "broken.wav"
        path.write_bytes(content)
        with pytest.raises(ClientError, match=r"broken\.wav"):
            read_wav(path)
    with pytest.raises(ClientError, match=r"missing\.wav"):
        read_wav(tmp_path / "missing.wav")
