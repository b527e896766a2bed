"""What Open WebUI is told, made out of the house: its variables, and which secrets they bear."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hearth.catalogue.naming import suggest
from hearth.render.chat_ui_defaults import DEFAULTS, FIXED

House = Mapping[str, Any]
Service = Mapping[str, Any]

# All that the locked Open WebUI reads, by `hearth_open_webui.upstream`.
NAMES = Path(__file__).resolve().parents[2] / "services/open_webui/hearth_open_webui/names.txt"
# A value that a stranger shall not read; a file of settings is no place for it.
_SECRET = re.compile(r"_(KEY|PASSWORD|SECRET|TOKEN|CREDENTIALS|CREDENTIALS_JSON)$")
# Engines that a house can have itself, without a way out of it.
_AT_HOME = frozenset({"searxng", "yacy", "external"})


class ChatConfigError(ValueError):
    """One line for a person: which setting cannot be, and what to write instead."""


def chat_settings(
    house: House, service: Service, options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return its file of settings: `environment`, and `secrets` as names of credentials.

    `options` are the role's variables without their prefix.

    Raises:
        ChatConfigError: A setting that Open WebUI does not read, or that is not theirs to change.
    """
    gateway = next(r for r in house["services"].values() if "models" in r["offers"])
    connections = [(f"{gateway['url']}/v1", "gateway_key")]
    if pipelines := _needed(house, service, "pipelines"):
        connections.append((pipelines["url"], "pipelines_key"))
    fixed = {**FIXED, **_place(service, options), **_connections(connections)}
    secrets = {
        "OPENAI_API_KEYS": [name for _, name in connections],
        "RAG_OPENAI_API_KEY": ["gateway_key"],
        "AUDIO_STT_OPENAI_API_KEY": ["gateway_key"],
        "WEBUI_SECRET_KEY": ["open_webui_secret_key"],
        "WEBUI_ADMIN_PASSWORD": ["open_webui_admin_password"],
    }
    given, more = (_mapping(options, key) for key in ("settings", "secrets"))
    ours = fixed.keys() | secrets
    _check_settings(given, ours)
    _check_secrets(service, more, ours)
    environment = {
        **DEFAULTS,
        **_models(house),
        **_documents(house, service, gateway),
        **_voice(house, service, gateway),
        **{name: _text(value) for name, value in given.items()},
        **fixed,
    }
    for name in more:
        environment.pop(name, None)
    _check_search(service, environment)
    return {
        "environment": environment,
        "secrets": secrets | {name: [secret] for name, secret in more.items()},
    }


