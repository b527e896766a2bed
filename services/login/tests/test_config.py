"""An invalid configuration is rejected with one line: where, and what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hearth_login.config import Config, LoginError, Site, load_config
from hearth_login.credentials import load_credentials


def test_configuration_is_read(config: Config) -> None:
    assert config.domain == "lan"
    assert config.sites["llm.lan"] == Site("litellm", "key", frozenset({"kokoro"}))
    assert config.consumers["agents"] == {"litellm", "kokoro"}


def put(*path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        for step in path[:-1]:
            record = record[step]
        record[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("sites", value=[]), "sites: must be a mapping {...}"),
        (put("domain", value=""), "domain: must be a non-empty text"),
        (put("domains", value=1), "'domains' is unknown; write only domain, consumers or sites"),
        (
            put("sites", "llm.lan", "auth", value="open"),
            "sites.llm.lan.auth: 'open' is unknown; write key, house, own or lan",
        ),
        (
            put("sites", "llm.lan", "service", value=3),
            "sites.llm.lan.service: must be a non-empty text",
        ),
        (put("sites", "LLM.lan", value={"service": "a", "auth": "key"}), "is a duplicate"),
        (put("consumers", "webui", "services", value="all"), "must be a list of service names"),
        (put("consumers", "web\nui", value={"services": []}), "letters, digits, - and _ only"),
    ],
)
def test_invalid_configuration_is_rejected(
    folder: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = folder / "login.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(LoginError) as caught:
        load_config(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert message in text


@pytest.mark.parametrize("text", ["", "[]", "{", "\udcff"])
def test_file_without_a_mapping_is_rejected(folder: Path, text: str) -> None:
    path = folder / "login.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(LoginError, match=r"login\.json"):
        load_config(path)
    with pytest.raises(LoginError, match="cannot be read"):
        load_config(folder / "missing.json")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("house_password", "hunter2-xyz", "must have 12 characters or more"),
        ("cookie_secret", "short-s3cret", "must have 32 characters or more"),
        ("consumer_keys", "not json s3cret", "is not JSON"),
        ("consumer_keys", '["s3cret"]', "must be a mapping"),
        ("consumer_keys", '{"webui": "s3cret"}', "webui needs a key of 24 characters"),
        (
            "consumer_keys",
            json.dumps(dict.fromkeys(("webui", "agents", "status"), "s3cret-" * 5)),
            "webui and agents have the same key",
        ),
        ("house_password", None, "LoadCredential="),
    ],
)
def test_invalid_secret_is_rejected_and_not_shown(
    folder: Path, config: Config, name: str, text: str | None, message: str
) -> None:
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    with pytest.raises(LoginError) as caught:
        load_credentials(folder, config.consumers)
    assert message in str(caught.value)
    assert str(folder / name) in str(caught.value)
    assert text is None or text not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_secrets_are_not_in_repr(folder: Path, config: Config) -> None:
    assert repr(load_credentials(folder, config.consumers)) == "Credentials()"
