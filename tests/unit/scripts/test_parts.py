"""The lab's parts: complete, in an order that the commit turns, and refused without time."""

import time
from pathlib import Path

from tests.lab import parts
from tests.lab.parts import ALL, FIRST, LAST, MIDDLE, Budget, order

LAB = Path(parts.__file__).parent


def test_every_file_is_a_part_and_every_part_a_file() -> None:
    assert {path.stem.removeprefix("test_") for path in LAB.glob("test_*.py")} == set(ALL)


def test_each_middle_part_is_the_last_of_them_at_some_commit() -> None:
    found = set()
    for number in range(len(MIDDLE)):
        names = order(f"{number:x}")
        assert sorted(names) == sorted(ALL)
        assert names[: len(FIRST)] == [part.name for part in FIRST]
        assert names[-len(LAST) :] == [part.name for part in LAST]
        found.add(names[len(FIRST) + len(MIDDLE) - 1])
    assert found == {part.name for part in MIDDLE}


def test_a_part_that_cannot_finish_in_time_is_skipped_and_the_last_parts_keep_their_time() -> None:
    middle, last = MIDDLE[0], LAST[0]
    needed = middle.minutes + 4.5
    short = Budget(time.monotonic() + 60 * (needed - 0.5), slowness=1, reserve_min=4.5)
    assert short.refusal(FIRST[0]) is None
    assert short.refusal(last) is None
    assert str(short.refusal(middle)).startswith(f"not started: it needs {needed:.1f} min and ")
    enough_s = 60 * (needed + 0.5)
    assert Budget(time.monotonic() + enough_s, 1, 4.5).refusal(middle) is None
    assert Budget(time.monotonic() + enough_s, slowness=2, reserve_min=4.5).refusal(middle)
    assert Budget(None, 9, 9).refusal(middle) is None
