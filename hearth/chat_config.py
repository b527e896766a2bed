"""What Open WebUI is told, made out of the house: its variables, and which secrets they bear."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

House = Mapping[str, Any]
Service = Mapping[str, Any]

# The house's answers to settings that follow from what it is, and that nobody should change.
FIXED: Mapping[str, str] = {
    "ENV": "prod",
    # Without it Open WebUI looks for its page where a checkout has it.
    "FROM_INIT_PY": "true",
    # What was changed in the admin pages is forgotten: the inventory decides.
    "ENABLE_PERSISTENT_CONFIG": "False",
    "ENABLE_OAUTH_PERSISTENT_CONFIG": "False",
    # Nothing is asked of the internet.
    "OFFLINE_MODE": "True",
    "HF_HUB_OFFLINE": "1",
    "ENABLE_VERSION_UPDATE_CHECK": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "True",
    "SCARF_NO_ANALYTICS": "True",
    # Our services hear sound in any format; there is no ffmpeg here.
    "BYPASS_PYDUB_PREPROCESSING": "True",
}


def chat_settings(
    house: House, service: Service, options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return `settings.json`: `environment`, and `secrets` as names of credentials.

    `options` are the role's variables without their prefix.
    """
    gateway = next(record for record in house["services"].values() if record["routes_models"])
    connections = [(f"{gateway['url']}/v1", "gateway_key")]
    if pipelines := _needed(house, service, "pipelines"):
        connections.append((pipelines["url"], "pipelines_key"))
    environment = {
        **FIXED,
        **_place(service, options),
        **_models(connections),
        **_documents(gateway),
        **_voice(house, service, gateway),
        **{name: _text(value) for name, value in options["settings"].items()},
    }
    return {
        "environment": environment,
        "secrets": {
            "OPENAI_API_KEYS": [name for _, name in connections],
            "RAG_OPENAI_API_KEY": ["gateway_key"],
            "AUDIO_STT_OPENAI_API_KEY": ["gateway_key"],
            "WEBUI_SECRET_KEY": ["open_webui_secret_key"],
            "WEBUI_ADMIN_PASSWORD": ["open_webui_admin_password"],
        },
    }


def _needed(house: House, service: Service, role: str) -> Service | None:
    found = (house["services"][name] for name in service["needs"])
    return next((record for record in found if record["role"] == role), None)


def _place(service: Service, options: Mapping[str, Any]) -> dict[str, str]:
    origin = f"https://{service['publish'][0]['fqdn']}"
    folder = service["volumes"][0]["path"]
    return {
        "DATA_DIR": folder,
        "STATIC_DIR": f"/run/{service['instance']}/static",
        "WEBUI_URL": origin,
        # Whose pages may open a socket.
        "CORS_ALLOW_ORIGIN": origin,
        "WEBUI_SESSION_COOKIE_SECURE": "True",
        "WEBUI_AUTH_COOKIE_SECURE": "True",
        "WEBUI_ADMIN_EMAIL": options["admin_email"],
        "WEBUI_ADMIN_NAME": options["admin_name"],
    }


def _models(connections: list[tuple[str, str]]) -> dict[str, str]:
    return {
        "ENABLE_OLLAMA_API": "False",
        "OPENAI_API_BASE_URLS": ";".join(url for url, _ in connections),
        # Who has an account may ask every model of the house.
        "BYPASS_MODEL_ACCESS_CONTROL": "True",
    }


def _documents(gateway: Service) -> dict[str, str]:
    return {
        "VECTOR_DB": "chroma",
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_EMBEDDING_MODEL": "embed",
        "RAG_OPENAI_API_BASE_URL": f"{gateway['url']}/v1",
    }


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
            "AUDIO_TTS_OPENAI_API_BASE_URL": f"{speaker['url']}/v1",
            # The wire is the authentication; Open WebUI only wants a word.
            "AUDIO_TTS_OPENAI_API_KEY": "none",
            "AUDIO_TTS_SPLIT_ON": "punctuation",
            "AUDIO_TTS_VOICE": "af_heart",
        }
    return settings


def _text(value: Any) -> str:
    """Write a value of YAML as the text that an environment can bear."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
