"""What Open WebUI is told, made out of the house: its variables, and which secrets they bear."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hearth.catalogue.words import suggest

House = Mapping[str, Any]
Service = Mapping[str, Any]

# All that the locked Open WebUI reads, by `hearth_open_webui.upstream`.
NAMES = Path(__file__).resolve().parents[1] / "services/open_webui/hearth_open_webui/names.txt"

# What the house is and what it promises; no setting may say otherwise.
FIXED: Mapping[str, str] = {
    "ENV": "prod",
    # Without it Open WebUI looks for its page where a checkout has it.
    "FROM_INIT_PY": "true",
    # What is changed in the admin pages is gone after a restart: the inventory decides.
    "ENABLE_PERSISTENT_CONFIG": "False",
    "ENABLE_OAUTH_PERSISTENT_CONFIG": "False",
    "ENABLE_OLLAMA_API": "False",
    "WEBUI_AUTH": "True",
    "WEBUI_SESSION_COOKIE_SECURE": "True",
    "WEBUI_AUTH_COOKIE_SECURE": "True",
    # Paths and searches say what people do; the level of its own log is the role's variable.
    "AUDIT_UVICORN_LOGGER_NAMES": "hearth.none",
    "AUDIT_LOG_LEVEL": "NONE",
    # There is no ffmpeg here, and our services take sound in any format.
    "BYPASS_PYDUB_PREPROCESSING": "True",
}

# How a family finds it; `open_webui_settings` changes any of these.
DEFAULTS: Mapping[str, str] = {
    # The admin adds accounts; whoever has one sees every model of the house.
    "ENABLE_SIGNUP": "False",
    "ENABLE_OAUTH": "False",
    "BYPASS_MODEL_ACCESS_CONTROL": "True",
    "ENABLE_PASSWORD_VALIDATION": "True",
    "PASSWORD_VALIDATION_REGEX_PATTERN": "^.{10,}$",
    "PASSWORD_VALIDATION_HINT": "A password has ten characters or more.",
    # Whoever keeps the accounts does not read along.
    "ENABLE_ADMIN_CHAT_ACCESS": "False",
    "ENABLE_ADMIN_EXPORT": "False",
    # Programs of one's own belong into Pipelines, which has no chats and no accounts.
    "ENABLE_PLUGINS": "False",
    "ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS": "False",
    "ENABLE_CODE_EXECUTION": "False",
    "ENABLE_CODE_INTERPRETER": "False",
    "USER_PERMISSIONS_FEATURES_CODE_INTERPRETER": "False",
    "ENABLE_DIRECT_CONNECTIONS": "False",
    "ENABLE_DIRECT_INTEGRATIONS": "False",
    # Nothing is asked of the internet, and nothing is sent there.
    "OFFLINE_MODE": "True",
    "HF_HUB_OFFLINE": "1",
    "ENABLE_VERSION_UPDATE_CHECK": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "ENABLE_COMMUNITY_SHARING": "False",
    "ENABLE_WEB_SEARCH": "False",
    "USER_PERMISSIONS_CHAT_WEB_UPLOAD": "False",
    "ENABLE_PROFILE_IMAGE_URL_FORWARDING": "False",
    "ENABLE_IMAGE_GENERATION": "False",
    "USER_PERMISSIONS_FEATURES_IMAGE_GENERATION": "False",
    # What a house for a few people does without.
    "ENABLE_EVALUATION_ARENA_MODELS": "False",
    "ENABLE_CHANNELS": "False",
    "ENABLE_AUTOMATIONS": "False",
    "ENABLE_CALENDAR": "False",
    "ENABLE_API_KEYS": "False",
    "ENABLE_MESSAGE_RATING": "False",
    "ENABLE_EASTER_EGGS": "False",
    # Tools of its own would be twenty kilobytes before every question.
    "DEFAULT_MODEL_METADATA": '{"capabilities": {"builtin_tools": false}}',
    # A tenth less to compute for each answer; the way to the front door is one wire.
    "ENABLE_COMPRESSION_MIDDLEWARE": "False",
    "ENABLE_CHAT_RESPONSE_STREAM_INPLACE_APPEND": "True",
    # Each is a question more to a model, before the answer or beside it, and models answer one
    # after the other: a chat is called by its first words instead.
    "ENABLE_TITLE_GENERATION": "False",
    "ENABLE_TAGS_GENERATION": "False",
    "ENABLE_FOLLOW_UP_GENERATION": "False",
    "ENABLE_AUTOCOMPLETE_GENERATION": "False",
    "ENABLE_RETRIEVAL_QUERY_GENERATION": "False",
    # A service that is gone shall not hold the list of all models for long.
    "AIOHTTP_CLIENT_TIMEOUT_MODEL_LIST": "3",
    "DEFAULT_INTERFACE_SETTINGS": '{"showChangelog": false, "showUpdateToast": false}',
    "VECTOR_DB": "chroma",
    "RAG_TOP_K": "5",
    # One request for many parts of a document.
    "RAG_EMBEDDING_BATCH_SIZE": "32",
    "RAG_EMBEDDING_CONCURRENT_REQUESTS": "2",
    # A sentence is spoken as soon as it is there.
    "AUDIO_TTS_SPLIT_ON": "punctuation",
}


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
    gateway = next(record for record in house["services"].values() if record["routes_models"])
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
    given = options["settings"]
    more = {name: [secret] for name, secret in options["secrets"].items()}
    _check(service, {"open_webui_settings": given, "open_webui_secrets": more}, fixed | secrets)
    environment = {
        **DEFAULTS,
        **_models(house),
        **_documents(service, gateway),
        **_voice(house, service, gateway),
        **{name: _text(value) for name, value in given.items()},
        **fixed,
    }
    for name in more:
        environment.pop(name, None)
    return {"environment": environment, "secrets": secrets | more}


def _check(
    service: Service, asked: Mapping[str, Mapping[str, Any]], ours: Mapping[str, Any]
) -> None:
    known = frozenset(NAMES.read_text(encoding="utf-8").split())
    for where, names in asked.items():
        for name in names:
            if name not in known:
                raise ChatConfigError(f"{where}: {name} is no setting; {suggest(name, known)}")
            if name in ours:
                raise ChatConfigError(f"{where}: {name} is the house's own; leave it out")
    for name, (secret,) in asked["open_webui_secrets"].items():
        if secret not in service["secrets"]:
            raise ChatConfigError(
                f"open_webui_secrets: {name}: {secret} is no secret of {service['name']}; write "
                f"secrets: {{{secret}: given}} into its record"
            )


def _needed(house: House, service: Service, role: str) -> Service | None:
    found = (house["services"][name] for name in service["needs"])
    return next((record for record in found if record["role"] == role), None)


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
    if not house["aliases"].get("fast", {}).get("offered"):
        return {}
    return {"DEFAULT_MODELS": "fast", "TASK_MODEL_EXTERNAL": "fast"}


def _documents(service: Service, gateway: Service) -> dict[str, str]:
    settings = {
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_EMBEDDING_MODEL": "embed",
        "RAG_OPENAI_API_BASE_URL": f"{gateway['url']}/v1",
    }
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
    if speaker := _needed(house, service, "kokoro"):
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
