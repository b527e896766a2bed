"""LiteLLM's configuration: routes to models, and which consumer may call which model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hearth.catalogue.house import House, Model

# For a model that no alias has as a member.
FIRST_TOKEN_TIMEOUT_S, TIMEOUT_S = 60.0, 300.0


def litellm_config(house: House) -> dict[str, Any]:
    """Return the structure of LiteLLM's `config.yaml`."""
    longest_s = max((record["timeout_s"] for record in _names(house).values()), default=TIMEOUT_S)
    return {
        "model_list": [
            _route(model)
            for model in house.models.values()
            if model.usable and model.kind != "transcribe"
        ],
        "router_settings": {
            # LiteLLM routes models only. Our middleware chooses the member of an alias, because it
            # sees when the first token arrives.
            "num_retries": 0,
            "disable_cooldowns": True,
        },
        "litellm_settings": {
            "num_retries": 0,
            # A parameter that a member does not know must not fail the request.
            "drop_params": True,
            "telemetry": False,
            # With Ollama's interface for responses, nobody could see whether an answer ended.
            "use_chat_completions_url_for_anthropic_messages": True,
            "callbacks": ["hearth_gateway.hooks.whole_streams"],
            "turn_off_message_logging": True,
            "redact_user_api_key_info": True,
            # To count tokens of some models, LiteLLM would download a tokenizer.
            "disable_hf_tokenizer_download": True,
            # Without this and custom_auth_run_common_checks, every key could use every model,
            # whatever custom_auth returns.
            "enable_post_custom_auth_checks": True,
            # Only a safety net: the middleware ends every request after its alias's timeout_s.
            "request_timeout": longest_s + 10,
        },
        "general_settings": {
            "custom_auth": "hearth_gateway.custom_auth.user_api_key_auth",
            "custom_auth_run_common_checks": True,
            "disable_spend_logs": True,
            "disable_error_logs": True,
        },
    }


def gateway_files(
    house: House, budget: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, dict[str, Any]]:
    """Return `aliases.json` and `consumers.json`, the gateway's own files beside `config.yaml`.

    `aliases.json` holds every valid value of `model`: the aliases, and each model by its own name,
    with the texts that people see. Names that transcribe have `servers` as well: the gateway
    forwards these requests itself, because LiteLLM would hold a whole recording in memory and wrap
    subtitles in JSON. With a `budget` (hearth/plan/runtime.py), models have their `memory`.
    """
    routers = {service.name for service in house.offering("models")}
    return {
        "aliases.json": _with_memory(house, _names(house), budget),
        "consumers.json": {
            name: {"models": "all" if consumer.models == "all" else list(consumer.models)}
            for name, consumer in house.consumers.items()
            if routers & set(consumer.services)
        },
    }


def secret_variable(secret: str) -> str:
    """Return the variable in which the gateway gives LiteLLM the secret of this name."""
    return secret.upper()


def _route(model: Model) -> dict[str, Any]:
    # Ollama's OpenAI routes stream, call tools, see pictures and embed without a translation
    # that could lose a field; LiteLLM's own `ollama_chat` also calls /api/show, which is closed.
    provider = "openai" if model.local else model.litellm
    params: dict[str, Any] = {"model": f"{provider}/{model.id}", "max_retries": 0}
    if model.url:
        params["api_base"] = f"{model.url}/v1"
    if model.secret:
        params["api_key"] = f"os.environ/{secret_variable(model.secret)}"
    elif model.local:
        params["api_key"] = "none"  # the link is the authentication; the client requires a value
    info: dict[str, Any] = {"mode": "embedding" if model.kind == "embed" else "chat"}
    if "thinking" in model.capabilities:
        info["supports_reasoning"] = True  # without it, LiteLLM drops `reasoning`
    return {"model_name": model.name, "litellm_params": params, "model_info": info}


def _names(house: House) -> dict[str, dict[str, Any]]:
    """Return every valid value of `model`; a model has the longest deadlines of its aliases."""
    aliases = [alias for alias in house.aliases.values() if alias.offered]
    names: dict[str, dict[str, Any]] = {}
    for model in house.models.values():
        if model.usable:
            within = [alias for alias in aliases if model.name in alias.members]
            first_s = [alias.first_token_timeout_s for alias in within] or [FIRST_TOKEN_TIMEOUT_S]
            all_s = [alias.timeout_s for alias in within] or [TIMEOUT_S]
            names[model.name] = {
                **_name([model], model.summary),
                "title": model.name,
                "id": model.id,
                "capabilities": list(model.capabilities),
                "always_thinks": model.always_thinks,
                "context": model.context,
                "first_token_timeout_s": max(first_s),
                "timeout_s": max(all_s),
            }
    for alias in aliases:
        names[alias.name] = {
            **_name([house.models[member] for member in alias.members], alias.summary),
            # As people would write it.
            "title": alias.name.replace("_", " ").replace("-", " ").capitalize(),
            "first_token_timeout_s": alias.first_token_timeout_s,
            "timeout_s": alias.timeout_s,
            "alias": True,
            "thinking": alias.thinking,
        }
    return names


def _with_memory(
    house: House, names: dict[str, dict[str, Any]], budget: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the names, of which models with a budget have it; the gateway asks their server."""
    for name, one in (budget.get("models") or {}).items():
        if name in names:
            names[name]["memory"] = {
                "url": house.models[name].url,
                "needed_bytes": one["needed_bytes"],
                "room_bytes": budget["room_bytes"],
                "refused": one["refused"],
                "on_card": budget.get("on_card", False),
            }
    return names


def _name(members: Sequence[Model], summary: str) -> dict[str, Any]:
    """Return a name's members and whether it can chat and leaves the house."""
    servers = {
        model.name: {
            "url": model.url,
            "id": model.id,
            "key": secret_variable(model.secret) if model.secret else None,
        }
        for model in members
        if model.kind == "transcribe"
    }
    return {
        "members": [model.name for model in members],
        "summary": summary,
        "talks": all(model.kind == "chat" for model in members),
        "leaves": not all(model.local for model in members),
        # The gateway calls these itself.
        **({"servers": servers} if servers else {}),
    }
