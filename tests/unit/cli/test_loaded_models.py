"""`hearth models` and `hearth models unload`, against a server with Ollama's interface."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest
from typer.testing import CliRunner, Result

from hearth import project, status
from hearth.catalogue import House, derive, load
from hearth.cli.app import app
from hearth.clients import ClientError
from hearth.clients.loaded import PlannedMemory, loaded_models, planned_memory, unload
from hearth.clients.models import Overview
from tests.ports import kept_port

INVENTORY = Path(__file__).parents[3] / "inventory"
GB = 10**9
Gpu = Literal["none", "auto", "vulkan"]


class Ollama(BaseHTTPRequestHandler):
    """Has three models in memory: on a card, on both, and one of no inventory on the processor."""

    loaded: dict[str, int]
    unloaded: list[dict[str, Any]]

    def do_GET(self) -> None:
        entries = [
            {"name": name, "size": 4 * GB, "size_vram": card, "expires_at": "2026-11-23T15:00:00Z"}
            for name, card in self.loaded.items()
        ]
        self._send({"models": entries} if self.path == "/api/ps" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.unloaded.append(body)
        if self.path == "/api/generate" and body.get("keep_alive") == 0 and "prompt" not in body:
            self.loaded.pop(body["model"])
        self._send({"done": True})

    def _send(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep still."""


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    Ollama.loaded = {"qwen3.5:4b": 4 * GB, "llama3.1:latest": 3 * GB, "own:1b": 0}
    Ollama.unloaded = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ollama)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made = served(derive(load(INVENTORY)), f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(project.Project, "house", lambda _: made)
    monkeypatch.setattr(status, "models", lambda _: Overview({}, {}))
    monkeypatch.setattr("hearth.machine.facts.has_card", lambda _: True)
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def served(house: House, url: str) -> House:
    ollama = replace(house.services["ollama"], url=url)
    return replace(house, services={**house.services, "ollama": ollama})


def call(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_models_in_memory_are_shown_with_their_place(house: House) -> None:
    shown = [re.split(" {2,}", line.strip()) for line in call("models").output.splitlines()]
    places = {words[0]: words[-1] for words in shown}
    assert {name: places[name] for name in Ollama.loaded} == {
        "qwen3.5:4b": "graphics card",
        "llama3.1:latest": "75% on the graphics card, the rest on the processor",
        "own:1b": "processor",
    }
    document = json.loads(call("models", "--json").output)
    assert [(one["name"], one["vram_bytes"]) for one in document["loaded"]] == [
        ("qwen3.5:4b", 4 * GB),
        ("llama3.1:latest", 3 * GB),
        ("own:1b", 0),
    ]


@pytest.mark.parametrize(("gpu", "card"), [("auto", False), ("vulkan", False), ("none", True)])
def test_without_a_card_nothing_is_on_one(
    house: House, gpu: Gpu, card: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ollama counts a processor's AMX buffers as a card's: 3 % of a model in the lab."""
    monkeypatch.setattr("hearth.machine.facts.has_card", lambda _: card)
    own = replace(house.services["ollama"], gpu=gpu)
    found = loaded_models(own)
    assert [one.vram_bytes for one in found] == [0, 0, 0]
    assert [one.size_bytes for one in found] == [4 * GB] * 3
    # Another machine may have a card, and a program that renders in software is one for Ollama.
    for other in (replace(own, address=None), replace(own, gpu="software")):
        assert [one.vram_bytes for one in loaded_models(other)] == [4 * GB, 3 * GB, 0]


def test_a_server_that_is_down_is_a_note_and_the_rest_is_shown(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_port() as port:
        down = served(house, f"http://127.0.0.1:{port}")
        monkeypatch.setattr(project.Project, "house", lambda _: down)
        result = call("models")
    assert result.exit_code == 0
    assert "ollama: http://127.0.0.1" in result.output


@pytest.mark.parametrize(
    ("name", "there"),
    # By the house's name, by another spelling, and one that no inventory has.
    [("qwen3.5:4b", "qwen3.5:4b"), ("llama3.1", "llama3.1:latest"), ("own:1b", "own:1b")],
)
def test_a_model_is_unloaded(house: House, name: str, there: str) -> None:
    result = call("models", "unload", name)
    assert result.exit_code == 0
    assert result.output == f"{there} is out of the memory of ollama, which frees 3.7 GiB\n"
    assert there not in Ollama.loaded
    assert len(Ollama.loaded) == 2


def test_json_for_programs(house: House) -> None:
    answer = json.loads(call("models", "unload", "own:1b", "--json").output)
    assert answer["model"] == "own:1b"
    assert answer["text"].startswith("own:1b is out of the memory")


def test_what_cannot_be_unloaded_is_one_line_that_says_why(house: House) -> None:
    for name, why in (
        ("qwen3-vl", "qwen3-vl is not in memory"),
        ("qwen3.5:4", "no model 'qwen3.5:4': did you mean qwen3.5:4b?"),
    ):
        with pytest.raises(ClientError) as error:
            unload(house, name)
        assert str(error.value) == why
    result = call("models", "unload", "fast")
    assert result.exit_code == 2
    assert "fast is an alias: name the model" in result.output
    assert Ollama.unloaded == []


def plan_file(folder: Path, content: str | None = None) -> Path:
    path = folder / "plan.json"
    rows = [{"name": "qwen3.5:4b", "needed_bytes": 4 * GB}, {"name": "x", "needed_bytes": GB}]
    place = {"name": "card", "room_bytes": 6 * GB}
    path.write_text(json.dumps({"place": place, "models": rows}) if content is None else content)
    return path


def test_the_plan_is_shown_beside_what_is_in_memory(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = planned_memory(plan_file(tmp_path))
    monkeypatch.setattr("hearth.cli.status.planned_memory", lambda: plan)
    shown = [re.split(" {2,}", line.strip()) for line in call("models").output.splitlines()]
    cells = {words[0]: words[1:3] for words in shown if len(words) > 2}
    assert cells["qwen3.5:4b"] == ["4.0 GB", "4.0 GB"]
    # It is in no plan.
    assert cells["own:1b"] == ["4.0 GB", "-"]
    assert ["together 12.0 GB of 6.0 GB planned for models on card"] in shown
    document = json.loads(call("models", "--json").output)
    assert [one["planned_bytes"] for one in document["loaded"]] == [4 * GB, 0, 0]
    assert document["room_bytes"] == 6 * GB


@pytest.mark.parametrize("content", ["", "[]", "{", '{"place": 5}', '{"models": [1]}', "[" * 99999])
def test_without_a_readable_plan_nothing_is_planned(tmp_path: Path, content: str) -> None:
    assert planned_memory(plan_file(tmp_path, content)) == PlannedMemory()
    assert planned_memory(tmp_path / "none") == PlannedMemory()
