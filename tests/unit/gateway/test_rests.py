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
    rests = Rests(30, clock)
    rests.failed("a", status)
    assert rests.order(MEMBERS) == ["b", "c", "a"]
    clock.now += 29
    assert rests.order(MEMBERS)[0] == "b"
    clock.now += 2
    assert rests.order(MEMBERS) == MEMBERS


@pytest.mark.parametrize("status", [404, 500, 502, 503])
def test_a_member_that_fails_at_once_is_asked_again(status: int) -> None:
    rests = Rests()
    rests.failed("a", status)
    assert rests.order(MEMBERS) == MEMBERS


def test_who_has_not_the_model_is_asked_later_where_asking_costs_a_whole_recording() -> None:
    rests = Rests()
    rests.failed("a", 500, sent_much=True)
    assert rests.order(MEMBERS) == MEMBERS
    rests.failed("a", 404, sent_much=True)
    assert rests.order(MEMBERS) == ["b", "c", "a"]


def test_an_answer_ends_the_rest_and_nobody_is_left_out() -> None:
    rests = Rests(30, Clock())
    for member in MEMBERS:
        rests.failed(member, 504)
    assert rests.order(MEMBERS) == MEMBERS
    rests.answered("c")
    assert rests.order(MEMBERS) == ["c", "a", "b"]
