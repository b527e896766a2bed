"""Open WebUI's variables come from a file and from credentials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hearth_open_webui.settings import SettingsError, read_settings


def written(folder: Path, data: Any) -> Path:
    path = folder / "settings.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "gateway_key").write_text("sesame\n")
    (folder / "pipelines_key").write_text("thyme")
    (folder / "empty").write_text("\n")
    return folder


def test_settings_and_secrets_become_variables(tmp_path: Path, credentials: Path) -> None:
    path = written(
        tmp_path,
        {
            "environment": {"ENV": "prod"},
            "secrets": {"KEYS": ["gateway_key", "pipelines_key"], "KEY": ["gateway_key"]},
        },
    )
    assert read_settings(path, credentials) == {
        "ENV": "prod",
        "KEYS": "sesame;thyme",
        "KEY": "sesame",
    }


def test_a_secret_is_filled_into_a_string_of_a_document(tmp_path: Path, credentials: Path) -> None:
    (credentials / "gateway_key").write_text('a "quoted" \\ key\n')
    document = json.dumps([{"key": "{secret:gateway_key}", "chat": "{{CHAT_ID}}"}])
    path = written(tmp_path, {"environment": {}, "secrets": {}, "documents": {"SERVERS": document}})
    (server,) = json.loads(read_settings(path, credentials)["SERVERS"])
    assert server == {"key": 'a "quoted" \\ key', "chat": "{{CHAT_ID}}"}
    with pytest.raises(SettingsError, match="CREDENTIALS_DIRECTORY is not set"):
        read_settings(path, None)


def test_without_secrets_no_credentials_are_needed(tmp_path: Path) -> None:
    path = written(tmp_path, {"environment": {"ENV": "prod"}, "secrets": {}})
    assert read_settings(path, None) == {"ENV": "prod"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "is not JSON"),
        ([], "environment is missing"),
        ({"environment": {}}, "secrets is missing"),
        ({"environment": {"A": 1}, "secrets": {}}, "A is not a string"),
        ({"environment": {}, "secrets": {}, "documents": {"A": []}}, "A is not a string"),
        (
            {"environment": {}, "secrets": {}, "documents": {"A": "{secret:gone}"}},
            "gone: No such file or directory",
        ),
        ({"environment": {}, "secrets": {"A": "gateway_key"}}, "A is not a list of names"),
        ({"environment": {}, "secrets": {"A": ["gone"]}}, "gone: No such file or directory"),
        (
            {"environment": {}, "secrets": {"A": ["empty"]}},
            "empty: is empty: run `hearth secret set",
        ),
    ],
)
def test_each_error_is_one_line(data: Any, message: str, tmp_path: Path, credentials: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(written(tmp_path, data), credentials)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_missing_credentials_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"settings\.json: No such file"):
        read_settings(tmp_path / "settings.json", None)
    with pytest.raises(SettingsError, match="CREDENTIALS_DIRECTORY is not set"):
        read_settings(
            written(tmp_path, {"environment": {}, "secrets": {"A": ["gateway_key"]}}), None
        )
