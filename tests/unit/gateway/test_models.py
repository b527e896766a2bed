"""The models that a consumer may use: their list, and which members see a picture."""

from __future__ import annotations

from typing import Any

import pytest

from hearth_gateway.interfaces import needs
from hearth_gateway.models import able, list_models, unthinking
from hearth_gateway.settings import Consumer, GatewayConfig, ModelInfo, Name
from hearth_serving.errors import ServiceError


def name(key: str, members: tuple[str, ...] = (), **given: Any) -> Name:
    plain: dict[str, Any] = {
        "title": key.title(),
        "summary": f"Is {key}.",
        "alias": True,
        "talks": True,
    }
    info = ModelInfo(**(plain | {"leaves": False} | given))
    return Name(key, members or ("blind" if given.get("alias", True) else key,), 1, 2, info)


NAMES = [
    name("a-model", alias=False, title="a-model"),
    name("eyes-of-its-own", alias=False, members=("m",)),
    name("fast"),
    name("vision", members=("m",)),
    name("m", alias=False, capabilities=frozenset({"vision"})),
    name("blind", alias=False),
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
    assert list(listed()) == [
        "embed",
        "far",
        "fast",
        "vision",
        "a-model",
        "blind",
        "eyes-of-its-own",
        "m",
    ]
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
        *("fast", "far", "vision", "eyes-of-its-own", "m")
    }
    assert not sees(listed("fast", "a-model")["fast"])


def test_a_single_name_is_returned_and_a_forbidden_one_is_not_found() -> None:
    consumer = Consumer("ann", b"", frozenset({"fast"}))
    assert list_models("/v1/models/fast", consumer, CONFIG)["name"] == "Fast"
    for path in ("/v1/models/far", "/v1/models/nothing"):
        with pytest.raises(ServiceError) as error:
            list_models(path, consumer, CONFIG)
        assert error.value.status == 404


def picture_name(key: str, *members: str, **given: Any) -> Name:
    flags = {"alias": True, "talks": True, "leaves": False} | given
    return Name(key, members, 1, 2, ModelInfo(title=key, summary="", **flags))


FAST = picture_name("fast", "quick", "small")
MIXED = picture_name("mixed", "blind", "seer", "watcher")
VISION = picture_name("vision", "seer")
MODEL = picture_name("quick", "quick", alias=False)
OTHERS = [
    picture_name(key, key, alias=False) for key in ("small", "blind", "one", "two", "vectors")
]
SEERS = [
    picture_name(key, key, alias=False, capabilities=frozenset({"vision"}))
    for key in ("seer", "watcher")
]
EMBED = picture_name("embed", "vectors", talks=False)


def name_for(wanted: Name, *opened: str, vision: Name = VISION) -> Name | None:
    names = {entry.name: entry for entry in (FAST, MIXED, vision, MODEL, EMBED, *OTHERS, *SEERS)}
    consumer = Consumer("ann", b"", frozenset(opened or names))
    return able(wanted, frozenset({"vision"}), consumer, GatewayConfig(names, ()))


def test_an_alias_without_a_vision_member_passes_the_picture_to_vision() -> None:
    assert name_for(FAST) == VISION


def test_only_members_with_vision_are_called() -> None:
    found = name_for(MIXED)
    assert found is not None
    assert (found.name, found.members) == ("mixed", ("seer", "watcher"))


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
    result = {"type": "tool_result", "content": [{"type": "image", "source": {"data": "AA=="}}]}
    assert needs({"messages": [shown, words]}) == {"vision"}
    assert needs({"input": [{"role": "user", "content": [other]}]}) == {"vision"}
    assert needs({"messages": [{"role": "user", "content": [result]}]}) == {"vision"}
    blind: list[dict[str, Any]] = [
        {"messages": [words, {"role": "user", "content": [text]}]},
        {"messages": "image_url"},
        {"messages": [None, 3, {"content": ["image_url", {"type": [picture]}]}]},
        {"input": "image_url"},
        {},
    ]
    assert not any(needs(body) for body in blind)


def test_plain_completions_prefer_members_that_do_not_think() -> None:
    thinker = name("thinker", alias=False, capabilities=frozenset({"thinking"}))
    both, one = name("both", ("thinker", "blind")), name("one", ("thinker",))
    config = GatewayConfig({**CONFIG.names, "thinker": thinker}, ())
    assert unthinking(both, config).members == ("blind",)
    assert unthinking(one, config).members == ("thinker",)
