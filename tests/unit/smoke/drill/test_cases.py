"""The drill's judgement: what a gateway may do when members are broken, and what it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hearth.smoke.drill.agent import CUT, FAULTS, HANG, REFUSED
from hearth.smoke.drill.cases import (
    Order,
    all_are_broken,
    first_is_broken,
    small_request,
)
from tests.small_house import alias

FAST = alias("fast", "a", "b", first_token_timeout_s=1.0, timeout_s=5.0)
LONE = alias("lone", "e", kind="embed", first_token_timeout_s=1.0, timeout_s=4.0)
JSON, EVENTS = "application/json", "text/event-stream"


def answer(status: int, body: str, member: str = "", kind: str = JSON, s: float = 0.1) -> Any:
    headers = {"content-type": kind} | ({"x-hearth-model": member} if member else {})
    return {"status": status, "headers": headers, "body": body, "first_s": s, "total_s": s}


def spoken(member: str, s: float = 0.1) -> Any:
    choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
    return answer(200, json.dumps({"model": member, "choices": [choice]}), member, s=s)


def streamed(member: str, *events: Any, s: float = 0.1) -> Any:
    lines = [json.dumps({"model": member} | event) for event in events]
    body = "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if s else [])])
    return answer(200, body, member, EVENTS, s)


END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
BROKEN = {"error": {"message": "broke off", "code": "broken_off"}}


def failed(status: int = 502, named: str = "fast: a, b", **more: Any) -> Any:
    error = {"message": named, "type": "server_error", "param": None, "code": "no_answer"}
    return answer(status, json.dumps({"error": error | more}))


class Gateway:
    """Answers as configured, and records how often each member was called."""

    def __init__(self, *steps: tuple[list[Any], dict[str, int]]) -> None:
        took_s = {"a": [0.0, 0.0], "b": [0.1, 0.2], "e": [0.0, 0.0]}
        self.steps = [{"answers": a, "calls": calls, "took_s": took_s} for a, calls in steps]
        self.ordered: list[Any] = []

    @property
    def order(self) -> Order:
        """Take one round of steps."""

        def ordered(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
            self.ordered += steps
            taken, self.steps = self.steps[: len(steps) - 1], self.steps[len(steps) - 1 :]
            return [*taken, {"answers": [], "calls": {}}]

        return ordered


def calls(a: int, b: int) -> dict[str, int]:
    return {"a": a, "b": b}


RIGHT = ([spoken("b")], calls(1, 1)), ([spoken("b")], calls(0, 1))
STREAM = ([streamed("b", END)], calls(1, 1)), ([streamed("b", END)], calls(0, 1))


def test_the_next_member_at_once_and_the_first_one_left_alone_is_right() -> None:
    gateway = Gateway(*RIGHT, *STREAM)
    row = first_is_broken(FAST, "500", gateway.order)
    assert (row.problems, row.answered_by, row.plain_s) == ([], "b", 0.1)
    # Broken twice and then well again, so that the next fault finds it as it was.
    assert [step["faults"] for step in gateway.ordered[:3]] == [{"a": "500"}] * 2 + [{"a": "well"}]


@pytest.mark.parametrize(
    ("step", "broken", "word"),
    [
        (0, ([failed()], calls(1, 1)), "no answer, but HTTP 502"),
        (0, ([spoken("a")], calls(1, 1)), "a answered"),
        (0, ([spoken("b", s=2.5)], calls(1, 1)), "took 2.5 s of 2.2 s"),
        (0, ([spoken("b")], calls(2, 1)), "a got 2 requests, not 1"),
        (0, ([spoken("b")], calls(1, 2)), "b got 2 requests, not 1"),
        (1, ([spoken("b")], calls(1, 1)), "during its cooldown: a got 1 requests, not 0"),
        (1, ([failed()], calls(0, 1)), "second request: no answer"),
        (2, ([streamed("b")], calls(1, 1)), "without an end"),
        (2, ([streamed("b", END, BROKEN)], calls(1, 1)), "broke off"),
    ],
)
def test_each_wrong_fallback_is_reported(step: int, broken: Any, word: str) -> None:
    steps = [*RIGHT, *STREAM]
    steps[step] = broken
    row = first_is_broken(FAST, "500", Gateway(*steps).order)
    assert any(word in problem for problem in row.problems), row.problems


def test_a_refused_connection_is_no_call_and_silence_has_its_own_time() -> None:
    first, again = ([spoken("b")], calls(0, 1)), ([spoken("b")], calls(0, 1))
    row = first_is_broken(FAST, REFUSED, Gateway(first, again, first, again).order)
    assert not [problem for problem in row.problems if "requests" in problem]
    both = [spoken("b", s=1.9), streamed("b", END, s=1.9)]
    soon = [spoken("b"), streamed("b", END)]
    row = first_is_broken(FAST, HANG, Gateway((both, calls(2, 2)), (soon, calls(0, 2))).order)
    assert not row.problems
    late = [spoken("b", s=2.3), streamed("b", END, s=2.0)]
    row = first_is_broken(FAST, HANG, Gateway((late, calls(2, 2)), (soon, calls(0, 2))).order)
    assert row.problems == ["plain: took 2.3 s of 2.2 s"]


def test_half_a_stream_ends_in_an_error_and_in_nothing_else() -> None:
    cut = streamed("a", {"choices": []}, BROKEN, s=0)
    right = [*RIGHT, ([cut], calls(1, 0)), STREAM[1]]
    assert first_is_broken(FAST, CUT, Gateway(*right).order).problems == []
    right[2] = ([streamed("a", END, BROKEN)], calls(1, 0))
    (problem,) = first_is_broken(FAST, CUT, Gateway(*right).order).problems
    assert problem == "streamed: half an answer ends in stop, as if it were whole"
    right[2] = ([streamed("a", {"choices": []}, s=0)], calls(1, 0))
    (problem,) = first_is_broken(FAST, CUT, Gateway(*right).order).problems
    assert "it does not end in an error" in problem


@pytest.mark.parametrize(
    ("response", "word"),
    [
        (failed(), ""),
        (failed(429), ""),
        (failed(401), "HTTP 401"),
        (failed(named="a, b"), "does not name fast"),
        (failed(named="fast: b"), "does not name a"),
        (spoken("a"), "no error, but HTTP 200"),
        (answer(502, "<html>"), "no error, but HTTP 502"),
        (answer(502, '{"error": {"message": "fast: a, b"}}'), "the error has no code, param, type"),
    ],
)
def test_one_error_must_name_the_alias_and_all_members(response: Any, word: str) -> None:
    gateway = Gateway(([response], calls(1, 1)), ([failed()], calls(1, 1)))
    row = all_are_broken(FAST, "500", gateway.order)
    assert word in " ".join(row.problems)
    assert bool(row.problems) == bool(word)


def test_an_alias_with_one_member_has_an_error_too() -> None:
    response = failed(named="lone: e")
    row = all_are_broken(LONE, "500", Gateway(([response], {"e": 1})).order)
    assert row.problems == []
    late = {**response, "total_s": 5.5}
    row = all_are_broken(LONE, "500", Gateway(([late], {"e": 1})).order)
    assert row.problems == ["plain: took 5.5 s of 5.0 s"]


def test_a_small_request_fits_its_endpoint() -> None:
    assert json.loads(small_request("fast", "chat", "streamed", 5)["body"])["stream"] is True
    assert json.loads(small_request("embed", "embed", "plain", 5)["body"])["input"]
    request = small_request("hear", "transcribe", "streamed", 5)
    assert 'name="stream"\r\n\r\ntrue' in request["body"]
    assert request["type"].partition("boundary=")[2] in request["body"]
    assert len(FAULTS) == len(set(FAULTS)) == 9
