"""From audio to events, with scripted texts and a clock that only the audio advances."""

import asyncio

import numpy as np
import pytest

from hearth_serving.errors import ServiceError
from hearth_whisper.recognition import SAMPLE_RATE, RecognitionCancelled

from .scripted import ScriptedScheduler, StartSession, silence, speech, transcript


async def test_silence_has_no_events(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler)
    await one.send_audio(silence(5))
    await one.end()
    assert one.kinds == ["done"]
    assert not scheduler.finals
    assert not scheduler.partials


async def test_an_utterance_has_a_start_an_end_and_a_final(start_session: StartSession) -> None:
    one = start_session(ScriptedScheduler(["hello there"]), partials=False)
    await one.send_audio(silence(1))
    await one.send_audio(speech(1.5))
    await one.send_audio(silence(1))
    await one.end()
    started, ended, final, done = one.events
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


async def test_the_final_starts_in_the_pause_and_is_sent_at_the_threshold(
    start_session: StartSession,
) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.26))
    assert len(scheduler.finals) == 1
    scheduler.finals[0].result.set_result(transcript("done early"))
    await one.send_audio(silence(0.16))
    assert one.kinds == ["speech_started"]
    await one.send_audio(silence(0.16))
    assert one.kinds == ["speech_started", "speech_ended", "final"]
    # Half a second of silence, to the nearest frame, without the recognition.
    assert one.events[-1]["latency_ms"] == pytest.approx(500, abs=40)
    assert len(scheduler.finals) == 1


async def test_a_final_is_due_once_the_speech_is_over(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.3))
    request = scheduler.finals[0].request
    assert request is not None
    assert not request.is_due
    await one.send_audio(silence(0.4))
    assert request.is_due
    await one.send_audio(speech(1))
    await one.session.flush()
    await one.settle()
    second = scheduler.finals[1].request
    assert second is not None
    # The same speaker, and due at once.
    assert (second.is_due, second.speaker) == (True, request.speaker)


async def test_a_slow_final_follows_the_end_of_speech(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(1))
    assert one.kinds == ["speech_started", "speech_ended"]
    scheduler.finals[0].result.set_result(transcript("at last"))
    await one.settle()
    assert one.events[-1]["text"] == "at last"
    assert one.events[-1]["latency_ms"] == pytest.approx(1000, abs=40)


async def test_resumed_speech_cancels_the_final(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.3))
    first = scheduler.finals[0]
    assert first.is_active
    await one.send_audio(speech(1))
    assert not first.is_active
    scheduler.texts = ["all of it"]
    await one.send_audio(silence(0.6))
    assert one.kinds == ["speech_started", "speech_ended", "final"]
    assert scheduler.finals[1].samples.size > first.samples.size + SAMPLE_RATE


async def test_an_early_text_is_sent_in_the_pause(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False, early=True)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.26))
    assert one.kinds == ["speech_started", "paused"]
    assert one.events[-1]["at_s"] == pytest.approx(1.0, abs=0.033)
    scheduler.finals[0].result.set_result(transcript("first words"))
    await one.settle()
    early = one.events[-1]
    assert (early["type"], early["text"], early["language"]) == ("early", "first words", "en")
    # The talker goes on: what was recognised is void, and the next pause has a text of its own.
    await one.send_audio(speech(1))
    assert one.kinds[3:] == ["resumed"]
    scheduler.texts = ["first words and more"]
    await one.send_audio(silence(0.6))
    assert one.kinds[4:] == ["paused", "early", "speech_ended", "final"]
    assert [event["text"] for event in one.of("final")] == ["first words and more"]


async def test_no_early_text_follows_the_end(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False, early=True)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.6))
    scheduler.finals[0].result.set_result(transcript("late"))
    await one.settle()
    assert one.kinds == ["speech_started", "paused", "speech_ended", "final"]


async def test_a_flush_in_a_pause_leaves_speech_that_goes_on(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler(["one", "two"])
    one = start_session(scheduler, partials=False, early=True, end_of_speech_ms=2000)
    await one.send_audio(speech(1))
    await one.session.flush("flushed", in_pause=True)
    await one.settle()
    assert one.kinds == ["speech_started"]
    await one.send_audio(silence(0.3))
    await one.session.flush("flushed", in_pause=True)
    await one.settle()
    assert one.kinds[-3:] == ["speech_ended", "final", "flushed"]


async def test_the_recognised_audio_has_a_pre_roll(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler(["x"])
    one = start_session(scheduler, partials=False)
    await one.send_audio(silence(1))
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.6))
    samples = scheduler.finals[0].samples
    quiet = int(np.argmax(samples > 0.1))
    assert 0.2 <= quiet / SAMPLE_RATE <= 0.3
    # The audio has all of the speech, and the pause after it.
    assert int((samples > 0.1).sum()) == SAMPLE_RATE
    assert samples[-round(0.15 * SAMPLE_RATE) :].max() < 0.1


