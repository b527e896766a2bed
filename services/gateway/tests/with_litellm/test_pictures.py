"""A picture is looked at by who can see, whatever alias the question was for."""

from __future__ import annotations

import httpx
import pytest

from .conftest import Gateway
from .house import MODES
from .talk import chat
from .upstream import Upstream

PICTURE = "data:image/png;base64,iVBORw0KGgo="
PARTS = [
    {"type": "text", "text": "what is this?"},
    {"type": "image_url", "image_url": {"url": PICTURE}},
]
SHOWN = [{"role": "user", "content": PARTS}]


@pytest.mark.parametrize("mode", MODES)
def test_vision_answers_for_an_alias_that_cannot_see(
    owner: httpx.Client, gateway: Gateway, upstream: Upstream, mode: str
) -> None:
    seen, before = len(gateway.lines()), len(upstream.asked("good"))
    heard = chat(owner, "fast", mode, messages=SHOWN)
    assert (heard.member, heard.models, heard.text) == ("picture", {"picture"}, PICTURE[:22])
    assert len(upstream.asked("good")) == before
    line = gateway.line_after(seen, "fast")
    assert (line["alias"], line["member"]) == ('"fast"', "picture")
    # The conversation goes on with words, and with it the picture.
    asked = [*SHOWN, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert chat(owner, "fast", mode, messages=asked).member == "picture"


def test_a_model_by_its_own_name_answers_itself(owner: httpx.Client, upstream: Upstream) -> None:
    assert chat(owner, "good", messages=SHOWN).member == "good"
    assert upstream.asked("good")[-1]["messages"] == SHOWN


def test_whose_key_does_not_open_vision_gets_no_eyes(guest: httpx.Client) -> None:
    assert chat(guest, "fast", messages=SHOWN).member == "good"


def test_the_listing_says_where_pictures_are_welcome(
    owner: httpx.Client, guest: httpx.Client
) -> None:
    def welcome(client: httpx.Client) -> dict[str, bool]:
        entries = client.get("/v1/models").json()["data"]
        return {e["id"]: e["info"]["meta"]["capabilities"]["vision"] for e in entries}

    assert welcome(owner).items() >= {"fast": True, "vision": True, "good": False}.items()
    assert welcome(owner)["embed"] is False
    assert welcome(guest) == {"fast": False, "hear": False}
