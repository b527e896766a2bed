"""The talker is heard while the house speaks, and noise is not taken for them."""

import asyncio
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest

from hearth_voice.barge_in import BargeIn
from hearth_voice.conversation import Piece, words_until
from hearth_voice.microphone import Microphone

from .conftest import Call, Caller, House, OpenHouse
from .parts import Gateway, Speaker
from .sounds import SPOKEN_RATE, Sound, babble, cough, hum, noise, pcm, silence, spoken

QUESTION = "What time is dinner today?"
LONG = "The kettle is on, and the kitchen is warm, and the soup is on the table. " * 6


def echo(caller: Caller, level_db: float, delay_s: float = 0.15) -> None:
    """Let the loudspeaker be heard by the microphone, so much softer and later."""
    started: list[int] = []

    def mix(at: int, part: Sound) -> Sound:
        if not caller.has_sound:
            return part
        started.append(at)
        first = at - started[0] - round(delay_s * SPOKEN_RATE)
        return part + caller.sound_between(first, first + part.size) * 10 ** (level_db / 20)

    caller.mixer = mix


async def ask(caller: Caller, house: House) -> None:
    """Ask, and wait until the house speaks."""
    caller.talk()
    caller.say(spoken(QUESTION))
    await caller.event("response.output_audio.delta", 20)


@pytest.fixture
async def talkative(open_house: OpenHouse) -> AsyncIterator[House]:
    gateway, speaker = Gateway(default=LONG, pace_s=0.03), Speaker(takes_s=0.05)
    async with open_house(gateway=gateway, speaker=speaker) as opened:
        yield opened


async def test_the_house_stops_for_the_talker(talkative: House, call: Call) -> None:
    house = talkative
    async with call(house) as caller:
        await ask(caller, house)
        await asyncio.sleep(1.0)
        began = time.monotonic()
        caller.say(spoken("No, stop, I meant tomorrow."))
        await caller.event("input_audio_buffer.speech_started", count=2)
        took_s = caller.at("input_audio_buffer.speech_started", 2) - began
        done = await caller.event("response.done")
        assert done["response"]["status"] == "cancelled"
        assert done["response"]["status_details"]["reason"] == "turn_detected"
        figures = await caller.event("hearth.turn")
        assert {*figures["stages"]} == {"silence", "transcription", "model", "voice", "total"}
        assert await house.until(lambda: not house.working, 1) < 0.5
        stopped = caller.at("response.done")
        sounds = [
            at
            for at, event in zip(caller.times, caller.events, strict=True)
            if event["type"] == "response.output_audio.delta" and at > stopped
        ]
        await caller.event("response.done", 20, count=2)
        assert not [at for at in sounds if at < caller.at("response.created", 2)]
        # The next question's history has what was heard, not what was generated.
        history = house.gateway.requests[-1]["messages"]
        said = next(m["content"] for m in history if m["role"] == "assistant")
        assert LONG.startswith(said.strip())
        assert len(said) < 60
        print(f"stopped {1000 * took_s:.0f} ms after the first sample")


