"""What a consumer is shown: names that it may use, with words for people."""

from __future__ import annotations

from typing import Any

import pytest

from hearth_gateway.listing import listing
from hearth_gateway.request import Stop
from hearth_gateway.settings import Consumer, House, Name, Shown


def name(key: str, **said: Any) -> Name:
    plain: dict[str, Any] = {
        "title": key.title(),
        "summary": f"Is {key}.",
        "alias": True,
        "talks": True,
    }
    shown = Shown(**(plain | {"sees": (), "leaves": False} | said))
    return Name(key, ("m",), 1, 2, shown)


NAMES = [
    name("a-model", alias=False, title="a-model"),
    name("eyes-of-its-own", alias=False, sees=("eyes-of-its-own",)),
    name("fast"),
    name("vision", sees=("m",)),
    name("embed", talks=False),
    name("far", leaves=True),
]
HOUSE = House({entry.name: entry for entry in NAMES}, ())


def listed(*opened: str) -> dict[str, dict[str, Any]]:
    consumer = Consumer("ann", b"", frozenset(opened or HOUSE.names))
    return {entry["id"]: entry for entry in listing("/v1/models", consumer, HOUSE)["data"]}


def sees(entry: dict[str, Any]) -> bool:
    return bool(entry["info"]["meta"]["capabilities"]["vision"])


def test_aliases_come_first_and_only_what_is_opened() -> None:
    assert list(listed()) == ["embed", "far", "fast", "vision", "a-model", "eyes-of-its-own"]
    assert list(listed("fast")) == ["fast"]


def test_people_read_a_name_and_a_sentence() -> None:
    entry = listed()["fast"]
    assert entry["name"] == "Fast"
    assert entry["info"]["meta"]["description"] == "Is fast."
    assert {"object": "model", "created": 0, "owned_by": "hearth"}.items() <= entry.items()


def test_nobody_reads_a_book_of_tools_before_every_question() -> None:
    said = [entry["info"]["meta"]["capabilities"] for entry in listed().values()]
    assert not any(entry["builtin_tools"] for entry in said)


def test_what_may_leave_the_house_says_so() -> None:
    kinds = {key: entry["connection_type"] for key, entry in listed().items()}
    assert {key for key, kind in kinds.items() if kind == "external"} == {"far"}
    assert set(kinds.values()) == {"external", "local"}


def test_what_nobody_can_talk_with_is_not_offered_for_it() -> None:
    hidden = {key for key, entry in listed().items() if entry["info"]["meta"].get("hidden")}
    assert hidden == {"embed"}


def test_pictures_may_be_sent_to_who_sees_and_to_aliases_where_vision_is_open() -> None:
    assert {key for key, entry in listed().items() if sees(entry)} == {
        *("fast", "far", "vision", "eyes-of-its-own")
    }
    assert not sees(listed("fast", "a-model")["fast"])


def test_one_is_shown_alone_and_a_closed_one_is_not_there() -> None:
    consumer = Consumer("ann", b"", frozenset({"fast"}))
    assert listing("/v1/models/fast", consumer, HOUSE)["name"] == "Fast"
    for path in ("/v1/models/far", "/v1/models/nothing"):
        with pytest.raises(Stop) as stop:
            listing(path, consumer, HOUSE)
        assert stop.value.status == 404
