"""When an utterance begins, pauses and ends, told from probabilities alone."""

from collections.abc import Iterable

import pytest

from hearth_whisper.live.turns import (
    BLOCK,
    FRAME,
    LONGEST,
    PRE_ROLL,
    Cue,
    Ended,
    Frame,
    Paused,
    Resumed,
    Started,
    Turns,
)
from hearth_whisper.recognising import SAMPLE_RATE

YES, NO, PERHAPS = Frame(0.9), Frame(0.05), Frame(0.4)


def run(turns: Turns, frames: Iterable[Frame]) -> list[Cue]:
    return [cue for frame in frames for cue in turns.hear(frame)]


def frames(seconds: float, frame: Frame) -> list[Frame]:
    return [frame] * round(seconds * SAMPLE_RATE / FRAME)


def test_silence_gives_nothing() -> None:
    assert run(Turns(), frames(60, NO)) == []


def test_a_click_is_nobody_and_two_frames_are_somebody() -> None:
    turns = Turns()
    assert run(turns, [NO] * 20 + [YES] + [NO] * 20) == []
    assert run(turns, [YES, YES]) == [Started(1, 41 * FRAME, 41 * FRAME - PRE_ROLL)]


def test_an_utterance_is_told_in_order_and_once() -> None:
    cues = run(Turns(500), [NO] * 20 + frames(2, YES) + frames(2, NO))
    start, end = 20 * FRAME, 20 * FRAME + len(frames(2, YES)) * FRAME
    paused = Paused(1, end, end + 6 * FRAME)
    # 200 and 500 ms are 6.25 and 15.6 frames: the nearest ones.
    assert cues == [Started(1, start, start - PRE_ROLL), paused, Ended(1, end, paused.upto)]


@pytest.mark.parametrize(("threshold_ms", "after"), [(100, 3), (200, 6), (500, 16), (1000, 31)])
def test_it_ends_at_the_frame_nearest_to_the_threshold(threshold_ms: int, after: int) -> None:
    turns = Turns(threshold_ms)
    run(turns, [YES] * 30)
    told = [run(turns, [NO]) for _ in range(40)]
    ended = [
        index + 1 for index, cues in enumerate(told) if any(isinstance(c, Ended) for c in cues)
    ]
    assert ended == [after]


def test_who_speaks_on_was_but_pausing() -> None:
    turns = Turns()
    cues = run(turns, [YES] * 30 + [NO] * 10 + [YES] * 30 + [NO] * 20)
    assert [type(cue) for cue in cues] == [Started, Paused, Resumed, Paused, Ended]
    assert cues[-1] == Ended(1, 70 * FRAME, 76 * FRAME)


def test_a_click_in_a_pause_does_not_end_the_pause() -> None:
    cues = run(Turns(), [YES] * 30 + [NO] * 8 + [YES] + [NO] * 20)
    assert [type(cue) for cue in cues] == [Started, Paused, Ended]
    assert cues[-1] == Ended(1, 30 * FRAME, 36 * FRAME)


def test_what_might_be_a_new_beginning_is_waited_for() -> None:
    turns = Turns(500)
    run(turns, [YES] * 30 + [NO] * 15)
    assert run(turns, [YES]) == []
    assert run(turns, [YES]) == [Resumed(1)]


def test_speech_that_weakens_goes_on_and_what_is_weak_does_not_begin() -> None:
    assert run(Turns(), [PERHAPS] * 40) == []
    cues = run(Turns(), [YES] * 10 + [PERHAPS] * 40)
    assert [type(cue) for cue in cues] == [Started]


def test_a_short_gap_is_no_pause() -> None:
    cues = run(Turns(), ([YES] * 6 + [NO] * 5) * 20)
    assert [type(cue) for cue in cues] == [Started]


def test_the_next_one_hears_nothing_of_the_one_before() -> None:
    cues = run(Turns(100), [YES] * 30 + [NO] * 4 + [YES] * 30)
    second = cues[-1]
    assert second == Started(2, 34 * FRAME, 30 * FRAME)


def test_the_sound_never_begins_before_the_stream() -> None:
    assert run(Turns(), [YES, YES]) == [Started(1, 0, 0)]


