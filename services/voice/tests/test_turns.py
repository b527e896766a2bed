"""A question becomes a turn, its text, and an answer that is spoken as it arrives."""

import asyncio
import json

import numpy as np

from .conftest import Call, House, OpenHouse
from .parts import Gateway, Recogniser, Speaker
from .sounds import SPOKEN_RATE, silence, spoken

QUESTION = "What time is dinner today?"
SLOW = {"type": "server_vad", "silence_duration_ms": 1500}
"""Enough time in a pause for an answer to begin, also on a busy machine."""


async def test_a_question_is_answered(house: House, call: Call) -> None:
    house.recogniser.texts = ["When is dinner?"]
    async with call(house) as caller:
        created = await caller.event("session.created")
        assert created["session"]["type"] == "realtime"
        await caller.configure(audio={"input": {"transcription": {"model": "whisper-1"}}})
        caller.talk()
        caller.say(spoken(QUESTION))
        await caller.event("response.done")
        own = (".delta", ".turn", ".alive")
        order = [kind for kind in caller.kinds if not kind.endswith(own)]
        assert order == [
            "session.created",
            "session.updated",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
        heard = await caller.event("conversation.item.input_audio_transcription.completed")
        assert heard["transcript"] == "When is dinner?"
        done = await caller.event("response.done")
        assert done["response"]["status"] == "completed"
        said = (await caller.event("response.output_audio_transcript.done"))["transcript"]
        assert said.strip() == house.gateway.default
        expected = np.concatenate([spoken(text) for text in house.speaker.spoken])
        assert np.abs(caller.sound() - expected).max() < 1e-3
        assert house.gateway.requests[0]["messages"][-1]["content"] == "When is dinner?"


async def test_the_answer_begins_before_it_is_complete(open_house: OpenHouse, call: Call) -> None:
    gateway = Gateway(pace_s=0.2, default="Yes, of course. " + "And then more words follow. " * 5)
    async with open_house(gateway=gateway) as house, call(house) as caller:
        caller.talk()
        caller.say(spoken(QUESTION))
        await caller.event("response.output_audio.delta")
        assert gateway.active == 1
        await caller.event("response.done", 20)


async def test_an_early_text_starts_the_answer(house: House, call: Call) -> None:
    house.recogniser.texts = ["When is dinner?"]
    async with call(house) as caller:
        await caller.configure(audio={"input": {"turn_detection": SLOW}})
        caller.talk()
        caller.say(spoken(QUESTION))
        await house.until(lambda: len(house.gateway.requests) == 1, 20)
        # Asked, and perhaps synthesised, but not a sound of it before the turn is over.
        assert "response.created" not in caller.kinds
        await caller.event("response.done")
        assert len(house.gateway.requests) == 1
        figures = await caller.event("hearth.turn")
        assert figures["speculated"]
        stages = figures["stages"]
        sum_ms = sum(end - start for name, (start, end) in stages.items() if name != "total")
        start, end = stages["total"]
        assert end - start < sum_ms


async def test_an_early_answer_is_dropped_if_the_talker_goes_on(
    open_house: OpenHouse, call: Call
) -> None:
    recogniser = Recogniser(takes_s=0.02, texts=["What time", "What time is it in Lisbon?"])
    async with open_house(recogniser) as house, call(house) as caller:
        await caller.configure(audio={"input": {"turn_detection": SLOW}})
        caller.talk()
        caller.say(np.concatenate([spoken("What time"), silence(1), spoken("is it in Lisbon?")]))
        await caller.event("response.done")
        asked = [one["messages"][-1]["content"] for one in house.gateway.requests]
        assert asked == ["What time", "What time is it in Lisbon?"]
        assert len(caller.of("response.created")) == 1
        assert len(caller.of("input_audio_buffer.speech_stopped")) == 1
        # The history has the question once, and the answer to it alone.
        assert [m["role"] for m in house.gateway.requests[-1]["messages"]] == ["system", "user"]
        dropped = house.state.figures.speculations.labels("dropped")._value.get()
        assert dropped == 1


async def test_a_cough_is_no_question(house: House, call: Call) -> None:
    house.recogniser.texts = [""]
    async with call(house) as caller:
        await caller.configure(audio={"input": {"transcription": {"model": "whisper-1"}}})
        caller.talk()
        caller.say(spoken("ha"))
        heard = await caller.event("conversation.item.input_audio_transcription.completed")
        assert heard["transcript"] == ""
        assert not caller.of("response.created")
        assert not house.gateway.requests


async def test_semantic_detection_waits_for_the_end_of_a_sentence(
    open_house: OpenHouse, call: Call
) -> None:
    recogniser = Recogniser(texts=["I would like to know,", "I would like to know, is it late?"])
    async with open_house(recogniser) as house, call(house) as caller:
        detection = {"type": "semantic_vad", "eagerness": "medium"}
        await caller.configure(audio={"input": {"turn_detection": detection}})
        caller.talk()
        first, second = spoken("I would like to know"), spoken("is it late?")
        caller.say(np.concatenate([first, silence(1.2), second]))
        ended = await caller.said()
        await caller.event("input_audio_buffer.speech_stopped")
        # Longer than the pause of plain detection for what is unfinished, shorter for what is.
        assert caller.at("input_audio_buffer.speech_stopped") - ended < 0.5
        await caller.event("response.done")
        assert len(caller.of("input_audio_buffer.committed")) == 1
        assert len(caller.of("response.created")) == 1


async def test_the_client_ends_turns_if_it_wants_to(house: House, call: Call) -> None:
    house.recogniser.texts = ["One sentence.", "Another one."]
    async with call(house) as caller:
        await caller.configure(
            audio={"input": {"turn_detection": None, "transcription": {"model": "whisper-1"}}}
        )
        caller.talk()
        caller.say(spoken(QUESTION))
        await caller.said()
        await caller.send("input_audio_buffer.commit")
        done = await caller.event("conversation.item.input_audio_transcription.completed")
        assert done["transcript"] == "One sentence."
        assert "input_audio_buffer.speech_started" not in caller.kinds
        assert not caller.of("response.created")
        await caller.send("response.create")
        assert (await caller.event("response.done"))["response"]["status"] == "completed"


async def test_a_client_that_asks_itself_gets_the_early_answer(house: House, call: Call) -> None:
    async with call(house) as caller:
        detection = {**SLOW, "create_response": False, "interrupt_response": False}
        transcription = {"model": "whisper-1"}
        await caller.configure(
            audio={"input": {"turn_detection": detection, "transcription": transcription}}
        )
        caller.talk()
        for count in (1, 2):
            caller.say(spoken(QUESTION))
            kind = "conversation.item.input_audio_transcription.completed"
            heard = await caller.event(kind, count=count)
            assert len(caller.of("response.created")) == count - 1
            metadata = {"input_item_id": heard["item_id"]}
            await caller.send("response.create", response={"metadata": metadata})
            created = await caller.event("response.created", count=count)
            assert created["response"]["metadata"] == metadata
            await caller.event("response.done", count=count)
            length_s = caller.sound().size / SPOKEN_RATE
            # Until the house is silent, a question is an interruption.
            await asyncio.sleep(length_s if count == 1 else 0)
        used = house.state.figures.speculations.labels("used")._value.get()
        assert used == 1
        assert len(house.gateway.requests) == 2


async def test_the_voice_follows_the_language(open_house: OpenHouse, call: Call) -> None:
    async with open_house(Recogniser(language="es")) as house, call(house) as caller:
        caller.talk()
        caller.say(spoken(QUESTION))
        done = await caller.event("response.done")
        assert house.speaker.voices[-1] == "ef_dora"
        assert done["response"]["audio"]["output"]["voice"] == "ef_dora"


async def test_a_word_does_not_change_the_language(open_house: OpenHouse, call: Call) -> None:
    recogniser = Recogniser(texts=["What time is dinner?", "Sí."])
    async with open_house(recogniser) as house, call(house) as caller:
        caller.talk()
        for count in (1, 2):
            caller.say(spoken(QUESTION))
            await caller.event("response.done", count=count)
            recogniser.language = "es"
            await asyncio.sleep(caller.sound().size / SPOKEN_RATE if count == 1 else 0)
        assert house.speaker.voices[-1] == "af_heart"


async def test_a_language_that_does_not_exist_is_reported(house: House, call: Call) -> None:
    async with call(house) as caller:
        transcription = {"model": "whisper-1", "language": "klingon"}
        await caller.configure(audio={"input": {"transcription": transcription}})
        caller.talk()
        assert "klingon" in (await caller.event("error"))["error"]["message"]


async def test_a_function_is_called_while_a_word_is_said(house: House, call: Call) -> None:
    tool = {"name": "look_up", "arguments": '{"what": "tea"}'}
    house.gateway.answers = [["Let me look.", tool], "There is tea."]
    async with call(house) as caller:
        declared = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
        await caller.configure(tools=[declared])
        caller.talk()
        caller.say(spoken(QUESTION))
        called = await caller.event("response.function_call_arguments.done")
        assert json.loads(called["arguments"]) == {"what": "tea"}
        done = await caller.event("response.done")
        kinds = [item["type"] for item in done["response"]["output"]]
        assert sorted(kinds) == ["function_call", "message"]
        item = {"type": "function_call_output", "call_id": called["call_id"], "output": "three"}
        await caller.send("conversation.item.create", item=item)
        await caller.send("response.create")
        await caller.event("response.done", count=2)
        roles = [message["role"] for message in house.gateway.requests[-1]["messages"]]
        assert roles[-2:] == ["assistant", "tool"]
        assert house.gateway.requests[0]["tools"][0]["function"]["name"] == "look_up"


async def test_nothing_stays_at_work_when_the_caller_leaves(
    open_house: OpenHouse, call: Call
) -> None:
    gateway, speaker = Gateway(pace_s=0.05, default="word " * 500), Speaker(takes_s=0.3)
    async with open_house(gateway=gateway, speaker=speaker) as house:
        async with call(house) as caller:
            caller.talk()
            caller.say(spoken(QUESTION))
            await caller.event("response.created")
            await house.until(lambda: gateway.active == 1)
        assert await house.until(lambda: not house.working) < 1
        await house.until(lambda: house.state.calls == 0)
        assert gateway.left == 1