async def test_the_client_says_what_was_heard(house: House, call: Call) -> None:
    async with call(house) as caller:
        await caller.configure(
            audio={"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}}
        )
        await ask(caller, house)
        done = await caller.event("response.done")
        item = done["response"]["output"][0]
        first = spoken(house.speaker.spoken[0]).size * 1000 // SPOKEN_RATE
        place = {"item_id": item["id"], "content_index": 0}
        await caller.send("conversation.item.truncate", **place, audio_end_ms=first)
        await caller.event("conversation.item.truncated")
        await caller.send("conversation.item.retrieve", item_id=item["id"])
        kept = await caller.event("conversation.item.retrieved")
        assert kept["item"]["content"][0]["transcript"].strip() == house.speaker.spoken[0].strip()
        await caller.send("conversation.item.truncate", **place, audio_end_ms=999_999)
        error = await caller.event("error")
        assert error["error"]["param"] == "audio_end_ms"


@pytest.mark.parametrize("level_db", [-6, -12, -20])
async def test_its_own_voice_does_not_stop_it(
    talkative: House, call: Call, level_db: float
) -> None:
    async with call(talkative) as caller:
        echo(caller, level_db)
        await ask(caller, talkative)
        await asyncio.sleep(5)
        assert len(caller.of("input_audio_buffer.speech_started")) == 1
        # And the talker is heard over it.
        caller.say(spoken("No, stop, I meant tomorrow."))
        await caller.event("input_audio_buffer.speech_started", 2, count=2)


@pytest.mark.parametrize(
    "disturbance",
    [
        pytest.param(cough(), id="cough"),
        pytest.param(hum(), id="mhm"),
        pytest.param(noise(2, -30), id="white noise"),
        pytest.param(babble(3, -38), id="babble"),
    ],
)
async def test_noise_does_not_stop_it(talkative: House, call: Call, disturbance: Sound) -> None:
    async with call(talkative) as caller:
        await ask(caller, talkative)
        await asyncio.sleep(0.5)
        caller.say(np.concatenate([disturbance, silence(1)]))
        await caller.said()
        assert len(caller.of("input_audio_buffer.speech_started")) == 1
        assert (
            not caller.of("response.done")
            or caller.of("response.done")[0]["response"]["status"] != "cancelled"
        )


def is_open(sound: Sound) -> bool:
    measured = BargeIn()
    measured.add(pcm(spoken(QUESTION)), is_talker=True)
    start = spoken(QUESTION).size
    measured.add(pcm(sound), is_talker=False)
    return measured.is_speech(start)


def opens_after_ms(sound: Sound) -> int | None:
    measured, step = BargeIn(), SPOKEN_RATE // 50
    measured.add(pcm(spoken(QUESTION)), is_talker=True)
    start = spoken(QUESTION).size
    for at in range(0, sound.size, step):
        measured.add(pcm(sound[at : at + step]), is_talker=False)
        if measured.is_speech(start):
            return (at + step) * 1000 // SPOKEN_RATE
    return None


@pytest.mark.parametrize("seed", range(8))
def test_a_cough_is_not_speech(seed: int) -> None:
    assert not is_open(cough(seed))


@pytest.mark.parametrize("hertz", [95, 130, 180, 230])
def test_a_hum_is_not_speech(hertz: float) -> None:
    assert not is_open(hum(0.35, hertz))


@pytest.mark.parametrize("voice", ["gmw/en-US", "gmw/de", "roa/fr", "roa/es"])
@pytest.mark.parametrize(
    "text", ["Stop.", "No, wait.", "What about tomorrow?", "Okay, but why?", "Hey!", "And then?"]
)
def test_speech_is_heard_by_its_first_syllable(text: str, voice: str) -> None:
    sound = spoken(text, 150, voice)
    within_ms = opens_after_ms(sound)
    assert within_ms is not None
    assert within_ms <= 300


def test_the_room_is_removed_at_once() -> None:
    house, microphone = spoken(LONG[:150]), Microphone()
    microphone.plays(pcm(house))
    step, delay = 480, round(0.15 * SPOKEN_RATE)
    heard = np.concatenate([silence(0.15), house])[: house.size] * np.float32(0.5)
    left = b"".join(
        microphone.hear(pcm(heard[at : at + step])) for at in range(0, heard.size, step)
    )
    after = np.frombuffer(left, "<i2").astype(np.float64) / 32767
    second = SPOKEN_RATE
    assert np.sqrt(np.mean(after[delay : delay + second] ** 2)) < 0.003
    assert np.sqrt(np.mean(after[second : 3 * second] ** 2)) < 0.001


def test_with_headphones_the_talker_is_heard_from_the_first_word() -> None:
    talker, microphone = spoken("No, stop, I meant tomorrow."), Microphone()
    microphone.plays(pcm(spoken(LONG[:150])))
    step = 480
    left = b"".join(
        microphone.hear(pcm(talker[at : at + step])) for at in range(0, talker.size, step)
    )
    after = np.frombuffer(left, "<i2").astype(np.float64) / 32767
    tenth = SPOKEN_RATE // 10
    for at in range(tenth, after.size - tenth, tenth):
        before = np.sqrt(np.mean(talker[at : at + tenth] ** 2))
        if before > 0.02:
            assert np.sqrt(np.mean(after[at : at + tenth] ** 2)) > 0.7 * before, at


def test_without_a_voice_sound_passes_unchanged() -> None:
    sound = pcm(spoken(QUESTION))
    assert Microphone().hear(sound) == sound


def test_heard_words_are_those_that_were_complete() -> None:
    pieces = [Piece("The kettle is on, ", 24_000), Piece("and dinner is at seven.", 48_000)]
    assert words_until(pieces, 0) == ""
    assert words_until(pieces, 1000) == "The kettle is on,"
    assert words_until(pieces, 500) == "The"
    assert words_until(pieces, 2000) == "The kettle is on, and dinner"
    assert words_until(pieces, 9000) == "The kettle is on, and dinner is at seven."
