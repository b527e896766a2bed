"""What the gateway reads follows from the inventory, and from the keys that exist."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.catalogue import House, derive, load
from hearth.catalogue.house import Consumer
from hearth.render.files import context_tokens
from hearth.render.gateway import gateway_files, litellm_config

INVENTORY = Path(__file__).parents[3] / "inventory"
CLOUD = frozenset({"openrouter_api_key"})


def house(secrets: frozenset[str] = frozenset()) -> House:
    return derive(load(INVENTORY), given_secrets=secrets)


def with_key(model: str, secret: str) -> House:
    """Return the house where this model's server requires a key."""
    made = house()
    return replace(made, models={**made.models, model: replace(made.models[model], secret=secret)})


def routes(secrets: frozenset[str] = frozenset()) -> dict[str, dict[str, Any]]:
    config = litellm_config(house(secrets))
    return {route["model_name"]: route["litellm_params"] for route in config["model_list"]}


def test_a_local_model_goes_to_its_service_and_needs_no_key() -> None:
    assert routes()["qwen3.5:4b"] == {
        "model": "openai/qwen3.5:4b",
        "api_base": f"{house().services['ollama'].url}/v1",
        "api_key": "none",
        "max_retries": 0,
    }


def test_without_a_key_there_is_no_route_to_the_cloud() -> None:
    ours = house().services["ollama"].url
    assert {params.get("api_base") for params in routes().values()} == {f"{ours}/v1"}


def test_with_its_key_a_cloud_model_has_a_route_without_the_key_in_it() -> None:
    params = routes(CLOUD)["gpt-oss-120b"]
    assert params["model"] == "openrouter/openai/gpt-oss-120b:free"
    assert params["api_key"] == "os.environ/OPENROUTER_API_KEY"
    # Its key exists, but no alias that allows the cloud has it as a member.
    assert "qwen3-80b" not in routes(CLOUD)


def test_an_external_server_with_a_key_gets_it() -> None:
    (route, *_) = litellm_config(with_key("qwen3.5:4b", "far_ollama_key"))["model_list"]
    assert route["litellm_params"]["api_key"] == "os.environ/FAR_OLLAMA_KEY"


def test_an_embedding_model_is_marked() -> None:
    modes = {
        r["model_name"]: r["model_info"]["mode"] for r in litellm_config(house())["model_list"]
    }
    assert modes["nomic-embed-text"] == "embedding"
    assert modes["qwen3-vl"] == "chat"


def test_speech_bypasses_litellm() -> None:
    names = gateway_files(house())["aliases.json"]
    there = {"url": house().services["whisper"].url, "id": "small", "key": None}
    assert names["transcribe"]["servers"]["small"] == there
    assert names["small"]["servers"] == {"small": there}
    assert "small" not in routes()
    assert not any("servers" in names[name] for name in ("fast", "embed", "qwen3-vl"))
    # A model without an alias is not on the disk, so it cannot be requested.
    assert "large-v3" not in names


def test_an_external_stt_server_gets_its_key() -> None:
    made = with_key("small", "far_whisper_key")
    servers = gateway_files(made)["aliases.json"]["transcribe"]["servers"]
    assert servers["small"]["key"] == "FAR_WHISPER_KEY"


def test_litellm_never_retries_and_checks_the_names_of_a_key() -> None:
    config = litellm_config(house())
    assert config["router_settings"]["num_retries"] == 0
    assert config["general_settings"]["custom_auth_run_common_checks"] is True
    assert config["litellm_settings"]["enable_post_custom_auth_checks"] is True
    assert config["litellm_settings"]["request_timeout"] > 600


def test_names_are_aliases_and_models_with_their_deadlines() -> None:
    names = gateway_files(house())["aliases.json"]
    assert names["fast"]["members"] == ["qwen3.5:4b", "qwen2.5-coder:1.5b"]
    assert names["reasoning"]["members"] == ["qwen3.5"]
    # A model waits as long as the most patient alias it serves: coder, not fast.
    assert names["qwen2.5-coder:1.5b"]["members"] == ["qwen2.5-coder:1.5b"]
    assert names["qwen2.5-coder:1.5b"]["timeout_s"] == names["coder"]["timeout_s"] == 600


def test_names_have_a_title_a_description_and_capabilities() -> None:
    names = gateway_files(house(CLOUD))["aliases.json"]
    fields = ("title", "summary", "alias", "talks", "leaves")
    assert [names["fast"].get(key) for key in fields] == [
        *("Fast", "Short, quick answers.", True, True, False)
    ]
    assert [names["qwen3-vl"].get(key) for key in fields] == [
        *("qwen3-vl", "Looks at pictures.", None, True, False)
    ]
    able = ("capabilities", "always_thinks", "context")
    assert [names["qwen3-vl"][key] for key in able] == [
        *(["tools", "thinking", "vision"], True, 8192)
    ]
    assert names["nemotron-120b"]["context"] is None  # the provider checks it
    assert [names[key]["thinking"] for key in ("fast", "reasoning", "local")] == [
        *("off", "medium", "auto")
    ]
    # Where one member is in the cloud, words may leave the house.
    assert names["reasoning"]["leaves"]
    assert not gateway_files(house())["aliases.json"]["reasoning"]["leaves"]
    silent = {name for name, record in names.items() if not record["talks"]}
    hears = {"large-v3-turbo", "small", "base", "tiny"}
    assert silent == {"embed", "nomic-embed-text", "transcribe", *hears}


def test_an_alias_without_usable_members_is_not_offered() -> None:
    made = house()
    fast = replace(made.aliases["fast"], members=(), offered=False)
    made = replace(made, aliases={**made.aliases, "fast": fast})
    assert "fast" not in gateway_files(made)["aliases.json"]


def test_consumers_are_those_who_may_call_models() -> None:
    made = house()
    speaker = Consumer(name="speaker", summary="", services=("kokoro",), secret="consumer_speaker")
    made = replace(made, consumers={**made.consumers, "speaker": speaker})
    consumers = gateway_files(made)["consumers.json"]
    assert consumers["guest"] == {"models": ["fast"]}
    assert consumers["household"] == {"models": "all"}
    assert "speaker" not in consumers


def test_a_house_without_any_usable_model_still_has_a_configuration() -> None:
    empty = replace(house(), models={}, aliases={})
    assert litellm_config(empty)["model_list"] == []
    assert gateway_files(empty)["aliases.json"] == {}


@pytest.mark.parametrize("secrets", [frozenset[str](), CLOUD])
def test_every_member_of_every_name_has_a_route(secrets: frozenset[str]) -> None:
    names = gateway_files(house(secrets))["aliases.json"]
    requested = {member for name in names.values() for member in name["members"]}
    heard = {server for name in names.values() for server in name.get("servers", ())}
    assert requested - heard <= set(routes(secrets))
    assert heard == {"large-v3-turbo", "small", "base", "tiny"}


def test_ollama_loads_all_its_models_with_the_largest_context() -> None:
    made = house()
    assert context_tokens(made, "ollama") == 8192
    longer = replace(made.models["llama3.1"], context=32768)
    made = replace(made, models={**made.models, "llama3.1": longer})
    assert context_tokens(made, "ollama") == 32768
    assert gateway_files(made)["aliases.json"]["qwen3.5"]["context"] == 8192
