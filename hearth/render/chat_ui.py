"""Open WebUI's settings: its environment variables, and which secrets become variables."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from hearth.catalogue.house import House, Service
from hearth.catalogue.naming import suggest
from hearth.render.chat_ui_defaults import DEFAULTS, FIXED

# A value that must stay secret does not belong into a file of settings.
_SECRET = re.compile(r"_(KEY|PASSWORD|SECRET|TOKEN|CREDENTIALS|CREDENTIALS_JSON)$")
# Engines that can run inside the house, without egress.
_AT_HOME = frozenset({"searxng", "yacy", "external"})


class ChatConfigError(ValueError):
    """One line: which setting is not valid, and what to write instead."""


def chat_settings(
    house: House, service: Service, options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return its file of settings: `environment`, and `secrets` as names of credentials.

    `options` are the role's variables without their prefix.

    Raises:
        ChatConfigError: A setting that Open WebUI does not read, or that the house sets itself.
    """
    gateway, *_ = house.offering("models")
    connections = [(f"{gateway.url}/v1", "gateway_key")]
    if pipelines := _needed(house, service, "pipelines"):
        connections.append((pipelines.url, "pipelines_key"))
    # The first is the gateway: with this header it shows which model wrote an answer.
    headers = {"0": {"headers": {"X-Hearth-Status": "open-webui"}}}
    fixed = {
        **FIXED,
        **_place(service, options),
        "OPENAI_API_BASE_URLS": ";".join(url for url, _ in connections),
        "OPENAI_API_CONFIGS": json.dumps(headers),
    }
    secrets = {
        "OPENAI_API_KEYS": [name for _, name in connections],
        "RAG_OPENAI_API_KEY": ["gateway_key"],
        "AUDIO_STT_OPENAI_API_KEY": ["gateway_key"],
        "WEBUI_SECRET_KEY": ["open_webui_secret_key"],
        "WEBUI_ADMIN_PASSWORD": ["open_webui_admin_password"],
    }
    ours = fixed.keys() | secrets
    given, more = (_given(options, key, ours) for key in ("settings", "secrets"))
    _check_values(service, given, more)
    environment = {
        **DEFAULTS,
        **_aliases(house, service, f"{gateway.url}/v1"),
        **_speech(house, service),
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


def known_names() -> frozenset[str]:
    """Return every variable that the locked Open WebUI reads."""
    names = importlib.resources.files("hearth_open_webui").joinpath("names.txt")
    return frozenset(names.read_text(encoding="utf-8").split())


def _given(options: Mapping[str, Any], key: str, ours: Collection[str]) -> Mapping[str, Any]:
    """Return what a variable of the role sets: names that Open WebUI reads, and none of ours."""
    # YAML reads a key without a value as None.
    given, known = options[key] or {}, known_names()
    if not isinstance(given, Mapping):
        raise ChatConfigError(f"open_webui_{key}: is not a mapping; write {{NAME: value}}")
    for name in given:
        if name not in known:
            near = suggest(str(name), known)
            # There are nearly a thousand names, too many to list.
            help_ = near if near.startswith("did") else "docs/chat.md links to their list"
            raise ChatConfigError(f"open_webui_{key}: {name} is not a valid setting; {help_}")
        if name in ours:
            raise ChatConfigError(f"open_webui_{key}: {name} is set by the house; leave it out")
    return given


def _check_values(service: Service, given: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value is None:
            raise ChatConfigError(f"open_webui_settings: {name} has no value; write one, e.g. ''")
        if _SECRET.search(name):
            raise ChatConfigError(
                f"open_webui_settings: {name} is a secret; write it into open_webui_secrets, with "
                "the name of a secret of the record"
            )
    for name, secret in more.items():
        if not isinstance(secret, str):
            raise ChatConfigError(
                f"open_webui_secrets: {name} is not the name of a secret; write one"
            )
        if secret not in service.secrets:
            raise ChatConfigError(
                f"open_webui_secrets: {name}: {secret} is not a secret of {service.name}; write "
                f"secrets: {{{secret}: given}} into its record"
            )


def _check_search(service: Service, environment: Mapping[str, str]) -> None:
    if environment["ENABLE_WEB_SEARCH"].lower() != "true":
        return
    engine = environment.get("WEB_SEARCH_ENGINE")
    if not engine:
        raise ChatConfigError(
            "open_webui_settings: ENABLE_WEB_SEARCH needs an engine; add WEB_SEARCH_ENGINE"
        )
    if engine not in _AT_HOME and not service.egress:
        raise ChatConfigError(
            f"open_webui_settings: WEB_SEARCH_ENGINE {engine} is outside the house; add its server "
            f"to egress in {service.name}'s record"
        )


def _needed(house: House, service: Service, offer: str) -> Service | None:
    found = (house.services[name] for name in service.needs)
    return next((needed for needed in found if offer in needed.offers), None)


def _place(service: Service, options: Mapping[str, Any]) -> dict[str, str]:
    folder, origin = service.volumes[0].path, f"https://{service.sites[0].fqdn}"
    return {
        "DATA_DIR": folder,
        "DATABASE_URL": f"sqlite:///{folder}/webui.db",
        # Recreated at each start.
        "STATIC_DIR": f"/run/{service.instance}/static",
        "WEBUI_URL": origin,
        # Only these pages may open a WebSocket.
        "CORS_ALLOW_ORIGIN": origin,
        "WEBUI_ADMIN_EMAIL": options["admin_email"],
        "WEBUI_ADMIN_NAME": options["admin_name"],
        "GLOBAL_LOG_LEVEL": options["log_level"],
    }


def _offered(house: House, alias: str) -> bool:
    return alias in house.aliases and house.aliases[alias].offered


def _aliases(house: House, service: Service, url: str) -> dict[str, str]:
    """Choose the models of new chats, documents and the microphone, all behind this URL."""
    settings = {
        "RAG_EMBEDDING_ENGINE": "openai",
        "RAG_EMBEDDING_MODEL": "embed",
        "RAG_OPENAI_API_BASE_URL": url,
        "AUDIO_STT_ENGINE": "openai",
        "AUDIO_STT_MODEL": "transcribe",
        "AUDIO_STT_OPENAI_API_BASE_URL": url,
    }
    if default := house.default_alias:
        settings |= {"DEFAULT_MODELS": default.name, "TASK_MODEL_EXTERNAL": default.name}
    if not _offered(house, "embed"):
        # Without embeddings no passage can be found, so the model gets the whole document.
        settings["BYPASS_EMBEDDING_AND_RETRIEVAL"] = "True"
    if not _offered(house, "transcribe"):
        # Without speech to text, hide the microphone and the call button.
        settings |= {"USER_PERMISSIONS_CHAT_STT": "False", "USER_PERMISSIONS_CHAT_CALL": "False"}
    # The page rejects what the reverse proxy would reject, earlier and with a better message.
    if size := service.sites[0].uploads_bytes:
        settings["RAG_FILE_MAX_SIZE"] = str(size // 2**20)
    return settings


def _speech(house: House, service: Service) -> dict[str, str]:
    speaker = _needed(house, service, "speech")
    if speaker is None:
        return {}
    return {
        "AUDIO_TTS_ENGINE": "openai",
        "AUDIO_TTS_MODEL": "kokoro",
        "AUDIO_TTS_VOICE": "af_heart",
        "AUDIO_TTS_OPENAI_API_BASE_URL": f"{speaker.url}/v1",
        # The link is the authentication; Open WebUI requires a value.
        "AUDIO_TTS_OPENAI_API_KEY": "none",
    }


def _text(value: Any) -> str:
    """Return a YAML value as the text of an environment variable."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
