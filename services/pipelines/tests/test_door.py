"""Who may ask, and what nobody may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import ANSWERS, KEY, MODELS_KEY, Start, begin, prepare, words

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
# Of what upstream serves, chat, valves and filters ask for no key of their own.
ASKED = [
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


def test_only_the_health_is_told_without_the_key(start: Start) -> None:
    server = start({"simple": VALVES})
    for method, path, body in [*ASKED, *CHANGES]:
        for key in (None, "wrong", KEY[:-1]):
            answer = server.ask(method, path, key=key, json=body)
            assert answer.status_code == 401, (path, key, answer.text)
    for method, path, body in ASKED:
        assert server.ask(method, path, json=body).is_success, path
    assert server.ask("GET", "/", key=None).json() == {"status": True}


def test_nobody_changes_what_the_inventory_says(start: Start) -> None:
    server = start({"simple": VALVES})
    for method, path, body in CHANGES:
        answer = server.ask(method, path, json=body)
        assert answer.status_code == 403, path
        assert "inventory" in answer.json()["detail"]
    # Upstream keeps a refused valve in its memory.
    assert words(server.chat("simple", "?")) == "one"
    for path in ("/docs", "/openapi.json", "/v1/audio/speech"):
        assert server.ask("GET", path).status_code == 404


def test_a_model_is_listed_with_its_words_for_people(start: Start) -> None:
    named = "class Pipeline:\n  name, description = 'A name', 'Its own words'\n"
    named += "  def pipe(self, **asked):\n    return ''\n"
    server = start({"simple": ANSWERS.format(words="Says it back"), "named": named})
    listed = {model["id"]: model for model in server.ask("GET", "/models").json()["data"]}
    assert listed["simple"]["info"] == {"meta": {"description": "Says it back"}}
    assert listed["named"]["name"] == "A name"
    assert listed["named"]["info"] == {"meta": {"description": "Its own words"}}


@pytest.mark.parametrize(
    ("key", "reason"),
    [("0p3n-w3bu!", "public default"), ("short", "can be guessed"), ("", "can be guessed")],
)
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: str, reason: str) -> None:
    prepare(tmp_path / "pipelines", {"simple": VALVES}, {})
    server = begin(tmp_path, "http://127.0.0.1:1/v1", key)
    assert server.process.wait(30) == 2
    assert reason in server.log
    assert len(server.log.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["pythonpath", "openai_api_key", "pipelines_dir"])
def test_a_secret_that_would_stand_in_another_ones_place_is_refused(
    tmp_path: Path, name: str
) -> None:
    prepare(tmp_path / "pipelines", {"simple": VALVES}, {})
    server = begin(tmp_path, "http://127.0.0.1:1/v1", named=name)
    assert server.process.wait(30) == 2
    (line,) = server.log.strip().splitlines()
    assert f"the secret {name} would stand in {name.upper()}, which has a meaning" in line


def test_no_secret_stands_where_others_look(start: Start) -> None:
    pipeline = "import os\nclass Pipeline:\n  def pipe(self, **asked):\n"
    pipeline += "    return os.environ['TOWN_KEY'] + os.environ['OPENAI_BASE_URL'][-3:]\n"
    server = start({"simple": pipeline})
    assert words(server.chat("simple", "?")) == "t/v1"
    process = Path("/proc", str(server.process.pid))
    shown: Any = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
    for secret in (KEY, MODELS_KEY):
        assert secret.encode() not in shown
        assert secret not in server.log
