"""Open WebUI's settings in every house: the fixed ones, and the defaults for a family."""

from __future__ import annotations

from collections.abc import Mapping

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