async def test_flush_uses_the_final_that_is_running(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.3))
    scheduler.finals[0].result.set_result(transcript("yes"))
    await one.session.flush("flushed")
    await one.settle()
    assert one.kinds == ["speech_started", "speech_ended", "final", "flushed"]
    assert len(scheduler.finals) == 1


async def test_flush_during_speech_includes_all_audio(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler(["yes", "no"])
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(0.9995), chunk_s=0.0101)
    await one.session.flush("flushed")
    await one.settle()
    assert one.kinds == ["speech_started", "speech_ended", "final", "flushed"]
    assert scheduler.finals[0].samples.size == round(0.9995 * SAMPLE_RATE)
    assert one.events[-2]["end_s"] <= one.session.audio_s
    await one.send_audio(speech(1))
    await one.end()
    assert [final["text"] for final in one.of("final")] == ["yes", "no"]
    assert sum(call.samples.size for call in scheduler.finals) == round(1.9995 * SAMPLE_RATE)


async def test_a_flush_without_speech_is_answered(start_session: StartSession) -> None:
    one = start_session(ScriptedScheduler())
    await one.session.flush("flushed")
    await one.send_audio(silence(1))
    await one.session.flush("flushed")
    await one.settle()
    assert one.kinds == ["flushed", "flushed"]


async def test_finals_are_sent_once_and_in_order(
    start_session: StartSession,
) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    for _ in range(3):
        await one.send_audio(speech(1))
        await one.send_audio(silence(0.7))
    assert len(scheduler.finals) == 3
    for index in (2, 0, 1):
        scheduler.finals[index].result.set_result(transcript(f"text {index}"))
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
    assert times[-1] <= one.session.audio_s


async def test_partials_are_stable_and_end_in_the_final(start_session: StartSession) -> None:
    partial_texts: list[str | None] = ["turn of", "turn off the", None, "turn off the light"]
    one = start_session(ScriptedScheduler(["turn off the lights"], partial_texts))
    await one.send_audio(speech(1.6))
    await one.send_audio(silence(0.6))
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
    assert all(p["end_s"] <= one.session.audio_s for p in partials)
    assert one.kinds[-1] == "done"


async def test_one_partial_is_requested_at_a_time(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler)
    await one.send_audio(speech(5))
    assert len(scheduler.partials) == 1
    assert scheduler.partials[0].options.greedy
    scheduler.partials[0].result.set_result(None)
    await one.settle()
    await one.send_audio(speech(0.1))
    assert len(scheduler.partials) == 2


async def test_no_partial_is_requested_while_the_final_runs(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler)
    await one.send_audio(speech(0.5))
    requested = len(scheduler.partials)
    await one.send_audio(silence(0.22))
    assert len(scheduler.finals) == 1
    for partial in scheduler.partials:
        partial.result.set_result(None)
    await one.send_audio(silence(0.2))
    assert len(scheduler.partials) == requested


async def test_a_late_partial_is_not_sent_after_the_final(
    start_session: StartSession,
) -> None:
    scheduler = ScriptedScheduler(["the end"])
    one = start_session(scheduler)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.7))
    assert one.kinds[-1] == "final"
    scheduler.partials[0].result.set_result(transcript("the"))
    await one.settle()
    assert one.kinds[-1] == "final"


async def test_without_partials_none_is_requested(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler(["x"])
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(3))
    await one.end()
    assert not scheduler.partials
    assert not one.of("partial")


async def test_endless_speech_is_cut_into_finals(
    start_session: StartSession,
) -> None:
    scheduler = ScriptedScheduler(["one", "two", "three", "four"])
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(70), chunk_s=0.5)
    await one.end()
    finals, ended, started = one.of("final"), one.of("speech_ended"), one.of("speech_started")
    assert [f["text"] for f in finals] == ["one", "two", "three"]
    assert [event.get("cut") for event in started] == [None, True, True]
    assert [event.get("cut") for event in ended] == [True, True, None]
    assert [f["start_s"] for f in finals[1:]] == [f["end_s"] for f in finals[:-1]]
    # Every sample is recognised once.
    assert sum(call.samples.size for call in scheduler.finals) == 70 * SAMPLE_RATE
    assert max(call.samples.size for call in scheduler.finals) < 28.1 * SAMPLE_RATE


async def test_a_pause_in_a_long_utterance_ends_it(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler(["first half", "second half"])
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(16), chunk_s=0.1)
    await one.send_audio(silence(0.3))
    await one.send_audio(speech(1))
    await one.end()
    assert [final["text"] for final in one.of("final")] == ["first half", "second half"]
    assert one.of("speech_ended")[0]["cut"] is True
    assert one.of("speech_started")[1]["cut"] is True
    assert [call.cancelled.is_set() for call in scheduler.finals if call.cancelled] == [
        False,
        False,
    ]


