"""The model that answered is named by its server's answer, not by the request."""

from __future__ import annotations

import httpx
import pytest

from .chats import MESSAGES, chat
from .conftest import Gateway
from .house import MODES

STRANGE = "somebody%27s:7b%0A"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("requested", "answered"), [("other", "good"), ("strange", STRANGE)])
def test_a_chat_names_the_model_that_answered(
    owner: httpx.Client, gateway: Gateway, mode: str, requested: str, answered: str
) -> None:
    seen = len(gateway.lines())
    answer = chat(owner, requested, mode)
    assert (answer.text, answer.member, answer.models) == (
        "one two three four",
        answered,
        {answered},
    )
    assert gateway.line_after(seen, requested)["member"] == answered


@pytest.mark.parametrize(
    ("path", "requested", "fields"),
    [
        ("/v1/responses", "other", {"input": "hello"}),
        ("/v1/responses", "other", {"input": "hello", "stream": True}),
        ("/v1/messages", "other", {"messages": MESSAGES, "max_tokens": 9}),
        ("/v1/messages", "other", {"messages": MESSAGES, "max_tokens": 9, "stream": True}),
        ("/v1/embeddings", "other-vectors", {"input": ["hello"]}),
    ],
)
def test_other_interfaces_name_it_too(
    owner: httpx.Client, path: str, requested: str, fields: dict[str, object]
) -> None:
    answer = owner.post(path, json={"model": requested, **fields})
    assert answer.headers["x-hearth-model"] == "good"
    assert '"model":"good"' in answer.text.replace('": "', '":"')
    assert f'"{requested}"' not in answer.text
