"""From sound to events, with every text given by the test and time moved by the sound alone."""

import asyncio

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import SAMPLE_RATE, Stopped

from .scripted import ScriptedWork, Talks, said, silence, speech


async def test_silence_gives_nothing(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work)
    await one.hear(silence(5))
    await one.end()
    assert one.kinds == ["done"]
    assert not work.finals
    assert not work.partials


async def test_an_utterance_is_started_ended_and_final(talk: Talks) -> None:
    one = talk(ScriptedWork(["hello there"]), partials=False)
    await one.hear(silence(1))
    await one.hear(speech(1.5))
    await one.hear(silence(1))
    await one.end()
    started, ended, final, done = one.told
    assert started == {"type": "speech_started", "at_s": 0.992, "utterance": 1}
    assert (ended["type"], ended["utterance"]) == ("speech_ended", 1)
    assert ended["at_s"] == pytest.approx(2.5, abs=0.033)
    assert final == {
        "type": "final",
        "utterance": 1,
        "text": "hello there",
        "start_s": started["at_s"],
        "end_s": ended["at_s"],
        "words": final["words"],
        "confidence": 0.905,
        "language": "en",
        "latency_ms": final["latency_ms"],
    }
    assert done == {"type": "done"}


async def test_the_text_is_begun_in_the_pause_and_told_at_the_threshold(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.26))
    assert len(work.finals) == 1
    work.finals[0].answer.set_result(said("done early"))
    await one.hear(silence(0.16))
    assert one.kinds == ["speech_started"]
    await one.hear(silence(0.16))
    assert one.kinds == ["speech_started", "speech_ended", "final"]
    # Half a second of silence, to the nearest frame, and no recognition on top of it.
    assert one.told[-1]["latency_ms"] == pytest.approx(500, abs=40)
    assert len(work.finals) == 1


async def test_a_text_is_due_once_the_speech_is_over(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.3))
    claim = work.finals[0].claim
    assert claim is not None
    assert not claim.due
    await one.hear(silence(0.4))
    assert claim.due
    await one.hear(speech(1))
    await one.listener.flush()
    await one.settle()
    second = work.finals[1].claim
    assert second is not None
    # Of the same talker, and waited for at once.
    assert (second.due, second.talker) == (True, claim.talker)


async def test_a_slow_text_comes_after_the_end_of_speech(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(1))
    assert one.kinds == ["speech_started", "speech_ended"]
    work.finals[0].answer.set_result(said("at last"))
    await one.settle()
    assert one.told[-1]["text"] == "at last"
    assert one.told[-1]["latency_ms"] == pytest.approx(1000, abs=40)


async def test_whoever_speaks_on_makes_the_text_worthless(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.3))
    first = work.finals[0]
    assert first.is_wanted
    await one.hear(speech(1))
    assert not first.is_wanted
    work.texts = ["all of it"]
    await one.hear(silence(0.6))
    assert one.kinds == ["speech_started", "speech_ended", "final"]
    assert work.finals[1].samples.size > first.samples.size + SAMPLE_RATE


async def test_the_sound_heard_begins_before_the_speech(talk: Talks) -> None:
    work = ScriptedWork(["x"])
    one = talk(work, partials=False)
    await one.hear(silence(1))
    await one.hear(speech(1))
    await one.hear(silence(0.6))
    heard = work.finals[0].samples
    quiet = int(np.argmax(heard > 0.1))
    assert 0.2 <= quiet / SAMPLE_RATE <= 0.3
    # And has the whole of the speech, with the pause after it.
    assert int((heard > 0.1).sum()) == SAMPLE_RATE
    assert heard[-round(0.15 * SAMPLE_RATE) :].max() < 0.1


async def test_flush_is_at_once_and_uses_what_was_begun(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.3))
    work.finals[0].answer.set_result(said("yes"))
    await one.listener.flush("flushed")
    await one.settle()
    assert one.kinds == ["speech_started", "speech_ended", "final", "flushed"]
    assert len(work.finals) == 1


async def test_flush_in_the_middle_of_speech_has_all_that_came(talk: Talks) -> None:
    work = ScriptedWork(["yes", "no"])
    one = talk(work, partials=False)
    await one.hear(speech(0.9995), chunk_s=0.0101)
    await one.listener.flush("flushed")
    await one.settle()
    assert one.kinds == ["speech_started", "speech_ended", "final", "flushed"]
    assert work.finals[0].samples.size == round(0.9995 * SAMPLE_RATE)
    assert one.told[-2]["end_s"] <= one.listener.heard_s
    await one.hear(speech(1))
    await one.end()
    assert [final["text"] for final in one.of("final")] == ["yes", "no"]
    assert sum(asked.samples.size for asked in work.finals) == round(1.9995 * SAMPLE_RATE)


