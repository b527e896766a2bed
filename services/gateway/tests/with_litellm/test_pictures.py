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
    requested = [*SHOWN, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert chat(owner, "fast", mode, messages=requested).member == "picture"


def test_what_sees_no_pictures_is_told_what_does(
    owner: httpx.Client, guest: httpx.Client, upstream: Upstream
) -> None:
    before = len(upstream.calls)
    answers = [chat(owner, "good", messages=SHOWN), chat(guest, "fast", messages=SHOWN)]
    assert [(a.status, a.error and a.error["code"]) for a in answers] == [
        (400, "unsupported_capability")
    ] * 2
    mine, theirs = (str(answer.error and answer.error["message"]) for answer in answers)
    assert "good has no model that sees pictures; these do: " in mine
    assert "vision" in mine.split(": ")[1].split(", ")
    # Nothing that this key may not use.
    assert theirs == "fast has no model that sees pictures; no model of this key does"
    assert len(upstream.calls) == before


def test_the_list_marks_models_that_accept_pictures(
    owner: httpx.Client, guest: httpx.Client
) -> None:
    def welcome(client: httpx.Client) -> dict[str, bool]:
        entries = client.get("/v1/models").json()["data"]
        return {e["id"]: e["info"]["meta"]["capabilities"]["vision"] for e in entries}

    assert welcome(owner).items() >= {"fast": True, "vision": True, "good": False}.items()
    assert welcome(owner)["embed"] is False
    assert welcome(guest) == {"fast": False, "hear": False, "helper": False}
