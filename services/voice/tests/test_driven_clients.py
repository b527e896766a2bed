"""A client that asks for each answer and interrupts by itself, as Open WebUI's bridge does."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from .conftest import Call, Caller, House, OpenHouse
from .parts import Gateway, Speaker
from .sounds import SPOKEN_RATE, spoken

QUESTION = "What time is dinner today?"
LONG = "The kettle is on, and the kitchen is warm, and the soup is on the table. " * 6
DRIVEN = {
    "input": {
        "transcription": {"model": "whisper-1"},
        "turn_detection": {
            "type": "server_vad",
            "interrupt_response": False,
            "create_response": False,
        },
    }
}
_HEARD = "conversation.item.input_audio_transcription.completed"


@pytest.fixture
async def talkative(open_house: OpenHouse) -> AsyncIterator[House]:
    async with open_house(gateway=Gateway(default=LONG), speaker=Speaker(takes_s=0.05)) as opened:
        yield opened


async def ask(caller: Caller) -> None:
    """Ask by voice, request the answer for the transcript, and wait until it is played."""
    await caller.configure(audio=DRIVEN)
    caller.talk()
    caller.say(spoken(QUESTION))
    await caller.event(_HEARD, 20)
    await caller.send("response.create")
    await caller.event("response.output_audio.delta", 20)


def words(caller: Caller) -> str:
    """Return the words of the answer that the client has."""
    return "".join(one["delta"] for one in caller.of("response.output_audio_transcript.delta"))


async def test_it_never_has_many_words_that_nobody_has_heard(talkative: House, call: Call) -> None:
    async with call(talkative) as caller:
        await ask(caller)
        began = caller.at("response.output_audio.delta")
        ahead_s = []
        for _ in range(20):
            await asyncio.sleep(0.2)
            ahead_s.append(caller.sound().size / SPOKEN_RATE - (time.monotonic() - began))
        clause_s = max(spoken(text).size for text in talkative.speaker.spoken) / SPOKEN_RATE
        assert max(ahead_s) < clause_s + 1.2
        # All of it was synthesised long ago.
        assert not talkative.working
        assert not caller.of("response.done")


async def test_a_response_ends_when_it_was_played(house: House, call: Call) -> None:
    async with call(house) as caller:
        await ask(caller)
        done = await caller.event("response.done", 20)
        assert done["response"]["status"] == "completed"
        took_s = caller.at("response.done") - caller.at("response.output_audio.delta")
        assert took_s >= caller.sound().size / SPOKEN_RATE - 0.1


async def test_a_cancelled_answer_has_the_words_that_were_heard(
    talkative: House, call: Call
) -> None:
    async with call(talkative) as caller:
        await ask(caller)
        await asyncio.sleep(2.5)
        caller.say(spoken("No, stop, I meant tomorrow."))
        await caller.event("input_audio_buffer.speech_started", 20, count=2)
        heard_s = caller.at("input_audio_buffer.speech_started", 2) - caller.at(
            "response.output_audio.delta"
        )
        # The client is silent from then on, and cancels when it has the words.
        await caller.event(_HEARD, 20, count=2)
        response_id = caller.of("response.created")[0]["response"]["id"]
        await caller.send("response.cancel", response_id=response_id)
        done = await caller.event("response.done")
        assert done["response"]["status"] == "cancelled"
        said = (await caller.event("response.output_audio_transcript.done"))["transcript"]
        assert LONG.startswith(said.strip())
        pace = len(LONG) / (spoken(LONG).size / SPOKEN_RATE)
        # To a word or two: the clause's words have no times of their own.
        assert abs(len(said) - heard_s * pace) < 15, (said, heard_s)
        assert len(said) < len(words(caller))
        # The next question's history has it as well.
        await caller.send("response.create")
        await talkative.until(lambda: len(talkative.gateway.requests) == 2)
        history = talkative.gateway.requests[-1]["messages"]
        kept = next(one["content"] for one in history if one["role"] == "assistant")
        assert kept == said.strip()


async def test_after_a_mere_noise_it_plays_on(talkative: House, call: Call) -> None:
    async with call(talkative) as caller:
        await ask(caller)
        await asyncio.sleep(1)
        talkative.recogniser.texts = [""]
        caller.say(spoken("Oh, oh."))
        await caller.event("input_audio_buffer.speech_started", 20, count=2)
        await caller.event(_HEARD, 20, count=2)
        paused_s = caller.at(_HEARD, 2) - caller.at("input_audio_buffer.speech_started", 2)
        assert not caller.of("response.done")
        await asyncio.sleep(0.5)
        response_id = caller.of("response.created")[0]["response"]["id"]
        await caller.send("response.cancel", response_id=response_id)
        await caller.event("response.done")
        said = (await caller.event("response.output_audio_transcript.done"))["transcript"]
        played_s = caller.at("response.done") - caller.at("response.output_audio.delta") - paused_s
        pace = len(LONG) / (spoken(LONG).size / SPOKEN_RATE)
        assert abs(len(said) - played_s * pace) < 15, (said, played_s, paused_s)
