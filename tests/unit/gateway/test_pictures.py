"""Who is asked where a picture is shown."""

from __future__ import annotations

from typing import Any

import pytest

from hearth_gateway.pictures import onlooker, shows_picture
from hearth_gateway.settings import Consumer, House, Name, Shown


def name(key: str, *members: str, sees: tuple[str, ...] = (), **said: bool) -> Name:
    flags = {"alias": True, "talks": True, "leaves": False} | said
    shown = Shown(title=key, summary="", sees=sees, **flags)
    return Name(key, members, 1, 2, shown)


FAST = name("fast", "quick", "small")
MIXED = name("mixed", "blind", "seer", "watcher", sees=("seer", "watcher"))
EYES = name("vision", "seer", sees=("seer",))
MODEL = name("quick", "quick", alias=False)
EMBED = name("embed", "vectors", talks=False)


def asked(wanted: Name, *opened: str, eyes: Name = EYES) -> Name | None:
    names = {entry.name: entry for entry in (FAST, MIXED, eyes, MODEL, EMBED)}
    consumer = Consumer("ann", b"", frozenset(opened or names))
    return onlooker(wanted, consumer, House(names, ()))


def test_an_alias_that_cannot_see_passes_the_picture_to_vision() -> None:
    assert asked(FAST) == EYES


def test_members_that_see_are_asked_and_no_others() -> None:
    found = asked(MIXED)
    assert found is not None
    assert (found.name, found.members) == ("mixed", ("seer", "watcher"))


def test_vision_is_believed_even_where_no_member_says_that_it_sees() -> None:
    found = asked(FAST, eyes=name("vision", "one", "two"))
    assert found is not None
    assert found.members == ("one", "two")


@pytest.mark.parametrize("wanted", [MODEL, EMBED])
def test_a_model_and_what_does_not_talk_are_never_exchanged(wanted: Name) -> None:
    assert asked(wanted) is None


def test_without_the_right_to_vision_nothing_is_exchanged() -> None:
    assert asked(FAST, "fast") is None


def test_pictures_are_found_wherever_they_stand_in_a_conversation() -> None:
    words = {"role": "user", "content": "hello"}
    text = {"type": "text", "text": "what is this?"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    other = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    shown = {"role": "user", "content": [text, picture]}
    assert shows_picture({"messages": [shown, words]})
    assert shows_picture({"input": [{"role": "user", "content": [other]}]})
    blind: list[dict[str, Any]] = [
        {"messages": [words, {"role": "user", "content": [text]}]},
        {"messages": "image_url"},
        {"messages": [None, 3, {"content": ["image_url", {"type": [picture]}]}]},
        {"input": "image_url"},
        {},
    ]
    assert not any(shows_picture(body) for body in blind)
