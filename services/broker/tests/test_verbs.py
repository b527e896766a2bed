"""Verbs over plain HTTP: the same answers, refusals and lines in the log for everybody."""

from collections.abc import Callable
from typing import Any

import httpx

from .conftest import OTHER, key

Lines = Callable[[], list[dict[str, Any]]]


async def test_a_verb_answers_and_leaves_one_line(broker: httpx.AsyncClient, lines: Lines) -> None:
    answer = await broker.post("/v1/verbs/echo", json={"word": "hello"}, headers=key())
    assert answer.status_code == 200
    assert answer.json() == {
        "text": "hello",
        "data": {"consumer": "team", "run": ""},
        "origin": "house",
    }
    (line,) = lines()
    assert line["consumer"] == "team"
    assert (line["verb"], line["outcome"], line["arguments"]) == ("echo", "ok", {"word": "hello"})
    assert OTHER not in str(line)
