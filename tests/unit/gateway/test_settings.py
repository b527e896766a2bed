"""The gateway's files: what is read, what is refused, and that no key is ever quoted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hearth_gateway.settings import GatewayConfig, GatewayError, export_secrets, load_config

SHOWN = {"title": "Fast", "summary": "", "talks": True, "leaves": False}
NAMES = {"fast": {"members": ["m"], "first_token_timeout_s": 1, "timeout_s": 2, **SHOWN}, "m": {}}
NAMES["m"] = NAMES["fast"]


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def write(folder: Path, **files: Any) -> Path:
    given = {"aliases.json": NAMES, "consumers.json": {"ann": {"models": "all"}}}
    for name, content in (given | {"consumer_digests": {"ann": digest("key-a")}} | files).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)
    return folder


def read(folder: Path) -> GatewayConfig:
    return load_config(folder, folder)


def test_a_key_finds_its_consumer(tmp_path: Path) -> None:
    people = {"ann": {"models": "all"}, "bob": {"models": ["fast", "gone"]}}
    keys = {"ann": "key-a", "bob": "key-b", "left": "key-c"}
    digests = {name: digest(key) for name, key in keys.items()}
    config = read(write(tmp_path, **{"consumers.json": people, "consumer_digests": digests}))
    ann, bob = config.consumer("key-a"), config.consumer("key-b")
    assert ann is not None
    assert bob is not None
    assert ann.names == {"fast", "m"}
    # A name that is no longer offered is not opened either.
    assert bob.names == {"fast"}
    for wrong in ("", "key", "key-a ", "key-c", "ann", digest("key-a")):
        assert config.consumer(wrong) is None
    assert "key-a" not in repr(config)


def test_the_gateways_own_key_belongs_to_no_consumer(tmp_path: Path) -> None:
    config = read(write(tmp_path))
    assert config.is_own(config.own_key)
    assert not config.is_own("")
    assert config.consumer(config.own_key) is None


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"consumer_digests": {}}, "no SHA-256 of a key for consumer ann"),
        # A key itself is not accepted.
        ({"consumer_digests": {"ann": "key-secret"}}, "no SHA-256 of a key for consumer ann"),
        ({"consumer_digests": "key-secret"}, "is not JSON"),
        ({"aliases.json": "[]"}, "is not a mapping"),
        (
            {"aliases.json": {"fast": {"members": ["m"]}}},
            "fast needs members, first_token_timeout_s",
        ),
        ({"aliases.json": {"fast": NAMES["fast"] | {"capabilities": None}}}, "summary, talks and"),
        ({"aliases.json": {"fast": 3}}, "fast needs members, first_token_timeout_s"),
    ],
)
def test_an_error_is_one_line_with_the_file(
    tmp_path: Path, files: dict[str, Any], says: str
) -> None:
    with pytest.raises(GatewayError) as refused:
        read(write(tmp_path, **files))
    text = str(refused.value)
    assert says in text
    assert str(tmp_path) in text
    assert "\n" not in text
    assert "secret" not in text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match=r"aliases\.json: No such file"):
        read(tmp_path)


def test_secrets_become_variables_and_keys_do_not(tmp_path: Path) -> None:
    write(tmp_path, consumer_digests={"ann": "k"}, openrouter_api_key="sk-or-1\n")
    for name in ("aliases.json", "consumers.json"):
        (tmp_path / name).unlink()
    variables: dict[str, str] = {}
    assert export_secrets(tmp_path, variables) == ["OPENROUTER_API_KEY"]
    assert variables == {"OPENROUTER_API_KEY": "sk-or-1"}
