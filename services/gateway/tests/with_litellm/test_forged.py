"""A member's server that speaks as if it were the caller's own program."""

from __future__ import annotations

import httpx
import pytest

from .talk import CHAT, MESSAGES, chat
from .test_status import ASKED, stream
from .upstream import EXTRAS, FORGED


@pytest.mark.parametrize("headers", [{}, ASKED])
def test_a_stream_says_nothing_in_another_ones_name(
    owner: httpx.Client, headers: dict[str, str]
) -> None:
    events = stream(owner, "forged", headers)
    assert [event for event in events if FORGED.keys() & event.keys()] == []
    # What callers want of a member, they get; and every word.
    assert any(event.items() >= EXTRAS.items() for event in events)
    heard = chat(owner, "forged", "stream")
    assert (heard.text, heard.end, heard.done) == ("one two three four", "stop", True)


def test_nor_does_an_answer_in_one_piece(owner: httpx.Client) -> None:
    answer = owner.post(CHAT, json={"model": "forged", "messages": MESSAGES}).json()
    assert FORGED.keys() & answer.keys() == set()
    assert answer["choices"][0]["message"]["content"] == "one two three four"
