"""Open WebUI's settings in the reference house."""

from __future__ import annotations

import functools
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue import House, derive, load
from hearth.render.chat_ui import DEFAULTS, FIXED, ChatConfigError, chat_settings, known_names
from hearth.render.speech import voice_config
from hearth.render.units import UnitError
from tests.agents_house import WITHOUT, agents_house

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "services/voice"))
from hearth_voice.config import Config  # noqa: E402 - the server is no part of the project's path

OPTIONS: dict[str, Any] = {
    "admin_email": "admin@house.lan",
    "admin_name": "Admin",
    "log_level": "WARNING",
    "settings": {},
    "secrets": {},
}


@pytest.fixture(scope="module")
def house() -> House:
    return derive(load(ROOT / "inventory"))


def configuration(house: House, **options: Any) -> dict[str, dict[str, Any]]:
    return chat_settings(house, house.services["open_webui"], OPTIONS | options)


def test_every_variable_is_one_that_open_webui_reads(house: House) -> None:
    # Read by libraries of it, and by nothing else.
    libraries = {"ANONYMIZED_TELEMETRY", "HF_HUB_OFFLINE"}
    config = configuration(house)
    known = set(known_names()) | libraries
    assert {*config["environment"], *config["secrets"]} <= known


def test_models_come_from_the_gateway_and_from_pipelines_each_with_its_key() -> None:
    config = configuration(agents_house(WITHOUT))
    urls = config["environment"]["OPENAI_API_BASE_URLS"].split(";")
    assert urls == ["http://10.140.30.14:4000/v1", "http://10.140.30.38:9099"]
    assert config["secrets"]["OPENAI_API_KEYS"] == ["gateway_key", "pipelines_key"]
    configs = json.loads(config["environment"]["OPENAI_API_CONFIGS"])
    assert configs == {"0": {"headers": {"X-Hearth-Status": "open-webui"}}}
    assert config["environment"]["ENABLE_OLLAMA_API"] == "False"


def test_the_agents_are_offered_and_told_chat_and_name_and_nothing_else(house: House) -> None:
    config = configuration(house)
    urls = config["environment"]["OPENAI_API_BASE_URLS"].split(";")
    number = urls.index("http://10.140.30.54:9100/v1")
    assert config["secrets"]["OPENAI_API_KEYS"][number] == "gateway_key"
    assert len(config["secrets"]["OPENAI_API_KEYS"]) == len(urls)
    configs = json.loads(config["environment"]["OPENAI_API_CONFIGS"])
    sent = {"X-OpenWebUI-Chat-Id": "{{CHAT_ID}}", "X-OpenWebUI-User-Name": "{{USER_NAME}}"}
    assert configs[str(number)] == {"headers": sent}
    # It would tell every server, the cloud's too, who is asking.
    assert "ENABLE_FORWARD_USER_INFO_HEADERS" not in config["environment"]


def test_the_call_button_is_there_with_a_service_that_answers_calls(
    house: House, tmp_path: Path
) -> None:
    config = configuration(house)
    assert not [name for name in config["environment"] if "REALTIME" in name]
    overlay = tmp_path / "inventory"
    shutil.copytree(ROOT / "inventory", overlay, ignore=shutil.ignore_patterns("local"))
    (overlay / "local").mkdir()
    (overlay / "local/services.yml").write_text("services: {voice: {enabled: true}}\n")
    with_calls = derive(load(overlay))
    environment = configuration(with_calls)["environment"]
    assert environment["AUDIO_REALTIME_ENABLED"] == "True"
    voice = with_calls.services["voice"]
    assert environment["AUDIO_REALTIME_OPENAI_API_BASE_URL"] == f"{voice.url}/v1"
    assert "generate_chat_completion" in environment["REALTIME_CALL_PROMPT_TEMPLATE"]
    assert set(environment) <= known_names() | {"ANONYMIZED_TELEMETRY", "HF_HUB_OFFLINE"}
    # One name, two services, and each is called at its own paths only.
    llm = next(site for site in with_calls.sites if site.name == "llm")
    assert [(one.service, one.paths) for one in llm.shared] == [("voice", ("/v1/realtime",))]
    assert len({site.fqdn for site in with_calls.sites}) == len(with_calls.sites)
    # And the server can be configured from the same house.
    written = voice_config(
        with_calls,
        voice,
        {"alias": "voice", "voices": {"en": "af_heart"}, "instructions": "", "calls": 4},
    )
    assert Config.model_validate(written).kokoro == with_calls.services["kokoro"].url
    with pytest.raises(UnitError, match="voice_alias: there is no alias nobody"):
        voice_config(
            with_calls,
            voice,
            {"alias": "nobody", "voices": {"en": "x"}, "instructions": "", "calls": 4},
        )


