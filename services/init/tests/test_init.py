"""The preparation makes what is missing, changes nothing that is there, and shows what is asked."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from services.init.hearth_init.__main__ import main

CONFIG: dict[str, Any] = {
    "domain": "lan",
    "uid": os.getuid(),
    "secrets": ["consumer_ann", "house_password"],
    "credentials": {
        "app": {
            "values": {"password": "house_password", "keys": {"ann": "consumer_ann"}},
            "digests": ["keys"],
        },
        "caddy": {"values": {"key": "house_intermediate_key"}, "digests": []},
    },
}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "init.json").write_text(json.dumps(CONFIG))
    for name in ("secrets", "pki", "credentials/app", "credentials/caddy"):
        (tmp_path / name).mkdir(parents=True)
    places = [f"--{name}={tmp_path / name}" for name in ("secrets", "pki", "credentials")]
    return [f"--config={tmp_path / 'init.json'}", *places]


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_second_run_changes_nothing(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    assert (
        "made consumer_ann, house_password, certificate authority (made)" in capsys.readouterr().out
    )
    before = contents(tmp_path)
    assert main(words) == 0
    assert "nothing: all was there" in capsys.readouterr().out
    assert contents(tmp_path) == before


def test_each_container_gets_its_own_and_digests_instead_of_keys(
    tmp_path: Path, words: list[str]
) -> None:
    main(words)
    held = json.loads((tmp_path / "secrets/secrets.json").read_text())
    app = tmp_path / "credentials/app"
    assert {path.name for path in app.iterdir()} == {"password", "keys"}
    assert (app / "password").read_text() == held["house_password"]
    assert held["consumer_ann"] not in (app / "keys").read_text()
    for path in app.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert {path.name for path in (tmp_path / "pki").iterdir()} == {"root.crt", "intermediate.crt"}


def test_a_deleted_credential_is_written_again(tmp_path: Path, words: list[str]) -> None:
    main(words)
    path = tmp_path / "credentials/app/password"
    text = path.read_text()
    path.unlink()
    main(words)
    assert path.read_text() == text


def test_a_secret_and_the_root_are_shown(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    capsys.readouterr()
    assert main([*words, "--show", "root.crt"]) == 0
    assert capsys.readouterr().out.startswith("-----BEGIN CERTIFICATE-----")
    assert main([*words, "--show", "nobody"]) == 1
    assert "nobody: there is no secret of this name" in capsys.readouterr().err


def test_damaged_secrets_are_one_line_and_are_not_replaced(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secrets/secrets.json").write_text("{")
    assert main(words) == 1
    assert "it is damaged: put the volume `secrets` back" in capsys.readouterr().err
    assert (tmp_path / "secrets/secrets.json").read_text() == "{"
