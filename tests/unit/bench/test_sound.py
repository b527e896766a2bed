"""What a listener hears, worked out from chunks whose times the test makes up."""

from __future__ import annotations

import itertools
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.clients.sound import Chunk, duration, first_sound, stalls

ROOT = Path(__file__).parents[3]
MS = 24  # samples


def tone(milliseconds: float, level: int = 8000) -> bytes:
    return array("h", [level, -level] * round(milliseconds * MS / 2)).tobytes()


def silence(milliseconds: float) -> bytes:
    return bytes(2 * round(milliseconds * MS))


def test_the_first_sound_counts_when_its_block_is_complete() -> None:
    first = first_sound([Chunk(0.1, tone(4)), Chunk(0.2, tone(5)), Chunk(0.3, tone(50))])
    assert first is not None
    assert (first.at_s, first.lead_s) == (0.3, 0.0)


@pytest.mark.parametrize("filler", [silence(500), tone(500, level=180)])
def test_filler_cannot_help(filler: bytes) -> None:
    first = first_sound([Chunk(0.01, filler), Chunk(0.9, tone(10))])
    assert first is not None
    assert first.at_s == 0.9
    assert first.lead_s == pytest.approx(0.5)


def test_just_above_the_threshold_is_a_sound() -> None:
    assert first_sound([Chunk(0.5, tone(10, level=190))]) is not None


@pytest.mark.parametrize("chunks", [[], [Chunk(0.1, silence(1000))], [Chunk(0.1, b"\x01")]])
def test_silence_has_no_first_sound(chunks: list[Chunk]) -> None:
    assert first_sound(chunks) is None


def test_a_sound_that_ends_within_its_block_counts() -> None:
    first = first_sound([Chunk(0.1, silence(10)), Chunk(0.4, tone(5) + b"\x01")])
    assert first is not None
    assert first.at_s == 0.4


@settings(deadline=None)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40))
def test_how_bytes_are_cut_changes_neither_place_nor_length(sizes: list[int]) -> None:
    sound = silence(37) + tone(100)
    cuts = [0]
    for size in sizes:
        cuts.append(min(len(sound), cuts[-1] + size))
    cuts.append(len(sound))
    parts = [Chunk(0.0, sound[a:b]) for a, b in itertools.pairwise(cuts)]
    first = first_sound(parts)
    assert first is not None
    assert first.lead_s == pytest.approx(0.03)
    assert duration(parts) == pytest.approx(0.137)
    assert stalls(parts) == []


def test_a_stream_that_is_always_ahead_never_stalls() -> None:
    assert stalls([Chunk(0.3 + 0.09 * n, tone(100)) for n in range(20)]) == []


def test_a_dry_player_stalls_where_and_as_long_as_it_is_dry() -> None:
    (stall,) = stalls([Chunk(1.0, tone(100)), Chunk(1.4, tone(500)), Chunk(1.9, tone(10))])
    assert stall.position_s == pytest.approx(0.1)
    assert stall.dry_s == pytest.approx(0.3)


def test_a_short_gap_is_forgiven_and_many_of_them_are_not() -> None:
    assert stalls([Chunk(0, tone(100)), Chunk(0.119, tone(100))]) == []
    drip = [Chunk(0.115 * n, tone(100)) for n in range(5)]
    assert [round(stall.dry_s, 3) for stall in stalls(drip)] == [0.03, 0.03]


def test_filler_starts_the_player_too() -> None:
    assert stalls([Chunk(0.01, silence(100)), Chunk(0.9, tone(100))])


def test_the_rate_counts() -> None:
    doubled = [Chunk(0.0, tone(100)), Chunk(0.08, tone(100))]
    assert stalls(doubled, rate=48_000)
    assert duration(doubled, rate=48_000) == pytest.approx(0.1)


def test_the_smoke_tests_need_no_decoder_for_it() -> None:
    barred = "import sys; sys.modules.update(numpy=None, av=None, matplotlib=None); "
    code = barred + "import hearth.smoke.test_tts"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)