def test_where_nothing_sounds_any_more_speech_had_ended_by_then() -> None:
    loud, soft = Frame(0.9, (0.5,) * 4), Frame(0.9, (0.5, 0.5, 0.0, 0.0))
    turns = Turns()
    cues = run(turns, [loud] * 30 + [soft, Frame(0.6, (0.0,) * 4)] + [Frame(0.1, (0.0,) * 4)] * 20)
    assert isinstance(cues[-1], Ended)
    assert cues[-1].at == 30 * FRAME + 2 * BLOCK


def test_a_soft_voice_after_a_bang_is_speech() -> None:
    bang, voice = Frame(0.9, (1.0,) * 4), Frame(0.9, (0.005,) * 4)
    cues = run(Turns(), [bang] * 2 + [voice] * 60)
    assert [type(cue) for cue in cues] == [Started]


def test_a_flush_ends_it_at_once_and_has_all_that_came() -> None:
    turns = Turns()
    run(turns, [YES] * 30)
    assert turns.flush(30 * FRAME + 100) == [Ended(1, 30 * FRAME, 30 * FRAME + 100)]
    assert turns.flush(30 * FRAME + 100) == []


def test_the_end_of_what_was_flushed_is_nobody_and_who_speaks_on_is_heard_whole() -> None:
    flushed = 30 * FRAME + 100
    for after, cues in (
        ([YES] * 3 + [NO] * 40, []),
        ([YES] * 6, [Started(2, 34 * FRAME, flushed)]),
    ):
        turns = Turns()
        run(turns, [YES] * 30)
        turns.flush(flushed)
        assert run(turns, after) == cues


def test_a_flush_in_a_pause_has_what_was_begun_in_it() -> None:
    turns = Turns()
    run(turns, [YES] * 30 + [NO] * 9)
    assert turns.flush(39 * FRAME) == [Ended(1, 30 * FRAME, 36 * FRAME)]


def test_an_endless_talker_is_cut_where_it_is_quietest() -> None:
    loud, quiet = Frame(0.9, (0.5,) * 4), Frame(0.9, (0.1,) * 4)
    # At 12 and at 24 s it is quiet for 0.3 s: only the second is late enough.
    one = frames(12, loud) + [quiet] * 10
    turns = Turns()
    cues = run(turns, one + one + frames(20, loud))
    assert [type(cue) for cue in cues] == [Started, Ended, Started]
    ended, again = cues[1], cues[2]
    assert isinstance(ended, Ended)
    assert ended == Ended(1, ended.at, ended.at, cut=True)
    assert again == Started(2, ended.at, ended.at, cut=True)
    quiet_since = (2 * len(frames(12, loud)) + 10) * FRAME
    assert quiet_since < ended.at < quiet_since + 10 * FRAME


def test_a_long_talker_is_cut_where_he_pauses_and_what_was_begun_there_is_used() -> None:
    turns, long = Turns(), frames(16, YES)
    paused = (len(long) + 6) * FRAME
    cues = run(turns, long + [NO] * 10 + [YES] * 2)
    again = len(long) + 10
    assert cues == [
        Started(1, 0, 0),
        Paused(1, len(long) * FRAME, paused),
        Ended(1, len(long) * FRAME, paused, cut=True),
        Started(2, again * FRAME, paused, cut=True),
    ]


def test_no_utterance_is_longer_than_whisper_hears() -> None:
    turns, begin, most = Turns(), 0, 0
    for cue in run(turns, frames(300, Frame(0.9, (0.3,) * 4))):
        if isinstance(cue, Started):
            begin = cue.begin
        elif isinstance(cue, Ended):
            most = max(most, cue.upto - begin)
    assert 18 * SAMPLE_RATE < most <= LONGEST + FRAME


def test_patience_never_makes_anything_late() -> None:
    """Whoever judges as many frames at once as it may is told the same, no later."""
    script = [NO] * 7 + [YES] * 31 + [NO] * 9 + [YES] * 3 + [NO] * 30 + [YES] * 5 + [NO] * 40
    one_by_one, patient = Turns(), Turns()
    expected = [(index, cue) for index, f in enumerate(script) for cue in one_by_one.hear(f)]
    told, index = [], 0
    while index < len(script):
        count = min(patient.patience, len(script) - index)
        assert count >= 1
        batch = script[index : index + count]
        index += count
        told += [(index - 1, cue) for cue in run(patient, batch)]
    assert told == expected