def test_the_houses_tools_are_for_admins_of_the_chat(house: House) -> None:
    assert "documents" not in configuration(agents_house(WITHOUT))
    config = configuration(house)
    documents = config["documents"]
    (tools,) = json.loads(documents["TOOL_SERVER_CONNECTIONS"])
    assert (tools["url"], tools["path"]) == ("http://10.140.30.1:9185", "openapi.json")
    assert tools["key"] == "{secret:gateway_key}"
    # Without grants, Open WebUI shows a connection to admins only.
    assert tools["config"] == {"enable": True}
    assert set(documents) <= known_names()
    switches = {name: config["environment"][f"ENABLE_{name}"] for name in ("PLUGINS", "TOOLS")}
    assert switches == {"PLUGINS": "True", "TOOLS": "False"}
    without = configuration(agents_house(WITHOUT))
    assert without["environment"]["ENABLE_PLUGINS"] == "False"


def test_people_s_own_servers_of_tools_stay_beside_the_house_s() -> None:
    own = {"type": "mcp", "url": "http://10.140.30.40:8000/mcp"}
    config = configuration(agents_house(), settings={"TOOL_SERVER_CONNECTIONS": [own]})
    first, second = json.loads(config["documents"]["TOOL_SERVER_CONNECTIONS"])
    assert (first, second["info"]["id"]) == (own, "broker")
    assert "TOOL_SERVER_CONNECTIONS" not in config["environment"]
    with pytest.raises(ChatConfigError, match="is not a list"):
        configuration(agents_house(), settings={"TOOL_SERVER_CONNECTIONS": "x"})


def test_documents_speech_and_titles_go_to_aliases_of_the_house(house: House) -> None:
    variables = configuration(house)["environment"]
    for name in ("RAG_EMBEDDING_MODEL", "AUDIO_STT_MODEL", "DEFAULT_MODELS", "TASK_MODEL_EXTERNAL"):
        assert variables[name] in house.aliases, name
    # A title, a tag or a search query is never a thought.
    assert json.loads(variables["TASK_MODEL_PARAMS"])["reasoning_effort"] == "none"
    assert variables["AUDIO_TTS_OPENAI_API_BASE_URL"] == f"{voice(house)}/v1"
    # Nothing is left at upstream's default, which is a server of the internet.
    urls = [value for name, value in variables.items() if name.endswith(("_URL", "_URLS"))]
    place = r"http://10\.140\.|https://chat\.lan$|sqlite:////var/lib/open-webui/webui\.db$"
    assert all(re.match(place, url) for url in urls)


def voice(house: House) -> str:
    (speaker,) = (name for name in house.services["open_webui"].needs if "kokoro" in name)
    return house.services[speaker].url


def test_without_a_tts_service_no_other_one_is_used(house: House) -> None:
    service = replace(house.services["open_webui"], needs=("litellm",))
    config = chat_settings(house, service, OPTIONS)
    assert "AUDIO_TTS_ENGINE" not in config["environment"]
    assert config["secrets"]["OPENAI_API_KEYS"] == ["gateway_key"]


def test_the_file_contains_no_secret(house: House) -> None:
    config = configuration(house)
    assert not set(config["secrets"]) & set(config["environment"])
    credentials = {name for names in config["secrets"].values() for name in names}
    assert credentials - {"gateway_key"} == set(house.services["open_webui"].secrets) | {
        "pipelines_key"
    }


