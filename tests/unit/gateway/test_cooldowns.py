"""A member that failed is requested last for a while."""

from __future__ import annotations

import pytest

from hearth_gateway.cooldowns import Cooldowns

MEMBERS = ["a", "b", "c"]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("status", [408, 429, 504])
def test_a_slow_member_is_called_last_for_a_while(status: int) -> None:
    clock = Clock()
    cooldowns = Cooldowns(30, 5, clock)
    cooldowns.failed("a", status)
    assert cooldowns.order(MEMBERS) == ["b", "c", "a"]
    clock.now += 29
    assert cooldowns.order(MEMBERS)[0] == "b"
    clock.now += 2
    assert cooldowns.order(MEMBERS) == MEMBERS


@pytest.mark.parametrize("status", [404, 500, 502, 503])
def test_a_member_that_fails_at_once_has_a_short_cooldown(status: int) -> None:
    clock = Clock()
    cooldowns = Cooldowns(30, 5, clock)
    cooldowns.failed("a", status)
    assert cooldowns.order(MEMBERS) == ["b", "c", "a"]
    clock.now += 6
    assert cooldowns.order(MEMBERS) == MEMBERS


@pytest.mark.parametrize(
    ("status", "recording", "interrupted"), [(404, True, False), (502, False, True)]
)
def test_a_costly_failure_has_a_long_cooldown(
    status: int, recording: bool, interrupted: bool
) -> None:
    clock = Clock()
    cooldowns = Cooldowns(30, 5, clock)
    cooldowns.failed("a", status, recording, interrupted)
    clock.now += 29
    assert cooldowns.order(MEMBERS) == ["b", "c", "a"]


def test_a_short_cooldown_does_not_end_a_long_one() -> None:
    clock = Clock()
    cooldowns = Cooldowns(30, 5, clock)
    cooldowns.failed("a", 504)
    cooldowns.failed("a", 500)
    clock.now += 29
    assert cooldowns.order(MEMBERS) == ["b", "c", "a"]


def test_an_answer_ends_the_cooldown_and_every_member_stays_listed() -> None:
    cooldowns = Cooldowns(30, 5, Clock())
    for member in MEMBERS:
        cooldowns.failed(member, 504)
    assert cooldowns.order(MEMBERS) == MEMBERS
    cooldowns.answered("c")
    assert cooldowns.order(MEMBERS) == ["c", "a", "b"]
