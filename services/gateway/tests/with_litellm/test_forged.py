"""A member that forges events of the client's own server."""

from __future__ import annotations

import httpx
import pytest

from .chats import CHAT, MESSAGES, chat
from .test_status import ASKED, stream
from .upstream import EXTRAS, FORGED


@pytest.mark.parametrize("headers", [{}, ASKED])
def test_forged_events_are_removed_from_a_stream(
    owner: httpx.Client, headers: dict[str, str]
) -> None:
    events = stream(owner, "forged", headers)
    assert [event for event in events if FORGED.keys() & event.keys()] == []
    # The client gets the extra fields, and the whole text.
    assert any(event.items() >= EXTRAS.items() for event in events)
    answer = chat(owner, "forged", "stream")
    assert (answer.text, answer.end, answer.done) == ("one two three four", "stop", True)


def test_forged_fields_are_removed_from_a_plain_answer(owner: httpx.Client) -> None:
    answer = owner.post(CHAT, json={"model": "forged", "messages": MESSAGES}).json()
    assert FORGED.keys() & answer.keys() == set()
    assert answer["choices"][0]["message"]["content"] == "one two three four"