async def test_audio_waits_while_too_many_finals_run(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    pair = np.concatenate([speech(1), silence(0.7)])
    hearing = asyncio.create_task(one.send_audio(np.concatenate([pair] * 30), chunk_s=0.5))
    for _ in range(3000):
        await asyncio.sleep(0)
    assert not hearing.done()
    # One is being sent, two are queued, and one waits for room.
    assert len(scheduler.finals) == 4
    scheduler.texts = ["x"] * 40
    for call in scheduler.finals:
        call.result.set_result(transcript("x"))
    await hearing
    await one.end()
    assert len(one.of("final")) == 30


async def test_words_have_their_times_in_the_stream(start_session: StartSession) -> None:
    one = start_session(ScriptedScheduler(["good morning"]), words=True, partials=False)
    await one.send_audio(silence(10))
    await one.send_audio(speech(0.5))
    await one.send_audio(silence(0.7))
    await one.end()
    (final,) = one.of("final")
    assert one.scheduler.finals[0].options.word_timestamps
    first, second = final["words"]
    assert (first["text"], second["text"]) == ("good", "morning")
    assert first["start_s"] == pytest.approx(final["start_s"] - 0.15, abs=0.04)
    # The scripted time of 1.1 s is beyond the audio.
    assert second["end_s"] == pytest.approx(9.742 + 0.95, abs=0.05)
    assert second["end_s"] <= one.session.audio_s


async def test_no_text_is_an_empty_final(start_session: StartSession) -> None:
    one = start_session(ScriptedScheduler([""]), partials=False)
    await one.send_audio(speech(1))
    await one.end()
    (final,) = one.of("final")
    assert (final["text"], final["confidence"], final["words"]) == ("", 0.0, [])


async def test_a_final_that_failed_in_the_pause_is_retried(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.3))
    scheduler.finals[0].result.set_exception(ServiceError("too many wait", status=429))
    await one.settle()
    scheduler.texts = ["second time"]
    await one.send_audio(silence(0.4))
    assert one.events[-1]["text"] == "second time"


async def test_an_error_replaces_one_final_only(
    start_session: StartSession,
) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.7))
    scheduler.finals[0].result.set_exception(ServiceError("too many wait", status=429, code="busy"))
    await one.settle()
    assert one.events[-1]["utterance"] == 1
    assert one.events[-1]["error"]["type"] == "rate_limit_error"
    scheduler.texts = ["again"]
    await one.send_audio(speech(1))
    await one.end()
    assert [f["utterance"] for f in one.of("final")] == [2]


async def test_an_internal_error_is_sent_without_its_message(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.7))
    scheduler.finals[0].result.set_exception(ValueError("a secret sentence"))
    await one.settle()
    assert one.events[-1]["error"]["type"] == "server_error"
    assert "secret" not in str(one.events)


async def test_closing_cancels_all_recognitions(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.7))
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.3))
    assert [call.is_active for call in scheduler.finals + scheduler.partials] == [
        True,
        True,
        True,
    ]
    one.sending.cancel()
    await one.session.close()
    assert not any(call.is_active for call in scheduler.finals + scheduler.partials)


async def test_the_vad_processes_several_frames_at_once(start_session: StartSession) -> None:
    one = start_session(ScriptedScheduler(), partials=False)
    await one.send_audio(silence(10))
    assert one.vad.calls <= 10 * 31.25 / 2 + 1
    # A long message is processed in large batches, but not in one.
    one.vad.calls = 0
    await one.send_audio(silence(8 * 0.512), chunk_s=4.096)
    assert one.vad.calls == 8


async def test_an_hour_leaves_no_audio_and_no_tasks(start_session: StartSession) -> None:
    one = start_session(ScriptedScheduler(["x"] * 1200), partials=False)
    minute = np.concatenate([np.concatenate([speech(1), silence(2)])] * 20)
    for _ in range(60):
        await one.session.add_audio(minute)
    await one.end()
    assert len(one.of("final")) == 1200
    assert one.session._buffer._samples.size < 60 * SAMPLE_RATE
    assert not one.session._finals
    assert not one.session.is_busy


async def test_the_stop_of_the_server_is_reported(start_session: StartSession) -> None:
    scheduler = ScriptedScheduler()
    one = start_session(scheduler, partials=False)
    await one.send_audio(speech(1))
    await one.send_audio(silence(0.7))
    scheduler.finals[0].result.set_exception(RecognitionCancelled())
    await one.settle()
    assert one.events[-1]["error"]["code"] == "stopping"
