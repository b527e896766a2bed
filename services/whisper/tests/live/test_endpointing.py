"""Start, pause and end of utterances, from probabilities alone."""

from collections.abc import Iterable

import pytest

from hearth_whisper.live.endpointing import (
    BLOCK,
    FRAME,
    MAX_UTTERANCE,
    PRE_ROLL,
    Endpointer,
    SpeechEnded,
    SpeechEvent,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    VadFrame,
    quietest,
)
from hearth_whisper.recognition import SAMPLE_RATE

YES, NO, PERHAPS = VadFrame(0.9), VadFrame(0.05), VadFrame(0.4)


def run(endpointer: Endpointer, frames: Iterable[VadFrame]) -> list[SpeechEvent]:
    return [event for frame in frames for event in endpointer.process(frame)]


def frames(seconds: float, frame: VadFrame) -> list[VadFrame]:
    return [frame] * round(seconds * SAMPLE_RATE / FRAME)


def test_silence_has_no_events() -> None:
    assert run(Endpointer(), frames(60, NO)) == []


def test_one_frame_is_a_click_and_two_are_speech() -> None:
    endpointer = Endpointer()
    assert run(endpointer, [NO] * 20 + [YES] + [NO] * 20) == []
    assert run(endpointer, [YES, YES]) == [SpeechStarted(1, 41 * FRAME, 41 * FRAME - PRE_ROLL)]


def test_an_utterance_starts_pauses_and_ends() -> None:
    events = run(Endpointer(500), [NO] * 20 + frames(2, YES) + frames(2, NO))
    start, end = 20 * FRAME, 20 * FRAME + len(frames(2, YES)) * FRAME
    paused = SpeechPaused(1, end, end + 6 * FRAME)
    # 200 and 500 ms are 6.25 and 15.6 frames, rounded to the nearest.
    assert events == [
        SpeechStarted(1, start, start - PRE_ROLL),
        paused,
        SpeechEnded(1, end, paused.audio_end),
    ]


@pytest.mark.parametrize(("threshold_ms", "after"), [(100, 3), (200, 6), (500, 16), (1000, 31)])
def test_it_ends_at_the_frame_nearest_to_the_threshold(threshold_ms: int, after: int) -> None:
    endpointer = Endpointer(threshold_ms)
    run(endpointer, [YES] * 30)
    received = [run(endpointer, [NO]) for _ in range(40)]
    ended = [
        index + 1
        for index, events in enumerate(received)
        if any(isinstance(c, SpeechEnded) for c in events)
    ]
    assert ended == [after]


def test_speech_resumes_after_a_pause() -> None:
    endpointer = Endpointer()
    events = run(endpointer, [YES] * 30 + [NO] * 10 + [YES] * 30 + [NO] * 20)
    assert [type(event) for event in events] == [
        SpeechStarted,
        SpeechPaused,
        SpeechResumed,
        SpeechPaused,
        SpeechEnded,
    ]
    assert events[-1] == SpeechEnded(1, 70 * FRAME, 76 * FRAME)


def test_a_click_in_a_pause_does_not_end_the_pause() -> None:
    events = run(Endpointer(), [YES] * 30 + [NO] * 8 + [YES] + [NO] * 20)
    assert [type(event) for event in events] == [SpeechStarted, SpeechPaused, SpeechEnded]
    assert events[-1] == SpeechEnded(1, 30 * FRAME, 36 * FRAME)


def test_a_possible_resumption_delays_the_end() -> None:
    endpointer = Endpointer(500)
    run(endpointer, [YES] * 30 + [NO] * 15)
    assert run(endpointer, [YES]) == []
    assert run(endpointer, [YES]) == [SpeechResumed(1)]


def test_the_thresholds_have_hysteresis() -> None:
    assert run(Endpointer(), [PERHAPS] * 40) == []
    events = run(Endpointer(), [YES] * 10 + [PERHAPS] * 40)
    assert [type(event) for event in events] == [SpeechStarted]


def test_a_short_gap_is_no_pause() -> None:
    events = run(Endpointer(), ([YES] * 6 + [NO] * 5) * 20)
    assert [type(event) for event in events] == [SpeechStarted]


def test_the_pre_roll_does_not_overlap_the_previous_utterance() -> None:
    events = run(Endpointer(100), [YES] * 30 + [NO] * 4 + [YES] * 30)
    second = events[-1]
    assert second == SpeechStarted(2, 34 * FRAME, 30 * FRAME)


def test_the_pre_roll_does_not_start_before_the_stream() -> None:
    assert run(Endpointer(), [YES, YES]) == [SpeechStarted(1, 0, 0)]


def test_silence_by_loudness_corrects_the_end() -> None:
    loud, soft = VadFrame(0.9, (0.5,) * 4), VadFrame(0.9, (0.5, 0.5, 0.0, 0.0))
    endpointer = Endpointer()
    events = run(
        endpointer,
        [loud] * 30 + [soft, VadFrame(0.6, (0.0,) * 4)] + [VadFrame(0.1, (0.0,) * 4)] * 20,
    )
    assert isinstance(events[-1], SpeechEnded)
    assert events[-1].speech_end == 30 * FRAME + 2 * BLOCK


