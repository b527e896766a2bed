"""Where a cut does least harm."""

from hearth_whisper.live.quiet import quietest


def test_it_is_in_the_middle_of_what_is_quiet() -> None:
    levels = [0.5] * 100 + [0.01] * 12 + [0.5] * 100
    assert quietest(levels) == 106


def test_a_short_dip_is_no_quiet_place() -> None:
    levels = [0.5] * 50 + [0.0] * 2 + [0.5] * 50 + [0.1] * 20 + [0.5] * 50
    assert 102 <= quietest(levels) <= 122


def test_of_equals_it_is_the_last() -> None:
    assert quietest([0.2] * 100) == 94
    assert quietest([0.2] * 5) == 2