def test_a_setting_of_the_inventory_wins_over_a_family_s(house: House) -> None:
    wanted = {
        "ENABLE_CHANNELS": True,
        "WEB_SEARCH_RESULT_COUNT": 7,
        "DEFAULT_INTERFACE_SETTINGS": {"showChangelog": True},
        "AUDIO_TTS_VOICE": "bf_emma",
    }
    assert DEFAULTS["ENABLE_CHANNELS"] == "False"
    variables = configuration(house, settings=wanted)["environment"]
    assert variables["ENABLE_CHANNELS"] == "True"
    assert variables["WEB_SEARCH_RESULT_COUNT"] == "7"
    assert variables["DEFAULT_INTERFACE_SETTINGS"] == '{"showChangelog": true}'
    assert variables["AUDIO_TTS_VOICE"] == "bf_emma"


@pytest.mark.parametrize("name", [*FIXED, "DATA_DIR", "WEBUI_URL", "WEBUI_SECRET_KEY"])
def test_settings_that_the_house_guarantees_cannot_be_changed(name: str, house: House) -> None:
    with pytest.raises(ChatConfigError) as caught:
        configuration(house, settings={name: "x"})
    assert str(caught.value) == f"open_webui_settings: {name} is set by the house; leave it out"


def test_an_unknown_setting_is_rejected_with_the_nearest_name(house: House) -> None:
    with pytest.raises(ChatConfigError) as caught:
        configuration(house, settings={"ENABLE_SIGN_UP": True})
    assert str(caught.value) == (
        "open_webui_settings: ENABLE_SIGN_UP is not a valid setting; did you mean ENABLE_SIGNUP?"
    )


OPENING = [
    *(f"WEBUI_AUTH_TRUSTED_{what}_HEADER" for what in ("EMAIL", "NAME", "GROUPS", "ROLE")),
    *("ENABLE_LOCAL_WEB_FETCH", "ENABLE_OPENAI_API_PASSTHROUGH", "ENABLE_SCIM", "DATABASE_URL"),
    *("CONTENT_SECURITY_POLICY", "ENABLE_INITIAL_ADMIN_SIGNUP", "STORAGE_PROVIDER"),
]


@pytest.mark.parametrize("name", OPENING)
def test_settings_that_would_open_the_house_are_off_and_fixed(name: str, house: House) -> None:
    shut = configuration(house)["environment"][name]
    assert shut in ("", "False", "local", "sqlite:////var/lib/open-webui/webui.db")
    with pytest.raises(ChatConfigError, match="is set by the house"):
        configuration(house, settings={name: True})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"settings": {"TELEMETRY": False}},
            "settings: TELEMETRY is not a valid setting; docs/chat.md",
        ),
        (
            {"secrets": {"TELEMETRY": "a"}},
            "secrets: TELEMETRY is not a valid setting; docs/chat.md",
        ),
        ({"settings": {1: True}}, "settings: 1 is not a valid setting; docs/chat.md"),
        ({"settings": {"ENABLE_NOTES": None}}, "settings: ENABLE_NOTES has no value"),
        ({"settings": ["ENABLE_NOTES"]}, "settings: is not a mapping"),
        (
            {"secrets": {"BRAVE_SEARCH_API_KEY": ["a"]}},
            "secrets: BRAVE_SEARCH_API_KEY is not the name",
        ),
        ({"secrets": "brave_key"}, "secrets: is not a mapping"),
        *(
            ({"settings": {name: "abc"}}, f"settings: {name} is a secret; write it into open_")
            for name in ("BRAVE_SEARCH_API_KEY", "LDAP_APP_PASSWORD", "SCIM_TOKEN")
        ),
        ({"settings": {"ENABLE_WEB_SEARCH": True}}, "settings: ENABLE_WEB_SEARCH needs an engine"),
        (
            {"settings": {"ENABLE_WEB_SEARCH": True, "WEB_SEARCH_ENGINE": "brave"}},
            "settings: WEB_SEARCH_ENGINE brave is outside the house",
        ),
    ],
)
def test_an_invalid_setting_is_one_short_line(
    options: dict[str, Any], message: str, house: House
) -> None:
    with pytest.raises(ChatConfigError) as caught:
        configuration(house, **options)
    assert str(caught.value).startswith(f"open_webui_{message}")
    assert len(str(caught.value)) < 200
    assert "abc" not in str(caught.value)


