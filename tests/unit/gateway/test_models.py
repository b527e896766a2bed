"""The models that a consumer may use: their list, and which members see a picture."""

from __future__ import annotations

from typing import Any

import pytest

from hearth_gateway.models import has_picture, list_models, with_vision
from hearth_gateway.settings import Consumer, GatewayConfig, ModelInfo, Name
from hearth_serving.errors import ServiceError


def name(key: str, **given: Any) -> Name:
    plain: dict[str, Any] = {
        "title": key.title(),
        "summary": f"Is {key}.",
        "alias": True,
        "talks": True,
    }
    info = ModelInfo(**(plain | {"sees": (), "leaves": False} | given))
    return Name(key, ("m",), 1, 2, info)


NAMES = [
    name("a-model", alias=False, title="a-model"),
    name("eyes-of-its-own", alias=False, sees=("eyes-of-its-own",)),
    name("fast"),
    name("vision", sees=("m",)),
    name("embed", talks=False),
    name("far", leaves=True),
]
CONFIG = GatewayConfig({entry.name: entry for entry in NAMES}, ())


def listed(*opened: str) -> dict[str, dict[str, Any]]:
    consumer = Consumer("ann", b"", frozenset(opened or CONFIG.names))
    return {entry["id"]: entry for entry in list_models("/v1/models", consumer, CONFIG)["data"]}


def sees(entry: dict[str, Any]) -> bool:
    return bool(entry["info"]["meta"]["capabilities"]["vision"])


def test_the_list_has_the_allowed_names_with_aliases_first() -> None:
    assert list(listed()) == ["embed", "far", "fast", "vision", "a-model", "eyes-of-its-own"]
    assert list(listed("fast")) == ["fast"]


def test_a_name_has_a_title_and_a_description() -> None:
    entry = listed()["fast"]
    assert entry["name"] == "Fast"
    assert entry["info"]["meta"]["description"] == "Is fast."
    assert {"object": "model", "created": 0, "owned_by": "hearth"}.items() <= entry.items()


def test_open_webui_adds_no_tools_of_its_own() -> None:
    capabilities = [entry["info"]["meta"]["capabilities"] for entry in listed().values()]
    assert not any(entry["builtin_tools"] for entry in capabilities)


def test_a_name_that_may_leave_the_house_is_external() -> None:
    kinds = {key: entry["connection_type"] for key, entry in listed().items()}
    assert {key for key, kind in kinds.items() if kind == "external"} == {"far"}
    assert set(kinds.values()) == {"external", "local"}


def test_a_model_that_cannot_chat_is_hidden() -> None:
    hidden = {key for key, entry in listed().items() if entry["info"]["meta"].get("hidden")}
    assert hidden == {"embed"}


def test_pictures_need_a_vision_member_or_an_allowed_vision_alias() -> None:
    assert {key for key, entry in listed().items() if sees(entry)} == {
        *("fast", "far", "vision", "eyes-of-its-own")
    }
    assert not sees(listed("fast", "a-model")["fast"])


def test_a_single_name_is_returned_and_a_forbidden_one_is_not_found() -> None:
    consumer = Consumer("ann", b"", frozenset({"fast"}))
    assert list_models("/v1/models/fast", consumer, CONFIG)["name"] == "Fast"
    for path in ("/v1/models/far", "/v1/models/nothing"):
        with pytest.raises(ServiceError) as error:
            list_models(path, consumer, CONFIG)
        assert error.value.status == 404


def picture_name(key: str, *members: str, sees: tuple[str, ...] = (), **given: bool) -> Name:
    flags = {"alias": True, "talks": True, "leaves": False} | given
    info = ModelInfo(title=key, summary="", sees=sees, **flags)
    return Name(key, members, 1, 2, info)


FAST = picture_name("fast", "quick", "small")
MIXED = picture_name("mixed", "blind", "seer", "watcher", sees=("seer", "watcher"))
VISION = picture_name("vision", "seer", sees=("seer",))
MODEL = picture_name("quick", "quick", alias=False)
EMBED = picture_name("embed", "vectors", talks=False)


def name_for(wanted: Name, *opened: str, vision: Name = VISION) -> Name | None:
    names = {entry.name: entry for entry in (FAST, MIXED, vision, MODEL, EMBED)}
    consumer = Consumer("ann", b"", frozenset(opened or names))
    return with_vision(wanted, consumer, GatewayConfig(names, ()))


def test_an_alias_without_a_vision_member_passes_the_picture_to_vision() -> None:
    assert name_for(FAST) == VISION


def test_only_members_with_vision_are_called() -> None:
    found = name_for(MIXED)
    assert found is not None
    assert (found.name, found.members) == ("mixed", ("seer", "watcher"))


def test_all_members_of_vision_are_called_if_none_is_known_to_support_pictures() -> None:
    found = name_for(FAST, vision=picture_name("vision", "one", "two"))
    assert found is not None
    assert found.members == ("one", "two")


@pytest.mark.parametrize("wanted", [MODEL, EMBED])
def test_a_model_and_an_alias_that_does_not_chat_are_never_replaced(wanted: Name) -> None:
    assert name_for(wanted) is None


def test_without_the_right_to_vision_nothing_is_replaced() -> None:
    assert name_for(FAST, "fast") is None


def test_a_picture_is_found_anywhere_in_a_conversation() -> None:
    words = {"role": "user", "content": "hello"}
    text = {"type": "text", "text": "what is this?"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    other = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    shown = {"role": "user", "content": [text, picture]}
    assert has_picture({"messages": [shown, words]})
    assert has_picture({"input": [{"role": "user", "content": [other]}]})
    blind: list[dict[str, Any]] = [
        {"messages": [words, {"role": "user", "content": [text]}]},
        {"messages": "image_url"},
        {"messages": [None, 3, {"content": ["image_url", {"type": [picture]}]}]},
        {"input": "image_url"},
        {},
    ]
    assert not any(has_picture(body) for body in blind)
