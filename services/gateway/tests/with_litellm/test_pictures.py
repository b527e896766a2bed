"""Requests with a picture go to the vision model, whatever their alias."""

from __future__ import annotations

import httpx
import pytest

from .chats import chat
from .conftest import Gateway
from .house import MODES
from .upstream import Upstream

PICTURE = "data:image/png;base64,iVBORw0KGgo="
PARTS = [
    {"type": "text", "text": "what is this?"},
    {"type": "image_url", "image_url": {"url": PICTURE}},
]
SHOWN = [{"role": "user", "content": PARTS}]


@pytest.mark.parametrize("mode", MODES)
def test_vision_answers_for_an_alias_without_it(
    owner: httpx.Client, gateway: Gateway, upstream: Upstream, mode: str
) -> None:
    seen, before = len(gateway.lines()), len(upstream.requests_for("good"))
    answer = chat(owner, "fast", mode, messages=SHOWN)
    assert (answer.member, answer.models, answer.text) == ("picture", {"picture"}, PICTURE[:22])
    assert len(upstream.requests_for("good")) == before
    line = gateway.line_after(seen, "fast")
    assert (line["alias"], line["member"]) == ('"fast"', "picture")
    # The conversation continues with text, and still contains the picture.
    asked = [*SHOWN, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert chat(owner, "fast", mode, messages=asked).member == "picture"


def test_a_model_by_its_own_name_is_not_replaced(owner: httpx.Client, upstream: Upstream) -> None:
    assert chat(owner, "good", messages=SHOWN).member == "good"
    assert upstream.requests_for("good")[-1]["messages"] == SHOWN


def test_a_key_without_the_vision_model_gets_no_replacement(guest: httpx.Client) -> None:
    assert chat(guest, "fast", messages=SHOWN).member == "good"


def test_the_list_marks_models_that_accept_pictures(
    owner: httpx.Client, guest: httpx.Client
) -> None:
    def welcome(client: httpx.Client) -> dict[str, bool]:
        entries = client.get("/v1/models").json()["data"]
        return {e["id"]: e["info"]["meta"]["capabilities"]["vision"] for e in entries}

    assert welcome(owner).items() >= {"fast": True, "vision": True, "good": False}.items()
    assert welcome(owner)["embed"] is False
    assert welcome(guest) == {"fast": False, "hear": False}