def test_nothing_behind_a_variable_is_none_of_them(house: House) -> None:
    assert configuration(house, settings=None, secrets=None) == configuration(house)


def test_a_list_of_keys_is_no_secret(house: House) -> None:
    assert configuration(house, settings={"ENABLE_API_KEYS": True})["environment"][
        "ENABLE_API_KEYS"
    ]


def test_web_search_uses_an_engine_with_egress(house: House) -> None:
    service = house.services["open_webui"]
    wanted = {"ENABLE_WEB_SEARCH": True, "WEB_SEARCH_ENGINE": "brave"}
    out = replace(service, egress=("api.search.brave.com",))
    config = chat_settings(house, out, OPTIONS | {"settings": wanted})
    assert config["environment"]["WEB_SEARCH_ENGINE"] == "brave"
    # One that is a service of the house needs no way out of it.
    assert configuration(house, settings=wanted | {"WEB_SEARCH_ENGINE": "searxng"})


def without(house: House, alias: str) -> House:
    aliases = {**house.aliases, alias: replace(house.aliases[alias], offered=False)}
    return replace(house, aliases=aliases)


def test_an_alias_that_does_not_exist_is_not_used(house: House) -> None:
    whole = configuration(house)["environment"]
    deaf = configuration(without(house, "transcribe"))["environment"]
    plain = configuration(without(house, "embed"))["environment"]
    listening = {"USER_PERMISSIONS_CHAT_STT", "USER_PERMISSIONS_CHAT_CALL"}
    assert not whole.keys() & (listening | {"BYPASS_EMBEDDING_AND_RETRIEVAL"})
    assert {deaf[name] for name in listening} == {"False"}
    assert plain["BYPASS_EMBEDDING_AND_RETRIEVAL"] == "True"
    assert configuration(without(house, "fast"))["environment"]["DEFAULT_MODELS"] == "coder"
    chats = [alias.name for alias in house.aliases.values() if alias.kind == "chat"]
    silent = configuration(functools.reduce(without, chats, house))["environment"]
    assert not silent.keys() & {"DEFAULT_MODELS", "TASK_MODEL_EXTERNAL"}


def test_a_setting_can_be_a_secret_of_the_record(house: House) -> None:
    service = house.services["open_webui"]
    more = replace(service, secrets={**service.secrets, "brave_key": "given"})
    wanted = OPTIONS | {"secrets": {"BRAVE_SEARCH_API_KEY": "brave_key"}}
    config = chat_settings(house, more, wanted)
    assert config["secrets"]["BRAVE_SEARCH_API_KEY"] == ["brave_key"]
    with pytest.raises(ChatConfigError) as caught:
        chat_settings(house, service, wanted)
    assert str(caught.value) == (
        "open_webui_secrets: BRAVE_SEARCH_API_KEY: brave_key is not a secret of open_webui; write "
        "secrets: {brave_key: given} into its record"
    )


def test_the_policy_of_its_page_names_nothing_outside_the_house() -> None:
    record = yaml.safe_load((ROOT / "inventory/services.yml").read_text())["services"]["open_webui"]
    rules = dict(part.split(maxsplit=1) for part in record["publish"]["chat"]["policy"].split(";"))
    assert rules["default-src"].strip() == "'none'"
    assert not any("//" in sources for sources in rules.values())
    # A script comes from the page's own server, or is one of the three that stand in it.
    assert re.fullmatch(
        r"'self' 'wasm-unsafe-eval'( 'sha256-[\w+/=]+'){3}", " ".join(rules["script-src"].split())
    )
