"""What every chat of a house begins with: what it must keep, and what a family finds."""

from __future__ import annotations

from collections.abc import Mapping

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
    # Caddy passes on what a browser says of itself: who believed such a header would believe all.
    "WEBUI_AUTH_TRUSTED_EMAIL_HEADER": "",
    "WEBUI_AUTH_TRUSTED_NAME_HEADER": "",
    "WEBUI_AUTH_TRUSTED_GROUPS_HEADER": "",
    "WEBUI_AUTH_TRUSTED_ROLE_HEADER": "",
    "MFA_ALLOW_TRUSTED_HEADER_BYPASS": "False",
    # The first account is made of the house's secrets, and of nobody who comes along.
    "ENABLE_INITIAL_ADMIN_SIGNUP": "False",
    "ENABLE_SCIM": "False",
    # Whoever has an account would read the house's other services by it.
    "ENABLE_LOCAL_WEB_FETCH": "False",
    "ENABLE_RAG_LOCAL_WEB_FETCH": "False",
    "ENABLE_OPENAI_API_PASSTHROUGH": "False",
    # What is precious lies where a backup takes it.
    "DATABASE_TYPE": "",
    "STORAGE_PROVIDER": "local",
    # The record's `policy` is what a browser is told.
    "CONTENT_SECURITY_POLICY": "",
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
    "ENABLE_ADMIN_WORKSPACE_CONTENT_ACCESS": "False",
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
    # Tools of its own would be 21 kB before every question.
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
