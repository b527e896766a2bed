"""Which member is asked first after one was slow."""

from __future__ import annotations

import pytest

from hearth_gateway.walk import Rests

MEMBERS = ["a", "b", "c"]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("status", [408, 429, 504])
def test_a_slow_member_goes_to_the_end_for_a_while(status: int) -> None:
    clock = Clock()
    rests = Rests(30, 5, clock)
    rests.failed("a", status)
    assert rests.order(MEMBERS) == ["b", "c", "a"]
    clock.now += 29
    assert rests.order(MEMBERS)[0] == "b"
    clock.now += 2
    assert rests.order(MEMBERS) == MEMBERS


@pytest.mark.parametrize("status", [404, 500, 502, 503])
def test_a_member_that_fails_at_once_rests_briefly(status: int) -> None:
    clock = Clock()
    rests = Rests(30, 5, clock)
    rests.failed("a", status)
    assert rests.order(MEMBERS) == ["b", "c", "a"]
    clock.now += 6
    assert rests.order(MEMBERS) == MEMBERS


@pytest.mark.parametrize(("status", "sent_much", "cut"), [(404, True, False), (502, False, True)])
def test_what_costs_a_recording_or_half_an_answer_is_not_tried_again_soon(
    status: int, sent_much: bool, cut: bool
) -> None:
    clock = Clock()
    rests = Rests(30, 5, clock)
    rests.failed("a", status, sent_much, cut)
    clock.now += 29
    assert rests.order(MEMBERS) == ["b", "c", "a"]


def test_a_failure_at_once_does_not_shorten_a_long_rest() -> None:
    clock = Clock()
    rests = Rests(30, 5, clock)
    rests.failed("a", 504)
    rests.failed("a", 500)
    clock.now += 29
    assert rests.order(MEMBERS) == ["b", "c", "a"]


def test_an_answer_ends_the_rest_and_nobody_is_left_out() -> None:
    rests = Rests(30, 5, Clock())
    for member in MEMBERS:
        rests.failed(member, 504)
    assert rests.order(MEMBERS) == MEMBERS
    rests.answered("c")
    assert rests.order(MEMBERS) == ["c", "a", "b"]