async def test_a_flush_of_nothing_is_answered(talk: Talks) -> None:
    one = talk(ScriptedWork())
    await one.listener.flush("flushed")
    await one.hear(silence(1))
    await one.listener.flush("flushed")
    await one.settle()
    assert one.kinds == ["flushed", "flushed"]


async def test_finals_are_in_order_and_once_whoever_is_ready_first(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    for _ in range(3):
        await one.hear(speech(1))
        await one.hear(silence(0.7))
    assert len(work.finals) == 3
    for index in (2, 0, 1):
        work.finals[index].answer.set_result(said(f"text {index}"))
        await one.settle()
    await one.end()
    finals = one.of("final")
    assert [(f["utterance"], f["text"]) for f in finals] == [
        (1, "text 0"),
        (2, "text 1"),
        (3, "text 2"),
    ]
    times = [t for f in finals for t in (f["start_s"], f["end_s"])]
    assert times == sorted(times)
    assert times[-1] <= one.listener.heard_s


async def test_partials_are_stable_and_end_in_the_final(talk: Talks) -> None:
    guesses: list[str | None] = ["turn of", "turn off the", None, "turn off the light"]
    one = talk(ScriptedWork(["turn off the lights"], guesses))
    await one.hear(speech(1.6))
    await one.hear(silence(0.6))
    await one.end()
    partials = one.of("partial")
    assert [p["text"] for p in partials] == [
        "turn of",
        "turn off the",
        "turn off the light",
        "turn off the lights",
    ]
    assert [p["stable"] for p in partials] == ["", "turn", "turn off the", "turn off the"]
    assert one.kinds.index("partial") < one.kinds.index("final")
    assert all(p["end_s"] <= one.listener.heard_s for p in partials)
    assert one.kinds[-1] == "done"


async def test_only_one_partial_is_asked_for_at_a_time(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work)
    await one.hear(speech(5))
    assert len(work.partials) == 1
    assert work.partials[0].options.quick
    work.partials[0].answer.set_result(None)
    await one.settle()
    await one.hear(speech(0.1))
    assert len(work.partials) == 2


async def test_no_partial_is_asked_for_while_the_text_is_made(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work)
    await one.hear(speech(0.5))
    asked = len(work.partials)
    await one.hear(silence(0.22))
    assert len(work.finals) == 1
    for partial in work.partials:
        partial.answer.set_result(None)
    await one.hear(silence(0.2))
    assert len(work.partials) == asked


async def test_a_partial_that_comes_after_the_final_is_not_told(talk: Talks) -> None:
    work = ScriptedWork(["the end"])
    one = talk(work)
    await one.hear(speech(1))
    await one.hear(silence(0.7))
    assert one.kinds[-1] == "final"
    work.partials[0].answer.set_result(said("the"))
    await one.settle()
    assert one.kinds[-1] == "final"


async def test_without_partials_none_is_asked_for(talk: Talks) -> None:
    work = ScriptedWork(["x"])
    one = talk(work, partials=False)
    await one.hear(speech(3))
    await one.end()
    assert not work.partials
    assert not one.of("partial")


async def test_an_endless_talker_gets_finals_one_after_the_other(talk: Talks) -> None:
    work = ScriptedWork(["one", "two", "three", "four"])
    one = talk(work, partials=False)
    await one.hear(speech(70), chunk_s=0.5)
    await one.end()
    finals, ended, started = one.of("final"), one.of("speech_ended"), one.of("speech_started")
    assert [f["text"] for f in finals] == ["one", "two", "three"]
    assert [event.get("cut") for event in started] == [None, True, True]
    assert [event.get("cut") for event in ended] == [True, True, None]
    assert [f["start_s"] for f in finals[1:]] == [f["end_s"] for f in finals[:-1]]
    # Nothing is lost and nothing heard twice.
    assert sum(asked.samples.size for asked in work.finals) == 70 * SAMPLE_RATE
    assert max(asked.samples.size for asked in work.finals) < 28.1 * SAMPLE_RATE


async def test_a_long_talkers_pause_is_not_for_nothing(talk: Talks) -> None:
    work = ScriptedWork(["first half", "second half"])
    one = talk(work, partials=False)
    await one.hear(speech(16), chunk_s=0.1)
    await one.hear(silence(0.3))
    await one.hear(speech(1))
    await one.end()
    assert [final["text"] for final in one.of("final")] == ["first half", "second half"]
    assert one.of("speech_ended")[0]["cut"] is True
    assert one.of("speech_started")[1]["cut"] is True
    assert [asked.stop.is_set() for asked in work.finals if asked.stop] == [False, False]


async def test_who_is_faster_than_the_texts_waits_for_them(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    pair = np.concatenate([speech(1), silence(0.7)])
    hearing = asyncio.create_task(one.hear(np.concatenate([pair] * 30), chunk_s=0.5))
    for _ in range(3000):
        await asyncio.sleep(0)
    assert not hearing.done()
    # One is answered, two wait for it, and one waits for room.
    assert len(work.finals) == 4
    work.texts = ["x"] * 40
    for asked in work.finals:
        asked.answer.set_result(said("x"))
    await hearing
    await one.end()
    assert len(one.of("final")) == 30


async def test_words_have_their_times_in_the_stream(talk: Talks) -> None:
    one = talk(ScriptedWork(["good morning"]), words=True, partials=False)
    await one.hear(silence(10))
    await one.hear(speech(0.5))
    await one.hear(silence(0.7))
    await one.end()
    (final,) = one.of("final")
    assert one.work.finals[0].options.words
    first, second = final["words"]
    assert (first["text"], second["text"]) == ("good", "morning")
    assert first["start_s"] == pytest.approx(final["start_s"] - 0.15, abs=0.04)
    # The script claims 1.1 s, more than was heard.
    assert second["end_s"] == pytest.approx(9.742 + 0.95, abs=0.05)
    assert second["end_s"] <= one.listener.heard_s


async def test_no_text_is_an_empty_final(talk: Talks) -> None:
    one = talk(ScriptedWork([""]), partials=False)
    await one.hear(speech(1))
    await one.end()
    (final,) = one.of("final")
    assert (final["text"], final["confidence"], final["words"]) == ("", 0.0, [])


async def test_one_that_failed_too_early_is_tried_again(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.3))
    work.finals[0].answer.set_exception(ServiceError("too many wait", status=429))
    await one.settle()
    work.texts = ["second time"]
    await one.hear(silence(0.4))
    assert one.told[-1]["text"] == "second time"


async def test_an_error_stands_in_the_finals_place_and_the_next_one_is_heard(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.7))
    work.finals[0].answer.set_exception(ServiceError("too many wait", status=429, code="busy"))
    await one.settle()
    assert one.told[-1]["utterance"] == 1
    assert one.told[-1]["error"]["type"] == "rate_limit_error"
    work.texts = ["again"]
    await one.hear(speech(1))
    await one.end()
    assert [f["utterance"] for f in one.of("final")] == [2]


