"""Access control: every path needs the key, and nothing can be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import ECHO, KEY, MODELS_KEY, Start, launch, prepare, streamed_text

VALVES = """
from pydantic import BaseModel
class Pipeline:
    class Valves(BaseModel):
        word: str = "one"
    def __init__(self):
        self.valves = self.Valves()
    def pipe(self, user_message, model_id, messages, body):
        return self.valves.word
"""
# Upstream itself requires no key for chat, valves and filters.
ALLOWED = [
    ("GET", "/v1/models", None),
    ("GET", "/v1/pipelines", None),
    ("GET", "/simple/valves", None),
    ("GET", "/simple/valves/spec", None),
    ("POST", "/v1/chat/completions", {"model": "simple", "messages": []}),
    ("POST", "/simple/filter/inlet", {"body": {"model": "simple"}}),
    ("POST", "/v1/simple/filter/outlet", {"body": {"model": "simple"}}),
]
CHANGES = [
    ("POST", "/pipelines/add", {"url": "https://example.org/more.py"}),
    ("POST", "/v1/pipelines/upload", {}),
    ("DELETE", "/pipelines/delete", {"id": "simple"}),
    ("POST", "/pipelines/reload", {}),
    ("POST", "/simple/valves/update", {"word": "two"}),
    ("POST", "/v1/simple/valves/update", {"word": "two"}),
]


def test_only_the_health_check_needs_no_key(start: Start) -> None:
    server = start({"simple": VALVES})
    for method, path, body in [*ALLOWED, *CHANGES]:
        for key in (None, "wrong", KEY[:-1]):
            answer = server.request(method, path, key=key, json=body)
            assert answer.status_code == 401, (path, key, answer.text)
    for method, path, body in ALLOWED:
        assert server.request(method, path, json=body).is_success, path
    assert server.request("GET", "/", key=None).json() == {"status": True}


def test_pipelines_and_valves_cannot_be_changed_over_http(start: Start) -> None:
    server = start({"simple": VALVES})
    for method, path, body in CHANGES:
        answer = server.request(method, path, json=body)
        assert answer.status_code == 403, path
        assert "inventory" in answer.json()["detail"]
    # Upstream would apply a valve in memory even if it cannot save it.
    assert streamed_text(server.chat("simple", "?")) == "one"
    for path in ("/docs", "/openapi.json", "/v1/audio/speech"):
        assert server.request("GET", path).status_code == 404


def test_models_are_listed_with_their_descriptions(start: Start) -> None:
    pipeline = "class Pipeline:\n  name, description = 'A name', 'Its own words'\n"
    pipeline += "  def pipe(self, **arguments):\n    return ''\n"
    server = start({"simple": ECHO.format(text="Says it back"), "named": pipeline})
    listed = {model["id"]: model for model in server.request("GET", "/models").json()["data"]}
    assert listed["simple"]["info"] == {"meta": {"description": "Says it back"}}
    assert listed["named"]["name"] == "A name"
    assert listed["named"]["info"] == {"meta": {"description": "Its own words"}}


@pytest.mark.parametrize(
    ("key", "reason"),
    [("0p3n-w3bu!", "public default"), ("short", "can be guessed"), ("", "can be guessed")],
)
def test_public_and_short_keys_are_rejected(tmp_path: Path, key: str, reason: str) -> None:
    prepare(tmp_path / "pipelines", {"simple": VALVES}, {})
    server = launch(tmp_path, "http://127.0.0.1:1/v1", key)
    assert server.process.wait(30) == 2
    assert reason in server.log
    assert len(server.log.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["pythonpath", "openai_api_key", "pipelines_dir"])
def test_a_secret_that_would_replace_a_variable_is_rejected(tmp_path: Path, name: str) -> None:
    prepare(tmp_path / "pipelines", {"simple": VALVES}, {})
    server = launch(tmp_path, "http://127.0.0.1:1/v1", other_name=name)
    assert server.process.wait(30) == 2
    (line,) = server.log.strip().splitlines()
    assert f"the secret {name} would replace the variable {name.upper()}, which is in use" in line


def test_no_secret_is_in_the_command_line_environment_block_or_log(start: Start) -> None:
    pipeline = "import os\nclass Pipeline:\n  def pipe(self, **arguments):\n"
    pipeline += "    return os.environ['TOWN_KEY'] + os.environ['OPENAI_BASE_URL'][-3:]\n"
    server = start({"simple": pipeline})
    assert streamed_text(server.chat("simple", "?")) == "t/v1"
    process = Path("/proc", str(server.process.pid))
    visible: Any = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
    for secret in (KEY, MODELS_KEY):
        assert secret.encode() not in visible
        assert secret not in server.log
