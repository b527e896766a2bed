"""Open WebUI's settings: its environment variables, and which secrets become variables."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from hearth.catalogue.house import House, Service
from hearth.catalogue.naming import suggest

# What a house guarantees; `open_webui_settings` cannot change these.
FIXED: Mapping[str, str] = {
    "ENV": "prod",
    # Without it Open WebUI looks for its page where a checkout has it.
    "FROM_INIT_PY": "true",
    # Changes in the admin pages are lost at a restart: the inventory decides.
    "ENABLE_PERSISTENT_CONFIG": "False",
    "ENABLE_OAUTH_PERSISTENT_CONFIG": "False",
    "ENABLE_OLLAMA_API": "False",
    "WEBUI_AUTH": "True",
    "WEBUI_SESSION_COOKIE_SECURE": "True",
    "WEBUI_AUTH_COOKIE_SECURE": "True",
    # Paths and searches reveal what people do; the role's variable sets the level of its own log.
    "AUDIT_UVICORN_LOGGER_NAMES": "hearth.none",
    "AUDIT_LOG_LEVEL": "NONE",
    # There is no ffmpeg here, and our services accept audio in any format.
    "BYPASS_PYDUB_PREPROCESSING": "True",
    # Caddy forwards a browser's headers, so these could be forged.
    "WEBUI_AUTH_TRUSTED_EMAIL_HEADER": "",
    "WEBUI_AUTH_TRUSTED_NAME_HEADER": "",
    "WEBUI_AUTH_TRUSTED_GROUPS_HEADER": "",
    "WEBUI_AUTH_TRUSTED_ROLE_HEADER": "",
    "MFA_ALLOW_TRUSTED_HEADER_BYPASS": "False",
    # The first account comes from the house's secrets, not from the first visitor.
    "ENABLE_INITIAL_ADMIN_SIGNUP": "False",
    "ENABLE_SCIM": "False",
    # With these, any account could read the house's other services.
    "ENABLE_LOCAL_WEB_FETCH": "False",
    "ENABLE_RAG_LOCAL_WEB_FETCH": "False",
    "ENABLE_OPENAI_API_PASSTHROUGH": "False",
    # Data must lie where a backup finds it.
    "DATABASE_TYPE": "",
    "STORAGE_PROVIDER": "local",
    # The record's `policy` is sent instead.
    "CONTENT_SECURITY_POLICY": "",
}

# Defaults for a family; `open_webui_settings` changes any of these.
DEFAULTS: Mapping[str, str] = {
    # The admin adds accounts; every account sees every model of the house.
    "ENABLE_SIGNUP": "False",
    "ENABLE_OAUTH": "False",
    "BYPASS_MODEL_ACCESS_CONTROL": "True",
    "ENABLE_PASSWORD_VALIDATION": "True",
    "PASSWORD_VALIDATION_REGEX_PATTERN": "^.{10,}$",
    "PASSWORD_VALIDATION_HINT": "A password has ten characters or more.",
    # The admin cannot read other people's chats.
    "ENABLE_ADMIN_CHAT_ACCESS": "False",
    "ENABLE_ADMIN_EXPORT": "False",
    "ENABLE_ADMIN_WORKSPACE_CONTENT_ACCESS": "False",
    # Own programs belong into Pipelines, which has no chats and no accounts.
    "ENABLE_PLUGINS": "False",
    "ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS": "False",
    "ENABLE_CODE_EXECUTION": "False",
    "ENABLE_CODE_INTERPRETER": "False",
    "USER_PERMISSIONS_FEATURES_CODE_INTERPRETER": "False",
    "ENABLE_DIRECT_CONNECTIONS": "False",
    "ENABLE_DIRECT_INTEGRATIONS": "False",
    # No connection to the internet.
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
    # Features that a house for a few people does not need.
    "ENABLE_EVALUATION_ARENA_MODELS": "False",
    "ENABLE_CHANNELS": "False",
    "ENABLE_AUTOMATIONS": "False",
    "ENABLE_CALENDAR": "False",
    "ENABLE_API_KEYS": "False",
    "ENABLE_MESSAGE_RATING": "False",
    "ENABLE_EASTER_EGGS": "False",
    # Its own tools would add 21 kB to every question.
    "DEFAULT_MODEL_METADATA": '{"capabilities": {"builtin_tools": false}}',
    # A tenth less CPU for each answer; the reverse proxy is one link away.
    "ENABLE_COMPRESSION_MIDDLEWARE": "False",
    "ENABLE_CHAT_RESPONSE_STREAM_INPLACE_APPEND": "True",
    # Each is one more request to a model, and models answer one request after another. The title
    # of a chat is its first words instead.
    "ENABLE_TITLE_GENERATION": "False",
    "ENABLE_TAGS_GENERATION": "False",
    "ENABLE_FOLLOW_UP_GENERATION": "False",
    "ENABLE_AUTOCOMPLETE_GENERATION": "False",
    "ENABLE_RETRIEVAL_QUERY_GENERATION": "False",
    # Where one is switched on, its text is an answer and never a thought.
    "TASK_MODEL_PARAMS": '{"reasoning_effort": "none", "max_tokens": 1000}',
    # A service that is down must not delay the list of models for long.
    "AIOHTTP_CLIENT_TIMEOUT_MODEL_LIST": "3",
    "DEFAULT_INTERFACE_SETTINGS": '{"showChangelog": false, "showUpdateToast": false}',
    "VECTOR_DB": "chroma",
    "RAG_TOP_K": "5",
    # One request for many parts of a document.
    "RAG_EMBEDDING_BATCH_SIZE": "32",
    "RAG_EMBEDDING_CONCURRENT_REQUESTS": "2",
    # Speak each sentence as soon as it is complete.
    "AUDIO_TTS_SPLIT_ON": "punctuation",
}
_TOOLS = "TOOL_SERVER_CONNECTIONS"
# Servers of tools, and still no programs that people write into the admin pages.
_TOOL_SERVERS_ONLY: Mapping[str, str] = {
    "ENABLE_PLUGINS": "True",
    "ENABLE_TOOLS": "False",
    "ENABLE_FUNCTIONS": "False",
}
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
    configs = {"0": {"headers": {"X-Hearth-Status": "open-webui"}}}
    if agents := _needed(house, service, "agents"):
        # A run that waits is found again by its chat, and the one who approves sees who asked.
        headers = {"X-OpenWebUI-Chat-Id": "{{CHAT_ID}}", "X-OpenWebUI-User-Name": "{{USER_NAME}}"}
        configs[str(len(connections))] = {"headers": headers}
        connections.append((f"{agents.url}/v1", "gateway_key"))
    fixed = {
        **FIXED,
        **_place(service, options),
        **_calls(house, service),
        "OPENAI_API_BASE_URLS": ";".join(url for url, _ in connections),
        "OPENAI_API_CONFIGS": json.dumps(configs),
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
    documents = {} if _TOOLS in more else _tools(house, service, given.get(_TOOLS, []))
    environment = {
        **DEFAULTS,
        **(_TOOL_SERVERS_ONLY if documents else {}),
        **_aliases(house, service, f"{gateway.url}/v1"),
        **_speech(house, service),
        **{name: _text(value) for name, value in given.items()},
        **fixed,
    }
    for name in (*more, *documents):
        environment.pop(name, None)
    _check_search(service, environment)
    return {
        "environment": environment,
        "secrets": secrets | {name: [secret] for name, secret in more.items()},
        **({"documents": documents} if documents else {}),
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


def _tools(house: House, service: Service, others: Any) -> dict[str, str]:
    """Return the connections to the house's tools, for admins of the chat only, and to others."""
    if not service.calls:
        return {}
    if not isinstance(others, list):
        raise ChatConfigError(f"open_webui_settings: {_TOOLS} is not a list; write - type: mcp")
    own = [
        {
            "type": "openapi",
            "url": house.parts[name].url,
            "path": "openapi.json",
            "auth_type": "bearer",
            # Its own key, which the program fills in.
            "key": "{secret:gateway_key}",
            "headers": {"X-Hearth-Agent": "open-webui", "X-Hearth-Chat": "{{CHAT_ID}}"},
            "config": {"enable": True},
            "info": {"id": name, "name": "House", "description": house.parts[name].summary},
        }
        for name in service.calls
    ]
    return {_TOOLS: json.dumps([*others, *own])}


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
    if sizes := service.sites[0].uploads_bytes:
        settings["RAG_FILE_MAX_SIZE"] = str(max(sizes.values()) // 2**20)
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


# The bridge's own text sends each question to the chat, and a caller hears nothing until all of
# its answer is there.
_CALL_PROMPT = """\
You talk with a person in their house, by voice. Answer at once and by yourself, in one to three \
short spoken sentences, in the person's language: no lists, no headings, no Markdown, no emoji. If \
a word makes no sense, it was probably misheard: ask briefly.
Call generate_chat_completion only for what you cannot do here: documents and pictures of this \
chat, tools and programs, the agent team, and tasks of several steps. Say a few words first, such \
as "Let me look.", and then call it. When its result arrives, tell the person what matters of it. \
Never say that you are about to do something that you have not started."""


def _calls(house: House, service: Service) -> dict[str, str]:
    """Return the settings of the call button, where a service answers calls."""
    server = _needed(house, service, "calls")
    if server is None:
        return {}
    return {
        "AUDIO_REALTIME_ENABLED": "True",
        "AUDIO_REALTIME_OPENAI_API_BASE_URL": f"{server.url}/v1",
        # The link is the authentication; Open WebUI requires a value.
        "AUDIO_REALTIME_OPENAI_API_KEY": "none",
        "AUDIO_REALTIME_MODEL": "voice",
        "AUDIO_REALTIME_VOICE": "af_heart",
        "AUDIO_REALTIME_TRANSCRIPTION_MODEL": "whisper-1",
        "REALTIME_CALL_PROMPT_TEMPLATE": _CALL_PROMPT,
    }


def _text(value: Any) -> str:
    """Return a YAML value as the text of an environment variable."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