async def test_what_broke_in_here_is_told_without_its_words(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.7))
    work.finals[0].answer.set_exception(ValueError("a secret sentence"))
    await one.settle()
    assert one.told[-1]["error"]["type"] == "server_error"
    assert "secret" not in str(one.told)


async def test_who_leaves_drops_all_work(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work)
    await one.hear(speech(1))
    await one.hear(silence(0.7))
    await one.hear(speech(1))
    await one.hear(silence(0.3))
    assert [asked.is_wanted for asked in work.finals + work.partials] == [True, True, True]
    one.answering.cancel()
    await one.listener.close()
    assert not any(asked.is_wanted for asked in work.finals + work.partials)


async def test_the_ear_is_asked_for_several_frames_at_once(talk: Talks) -> None:
    one = talk(ScriptedWork(), partials=False)
    await one.hear(silence(10))
    assert one.ear.calls <= 10 * 31.25 / 2 + 1
    # What comes as a whole is judged as a whole, but not so much that others wait.
    one.ear.calls = 0
    await one.hear(silence(8 * 0.512), chunk_s=4.096)
    assert one.ear.calls == 8


async def test_an_hour_leaves_nothing_behind(talk: Talks) -> None:
    one = talk(ScriptedWork(["x"] * 1200), partials=False)
    minute = np.concatenate([np.concatenate([speech(1), silence(2)])] * 20)
    for _ in range(60):
        await one.listener.hear(minute)
    await one.end()
    assert len(one.of("final")) == 1200
    assert one.listener._tape._sound.size < 60 * SAMPLE_RATE
    assert not one.listener._attempts
    assert not one.listener.is_busy


async def test_the_servers_stop_is_told(talk: Talks) -> None:
    work = ScriptedWork()
    one = talk(work, partials=False)
    await one.hear(speech(1))
    await one.hear(silence(0.7))
    work.finals[0].answer.set_exception(Stopped())
    await one.settle()
    assert one.told[-1]["error"]["code"] == "stopping"
