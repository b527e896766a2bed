"""What Open WebUI is told, out of the reference house."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue import derive, load
from hearth.chat_config import DEFAULTS, FIXED, NAMES, ChatConfigError, chat_settings

ROOT = Path(__file__).parents[3]
OPTIONS: dict[str, Any] = {
    "admin_email": "admin@house.lan",
    "admin_name": "Admin",
    "log_level": "WARNING",
    "settings": {},
    "secrets": {},
}


@pytest.fixture(scope="module")
def house() -> dict[str, Any]:
    return derive(load(ROOT / "inventory")).as_vars()


def told(house: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
    return chat_settings(house, house["services"]["open_webui"], OPTIONS | options)


def test_every_variable_is_one_that_open_webui_reads(house: dict[str, Any]) -> None:
    # Read by libraries of it, and by nothing else.
    libraries = {"ANONYMIZED_TELEMETRY", "HF_HUB_OFFLINE"}
    made = told(house)
    known = set(NAMES.read_text().split()) | libraries
    assert {*made["environment"], *made["secrets"]} <= known


def test_models_come_from_the_gateway_and_from_pipelines_each_with_its_key(
    house: dict[str, Any],
) -> None:
    made = told(house)
    urls = made["environment"]["OPENAI_API_BASE_URLS"].split(";")
    assert urls == ["http://10.140.30.12:4000/v1", "http://10.140.30.18:9099"]
    assert made["secrets"]["OPENAI_API_KEYS"] == ["gateway_key", "pipelines_key"]
    configs = json.loads(made["environment"]["OPENAI_API_CONFIGS"])
    assert configs == {"0": {"headers": {"X-Hearth-Status": "open-webui"}}}
    assert made["environment"]["ENABLE_OLLAMA_API"] == "False"


def test_documents_speech_and_titles_go_to_aliases_of_the_house(house: dict[str, Any]) -> None:
    variables = told(house)["environment"]
    for name in ("RAG_EMBEDDING_MODEL", "AUDIO_STT_MODEL", "DEFAULT_MODELS", "TASK_MODEL_EXTERNAL"):
        assert variables[name] in house["aliases"], name
    assert variables["AUDIO_TTS_OPENAI_API_BASE_URL"] == f"{voice(house)}/v1"
    # Nothing is left at upstream's default, which is a server of the internet.
    urls = [value for name, value in variables.items() if name.endswith(("_URL", "_URLS"))]
    assert all(re.match(r"http://10\.140\.|https://chat\.lan$", url) for url in urls)


def voice(house: dict[str, Any]) -> str:
    (speaker,) = (name for name in house["services"]["open_webui"]["needs"] if "kokoro" in name)
    return str(house["services"][speaker]["url"])


def test_without_a_voice_nobody_else_is_asked_for_one(house: dict[str, Any]) -> None:
    service = house["services"]["open_webui"] | {"needs": ["litellm"]}
    made = chat_settings(house, service, OPTIONS)
    assert "AUDIO_TTS_ENGINE" not in made["environment"]
    assert made["secrets"]["OPENAI_API_KEYS"] == ["gateway_key"]


def test_no_secret_stands_in_the_file(house: dict[str, Any]) -> None:
    made = told(house)
    assert not set(made["secrets"]) & set(made["environment"])
    credentials = {name for names in made["secrets"].values() for name in names}
    assert credentials - {"gateway_key"} == set(house["services"]["open_webui"]["secrets"]) | {
        "pipelines_key"
    }


def test_a_setting_of_the_inventory_wins_over_a_family_s(house: dict[str, Any]) -> None:
    wanted = {
        "ENABLE_WEB_SEARCH": True,
        "WEB_SEARCH_RESULT_COUNT": 7,
        "DEFAULT_INTERFACE_SETTINGS": {"showChangelog": True},
        "AUDIO_TTS_VOICE": "bf_emma",
    }
    assert DEFAULTS["ENABLE_WEB_SEARCH"] == "False"
    variables = told(house, settings=wanted)["environment"]
    assert variables["ENABLE_WEB_SEARCH"] == "True"
    assert variables["WEB_SEARCH_RESULT_COUNT"] == "7"
    assert variables["DEFAULT_INTERFACE_SETTINGS"] == '{"showChangelog": true}'
    assert variables["AUDIO_TTS_VOICE"] == "bf_emma"


@pytest.mark.parametrize("name", [*FIXED, "DATA_DIR", "WEBUI_URL", "WEBUI_SECRET_KEY"])
def test_what_the_house_promises_is_not_theirs_to_change(name: str, house: dict[str, Any]) -> None:
    with pytest.raises(ChatConfigError) as caught:
        told(house, settings={name: "x"})
    assert str(caught.value) == f"open_webui_settings: {name} is the house's own; leave it out"


def test_a_setting_that_nobody_reads_is_refused_with_the_nearest(house: dict[str, Any]) -> None:
    with pytest.raises(ChatConfigError) as caught:
        told(house, settings={"ENABLE_SIGN_UP": True})
    assert str(caught.value) == (
        "open_webui_settings: ENABLE_SIGN_UP is no setting; did you mean ENABLE_SIGNUP?"
    )


def test_a_setting_can_be_a_secret_of_the_record(house: dict[str, Any]) -> None:
    service = house["services"]["open_webui"]
    more = service | {"secrets": service["secrets"] | {"brave_key": "given"}}
    asked = OPTIONS | {"secrets": {"BRAVE_SEARCH_API_KEY": "brave_key"}}
    made = chat_settings(house, more, asked)
    assert made["secrets"]["BRAVE_SEARCH_API_KEY"] == ["brave_key"]
    with pytest.raises(ChatConfigError) as caught:
        chat_settings(house, service, asked)
    assert str(caught.value) == (
        "open_webui_secrets: BRAVE_SEARCH_API_KEY: brave_key is no secret of open_webui; write "
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
