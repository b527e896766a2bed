"""What LiteLLM's gateway reads, made out of the house: its routes, and who may call which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A model that is called by its own name and stands in no alias.
FIRST_TOKEN_TIMEOUT_S, TIMEOUT_S = 60.0, 300.0
# The kinds of model that answer in words.
TALKS = frozenset({"chat", "vision"})


def litellm_config(house: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structure of LiteLLM's `config.yaml` for `House.as_vars()`."""
    longest_s = max((record["timeout_s"] for record in _names(house).values()), default=TIMEOUT_S)
    return {
        "model_list": [
            _route(name, model) for name, model in _usable(house).items() if not _hears(model)
        ],
        "router_settings": {
            # LiteLLM knows models only. Which member of an alias is asked, and who is next, is our
            # front's work: it sees when the first token came.
            "num_retries": 0,
            "disable_cooldowns": True,
        },
        "litellm_settings": {
            "num_retries": 0,
            # A parameter that a member does not know is no reason to refuse the request.
            "drop_params": True,
            "telemetry": False,
            "callbacks": ["hearth_gateway.hooks.whole_streams"],
            "turn_off_message_logging": True,
            "redact_user_api_key_info": True,
            # For some models LiteLLM would fetch a tokenizer from the internet to count tokens.
            "disable_hf_tokenizer_download": True,
            # Without this one, or without custom_auth_run_common_checks below, LiteLLM lets every
            # key use every model, whatever custom_auth said.
            "enable_post_custom_auth_checks": True,
            # Only a net below ours: the front ends every request by its own name's timeout_s.
            "request_timeout": longest_s + 10,
        },
        "general_settings": {
            "custom_auth": "hearth_gateway.custom_auth.user_api_key_auth",
            "custom_auth_run_common_checks": True,
            "disable_spend_logs": True,
            "disable_error_logs": True,
        },
    }


def gateway_files(house: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `aliases.json` and `consumers.json`, the gateway's own files beside `config.yaml`.

    `aliases.json` holds all that may stand in `model`: the aliases and each model by its own name,
    with the words that people are shown.
    Names that turn speech into text have `servers`, too: LiteLLM would hold a whole recording in
    memory and wrap subtitles in JSON, so the gateway itself passes these requests on.
    """
    routers = {name for name, service in house["services"].items() if "models" in service["offers"]}
    return {
        "aliases.json": _names(house),
        "consumers.json": {
            name: {"models": record["models"]}
            for name, record in house["consumers"].items()
            if routers & set(record["services"])
        },
    }


def secret_variable(secret: str) -> str:
    """Return the variable under which the gateway shows LiteLLM the secret of this name."""
    return secret.upper()


def _usable(house: Mapping[str, Any]) -> dict[str, Any]:
    """A cloud model is usable only with its key and an alias that allows the cloud."""
    return {name: model for name, model in house["models"].items() if model["usable"]}


def _offered(house: Mapping[str, Any]) -> dict[str, Any]:
    return {name: alias for name, alias in house["aliases"].items() if alias["offered"]}


def _hears(model: Mapping[str, Any]) -> bool:
    return bool(model["kind"] == "transcribe")


def _route(name: str, model: Mapping[str, Any]) -> dict[str, Any]:
    # Ollama's OpenAI routes stream, call tools, see pictures and embed without a translation
    # that could lose a field; LiteLLM's own `ollama_chat` also asks /api/show, which is closed.
    provider = "openai" if model["local"] else model["litellm"]
    params: dict[str, Any] = {"model": f"{provider}/{model['id']}", "max_retries": 0}
    if model["url"]:
        params["api_base"] = f"{model['url']}/v1"
    if model["secret"]:
        params["api_key"] = f"os.environ/{secret_variable(model['secret'])}"
    elif model["local"]:
        params["api_key"] = "none"  # the wire is the authentication, but the client wants a word
    mode = "embedding" if model["kind"] == "embed" else "chat"
    return {"model_name": name, "litellm_params": params, "model_info": {"mode": mode}}


def _names(house: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Everything that may stand in `model`; a model waits as long as its most patient alias."""
    aliases = _offered(house)
    names: dict[str, dict[str, Any]] = {}
    for name in _usable(house):
        within = [alias for alias in aliases.values() if name in alias["members"]]
        names[name] = {
            "members": [name],
            "first_token_timeout_s": max(
                (alias["first_token_timeout_s"] for alias in within), default=FIRST_TOKEN_TIMEOUT_S
            ),
            "timeout_s": max((alias["timeout_s"] for alias in within), default=TIMEOUT_S),
            "title": name,
            "summary": house["models"][name]["summary"],
        }
    for name, alias in aliases.items():
        names[name] = {
            key: alias[key] for key in ("members", "first_token_timeout_s", "timeout_s", "summary")
        }
        names[name] |= {"title": _title(name), "alias": True}
    for record in names.values():
        record |= _abilities([house["models"][member] for member in record["members"]])
        if servers := _servers(house, record["members"]):
            record["servers"] = servers
    return names


def _title(alias: str) -> str:
    """Return an alias as people would write it; a model's own name is left as its makers do."""
    return alias.replace("_", " ").replace("-", " ").capitalize()


def _abilities(members: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Say whether one can talk with it, which members see pictures, and whether words may leave."""
    return {
        "talks": all(member["kind"] in TALKS for member in members),
        "sees": [member["name"] for member in members if member["kind"] == "vision"],
        "leaves": not all(member["local"] for member in members),
    }


def _servers(house: Mapping[str, Any], members: list[str]) -> dict[str, dict[str, Any]]:
    """Return where the gateway itself asks, and with which secret's variable."""
    return {
        name: {
            "url": model["url"],
            "id": model["id"],
            "key": secret_variable(model["secret"]) if model["secret"] else None,
        }
        for name in members
        if _hears(model := house["models"][name])
    }