def test_a_soft_voice_after_a_bang_is_speech() -> None:
    bang, voice = VadFrame(0.9, (1.0,) * 4), VadFrame(0.9, (0.005,) * 4)
    events = run(Endpointer(), [bang] * 2 + [voice] * 60)
    assert [type(event) for event in events] == [SpeechStarted]


def test_a_flush_ends_the_utterance_with_all_its_audio() -> None:
    endpointer = Endpointer()
    run(endpointer, [YES] * 30)
    assert endpointer.flush(30 * FRAME + 100) == [SpeechEnded(1, 30 * FRAME, 30 * FRAME + 100)]
    assert endpointer.flush(30 * FRAME + 100) == []


def test_after_a_flush_its_echo_is_ignored_and_new_speech_is_complete() -> None:
    flushed = 30 * FRAME + 100
    for after, events in (
        ([YES] * 3 + [NO] * 40, []),
        ([YES] * 6, [SpeechStarted(2, 34 * FRAME, flushed)]),
    ):
        endpointer = Endpointer()
        run(endpointer, [YES] * 30)
        endpointer.flush(flushed)
        assert run(endpointer, after) == events


def test_a_flush_in_a_pause_ends_at_the_pause() -> None:
    endpointer = Endpointer()
    run(endpointer, [YES] * 30 + [NO] * 9)
    assert endpointer.flush(39 * FRAME) == [SpeechEnded(1, 30 * FRAME, 36 * FRAME)]


def test_endless_speech_is_cut_at_the_quietest_place() -> None:
    loud, quiet = VadFrame(0.9, (0.5,) * 4), VadFrame(0.9, (0.1,) * 4)
    # There are quiet places at 12 and 24 s: only the second is in the range of cuts.
    one = frames(12, loud) + [quiet] * 10
    endpointer = Endpointer()
    events = run(endpointer, one + one + frames(20, loud))
    assert [type(event) for event in events] == [SpeechStarted, SpeechEnded, SpeechStarted]
    ended, again = events[1], events[2]
    assert isinstance(ended, SpeechEnded)
    assert ended == SpeechEnded(1, ended.speech_end, ended.speech_end, cut=True)
    assert again == SpeechStarted(2, ended.speech_end, ended.speech_end, cut=True)
    quiet_since = (2 * len(frames(12, loud)) + 10) * FRAME
    assert quiet_since < ended.speech_end < quiet_since + 10 * FRAME


def test_a_long_utterance_is_cut_at_its_pause() -> None:
    endpointer, long = Endpointer(), frames(16, YES)
    paused = (len(long) + 6) * FRAME
    events = run(endpointer, long + [NO] * 10 + [YES] * 2)
    again = len(long) + 10
    assert events == [
        SpeechStarted(1, 0, 0),
        SpeechPaused(1, len(long) * FRAME, paused),
        SpeechEnded(1, len(long) * FRAME, paused, cut=True),
        SpeechStarted(2, again * FRAME, paused, cut=True),
    ]


def test_no_utterance_exceeds_whispers_window() -> None:
    endpointer, begin, most = Endpointer(), 0, 0
    for event in run(endpointer, frames(300, VadFrame(0.9, (0.3,) * 4))):
        if isinstance(event, SpeechStarted):
            begin = event.audio_start
        elif isinstance(event, SpeechEnded):
            most = max(most, event.audio_end - begin)
    assert 18 * SAMPLE_RATE < most <= MAX_UTTERANCE + FRAME


def test_batches_delay_no_event() -> None:
    """Processing in the largest allowed batches gives the same events, none later."""
    script = [NO] * 7 + [YES] * 31 + [NO] * 9 + [YES] * 3 + [NO] * 30 + [YES] * 5 + [NO] * 40
    one_by_one, patient = Endpointer(), Endpointer()
    expected = [(index, event) for index, f in enumerate(script) for event in one_by_one.process(f)]
    received, index = [], 0
    while index < len(script):
        count = min(patient.batch_frames, len(script) - index)
        assert count >= 1
        batch = script[index : index + count]
        index += count
        received += [(index - 1, event) for event in run(patient, batch)]
    assert received == expected


def test_the_quietest_place_is_the_middle_of_a_pause() -> None:
    levels = [0.5] * 100 + [0.01] * 12 + [0.5] * 100
    assert quietest(levels) == 106


def test_a_short_dip_is_not_the_quietest_place() -> None:
    levels = [0.5] * 50 + [0.0] * 2 + [0.5] * 50 + [0.1] * 20 + [0.5] * 50
    assert 102 <= quietest(levels) <= 122


def test_of_equal_places_the_last_is_the_quietest() -> None:
    assert quietest([0.2] * 100) == 94
    assert quietest([0.2] * 5) == 2
