"""LiteLLM's configuration: routes to models, and which consumer may call which model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hearth.catalogue.house import House, Model

# For a model that no alias has as a member.
FIRST_TOKEN_TIMEOUT_S, TIMEOUT_S = 60.0, 300.0
# The kinds of model that answer with text.
TALKS = frozenset({"chat", "vision"})


def litellm_config(house: House) -> dict[str, Any]:
    """Return the structure of LiteLLM's `config.yaml`."""
    longest_s = max((record["timeout_s"] for record in _names(house).values()), default=TIMEOUT_S)
    return {
        "model_list": [_route(m) for m in house.models.values() if m.usable and not _hears(m)],
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


def gateway_files(house: House) -> dict[str, dict[str, Any]]:
    """Return `aliases.json` and `consumers.json`, the gateway's own files beside `config.yaml`.

    `aliases.json` holds every valid value of `model`: the aliases, and each model by its own name,
    with the texts that people see. Names that transcribe have `servers` as well: the gateway
    forwards these requests itself, because LiteLLM would hold a whole recording in memory and wrap
    subtitles in JSON.
    """
    routers = {name for name, service in house.services.items() if "models" in service.offers}
    return {
        "aliases.json": _names(house),
        "consumers.json": {
            name: {"models": _plain(consumer.models)}
            for name, consumer in house.consumers.items()
            if routers & set(consumer.services)
        },
    }


def secret_variable(secret: str) -> str:
    """Return the variable in which the gateway gives LiteLLM the secret of this name."""
    return secret.upper()


def _plain(models: str | tuple[str, ...]) -> str | list[str]:
    return models if isinstance(models, str) else list(models)


def _hears(model: Model) -> bool:
    return model.kind == "transcribe"


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
    mode = "embedding" if model.kind == "embed" else "chat"
    return {"model_name": model.name, "litellm_params": params, "model_info": {"mode": mode}}


def _names(house: House) -> dict[str, dict[str, Any]]:
    """Return every valid value of `model`; a model has the longest deadlines of its aliases."""
    aliases = [alias for alias in house.aliases.values() if alias.offered]
    names: dict[str, dict[str, Any]] = {}
    for model in house.models.values():
        if not model.usable:
            continue
        within = [alias for alias in aliases if model.name in alias.members]
        names[model.name] = {
            "members": [model.name],
            "first_token_timeout_s": max(
                (alias.first_token_timeout_s for alias in within), default=FIRST_TOKEN_TIMEOUT_S
            ),
            "timeout_s": max((alias.timeout_s for alias in within), default=TIMEOUT_S),
            "title": model.name,
            "summary": model.summary,
        }
    for alias in aliases:
        names[alias.name] = {
            "members": list(alias.members),
            "first_token_timeout_s": alias.first_token_timeout_s,
            "timeout_s": alias.timeout_s,
            "summary": alias.summary,
            "title": _title(alias.name),
            "alias": True,
        }
    for record in names.values():
        members = [house.models[member] for member in record["members"]]
        record |= _abilities(members)
        if servers := _servers(members):
            record["servers"] = servers
    return names


def _title(alias: str) -> str:
    """Return an alias as people would write it; a model keeps its own name."""
    return alias.replace("_", " ").replace("-", " ").capitalize()


def _abilities(members: Iterable[Model]) -> dict[str, Any]:
    """Return whether it can chat, which members see pictures, and whether text may leave."""
    return {
        "talks": all(member.kind in TALKS for member in members),
        "sees": [member.name for member in members if member.kind == "vision"],
        "leaves": not all(member.local for member in members),
    }


def _servers(members: Iterable[Model]) -> dict[str, dict[str, Any]]:
    """Return the servers that the gateway calls itself, each with its secret's variable."""
    return {
        model.name: {
            "url": model.url,
            "id": model.id,
            "key": secret_variable(model.secret) if model.secret else None,
        }
        for model in members
        if _hears(model)
    }