def _mapping(options: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    # A key with nothing behind it is how YAML writes none.
    value = options[key] or {}
    if not isinstance(value, Mapping):
        raise ChatConfigError(f"open_webui_{key}: is no mapping; write {{NAME: value}}")
    return value


def _check_settings(given: Mapping[str, Any], ours: Collection[str]) -> None:
    for name, value in given.items():
        _check_name("open_webui_settings", name, ours)
        if value is None:
            raise ChatConfigError(f"open_webui_settings: {name} has no value; write one, e.g. ''")
        if _SECRET.search(name):
            raise ChatConfigError(
                f"open_webui_settings: {name} is a secret; write it into open_webui_secrets, with "
                "the name of a secret of the record"
            )


def _check_secrets(service: Service, more: Mapping[str, Any], ours: Collection[str]) -> None:
    for name, secret in more.items():
        _check_name("open_webui_secrets", name, ours)
        if not isinstance(secret, str):
            raise ChatConfigError(f"open_webui_secrets: {name} is no name of a secret; write one")
        if secret not in service["secrets"]:
            raise ChatConfigError(
                f"open_webui_secrets: {name}: {secret} is no secret of {service['name']}; write "
                f"secrets: {{{secret}: given}} into its record"
            )


def _check_name(where: str, name: str, ours: Collection[str]) -> None:
    known = frozenset(NAMES.read_text(encoding="utf-8").split())
    if name not in known:
        near = suggest(str(name), known)
        # All of them are nearly a thousand.
        help_ = near if near.startswith("did") else "docs/chat.md says where they are listed"
        raise ChatConfigError(f"{where}: {name} is no setting; {help_}")
    if name in ours:
        raise ChatConfigError(f"{where}: {name} is the house's own; leave it out")


def _check_search(service: Service, environment: Mapping[str, str]) -> None:
    if environment["ENABLE_WEB_SEARCH"].lower() != "true":
        return
    engine = environment.get("WEB_SEARCH_ENGINE")
    if not engine:
        raise ChatConfigError(
            "open_webui_settings: ENABLE_WEB_SEARCH asks nobody; write WEB_SEARCH_ENGINE, too"
        )
    if engine not in _AT_HOME and not service["egress"]:
        raise ChatConfigError(
            f"open_webui_settings: WEB_SEARCH_ENGINE {engine} has no way out of the house; write "
            f"its server into egress of {service['name']}'s record"
        )


def _needed(house: House, service: Service, offer: str) -> Service | None:
    found = (house["services"][name] for name in service["needs"])
    return next((record for record in found if offer in record["offers"]), None)


def _connections(connections: list[tuple[str, str]]) -> dict[str, str]:
    # The gateway, which is the first, then says above an answer which model gave it.
    headers = {"0": {"headers": {"X-Hearth-Status": "open-webui"}}}
    return {
        "OPENAI_API_BASE_URLS": ";".join(url for url, _ in connections),
        "OPENAI_API_CONFIGS": json.dumps(headers),
    }


def _place(service: Service, options: Mapping[str, Any]) -> dict[str, str]:
    site, folder = service["publish"][0], service["volumes"][0]["path"]
    origin = f"https://{site['fqdn']}"
    return {
        "DATA_DIR": folder,
        "DATABASE_URL": f"sqlite:///{folder}/webui.db",
        # Made anew at each start.
        "STATIC_DIR": f"/run/{service['instance']}/static",
        "WEBUI_URL": origin,
        # Whose pages may open a socket.
        "CORS_ALLOW_ORIGIN": origin,
        "WEBUI_ADMIN_EMAIL": options["admin_email"],
        "WEBUI_ADMIN_NAME": options["admin_name"],
        "GLOBAL_LOG_LEVEL": options["log_level"],
    }


def _models(house: House) -> dict[str, str]:
    """Say which model a new chat begins with, and which one writes the titles."""
    if not _offered(house, "fast"):
        return {}
    return {"DEFAULT_MODELS": "fast", "TASK_MODEL_EXTERNAL": "fast"}


def _offered(house: House, alias: str) -> bool:
    return bool(house["aliases"].get(alias, {}).get("offered"))


def _documents(house: House, service: Service, gateway: Service) -> dict[str, str]:
    settings = {
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_EMBEDDING_MODEL": "embed",
        "RAG_OPENAI_API_BASE_URL": f"{gateway['url']}/v1",
    }
    if not _offered(house, "embed"):
        # Nothing finds the parts again: a document is given to the model whole.
        settings["BYPASS_EMBEDDING_AND_RETRIEVAL"] = "True"
    # What the front door would refuse, the page refuses sooner and in its own words.
    if size := service["publish"][0]["uploads_bytes"]:
        settings["RAG_FILE_MAX_SIZE"] = str(size // 2**20)
    return settings


def _voice(house: House, service: Service, gateway: Service) -> dict[str, str]:
    settings = {
        "AUDIO_STT_ENGINE": "openai",
        "AUDIO_STT_MODEL": "transcribe",
        "AUDIO_STT_OPENAI_API_BASE_URL": f"{gateway['url']}/v1",
    }
    if not _offered(house, "transcribe"):
        # Nobody listens: there is no microphone in the field, and no call.
        settings |= {"USER_PERMISSIONS_CHAT_STT": "False", "USER_PERMISSIONS_CHAT_CALL": "False"}
    if speaker := _needed(house, service, "speech"):
        settings |= {
            "AUDIO_TTS_ENGINE": "openai",
            "AUDIO_TTS_MODEL": "kokoro",
            "AUDIO_TTS_VOICE": "af_heart",
            "AUDIO_TTS_OPENAI_API_BASE_URL": f"{speaker['url']}/v1",
            # The wire is the authentication; Open WebUI only wants a word.
            "AUDIO_TTS_OPENAI_API_KEY": "none",
        }
    return settings


def _text(value: Any) -> str:
    """Write a value of YAML as the text that an environment can bear."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
