"""`hearth bench llm` as a person types it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from hearth import status
from hearth.bench import accelerator
from hearth.bench.llm import run
from hearth.cli import bench, bench_llm
from hearth.clients import ClientError
from hearth.clients.models import READY, WAITING, ModelState, Overview
from hearth.files import locked
from hearth.machine.power import PowerMeter
from hearth.plan.machine import MeasuredMachine, MemoryNode, Rate
from tests.documents import shipped_house
from tests.unit.bench.llm.scripted import SMALL, Servers, proven

SLOW_MACHINE = MeasuredMachine(
    name="m", processor="p", architecture="x86_64", cores=2, memory_bytes=64 * 2**30
)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Servers:
    """A house in which llama3.1 and qwen3.5 are ready, on a machine of 64 GiB."""
    house, servers = shipped_house(), Servers()
    ready = ("llama3.1", "qwen3.5")
    states = {
        name: ModelState(name, one.id, one.provider, one.kind, READY if name in ready else WAITING)
        for name, one in house.models.items()
    }
    vault = SimpleNamespace(get=lambda name: "key")
    project = SimpleNamespace(house=lambda: house, vault=vault)

    async def prove(call: Any, model: str, *, cardless: bool) -> Any:
        return proven(model)

    async def versions(*_: Any) -> dict[str, str]:
        return {"ollama": "0.35.0"}

    for name, value in {
        "current": lambda: project,
        "JOURNAL": tmp_path / "kept/bench-llm.jsonl",
        "REPORT": tmp_path / "kept/bench-llm.json",
        "RECEIPT_FOLDER": tmp_path / "kept",
        "power_meter": lambda: PowerMeter({}, {}),
        "measure": lambda: SLOW_MACHINE,
        "find_llmfit": lambda: None,
        "devices_of": lambda house, model: [],
        "_versions": versions,
    }.items():
        monkeypatch.setattr(bench_llm, name, value)
    transport = SimpleNamespace(AsyncClient=lambda **_: servers.client())
    monkeypatch.setattr(bench_llm, "httpx", transport)
    monkeypatch.setattr(accelerator, "prove", prove)
    monkeypatch.setattr(status, "models", lambda house: Overview(states, {}))
    monkeypatch.setattr(run, "QUICK", SMALL)
    return servers


def hearth(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(bench.app, ["llm", *arguments])
    if isinstance(done.exception, ClientError):
        return 1, done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


def test_all_models_are_measured_and_everything_is_written(
    servers: Servers, tmp_path: Path
) -> None:
    _, output, _ = hearth("--quick", "--out", str(tmp_path / "new"))
    assert "Generated tokens per second" in output
    for folder in ("new", "kept"):
        report = json.loads((tmp_path / folder / "bench-llm.json").read_text())
        assert [one["name"] for one in report["models"]] == ["qwen3.5", "llama3.1"]
    assert "not there yet (waiting)" in report["skipped"]["qwen2.5-coder:7b"]
    # What turns text into numbers generates none.
    assert "nomic-embed-text" not in report["skipped"]
    assert report["models"][0]["expected"]["hearth"]["where"] == "cpu"
    assert (tmp_path / "new/bench-llm.md").read_text().startswith("# Language models, measured")
    assert (tmp_path / "new/bench-llm.png").stat().st_size > 1000
    assert (tmp_path / "new/bench-llm.jsonl").read_bytes().count(b"\n") > 20


def test_an_alias_is_measured_by_its_own_name(servers: Servers) -> None:
    _, output, _ = hearth("--quick", "--model", "local", "--only", "prompts", "--json")
    (model,) = json.loads(output)["models"]
    assert (model["name"], model["id"], model["stopped"]) == ("local", "qwen3.5", "")
    paths = {path for _, path, _ in servers.requests}
    assert paths == {"/api/chat", "/v1/chat/completions"}
    asked = {(path, body["model"]) for _, path, body in servers.requests}
    assert asked == {("/api/chat", "qwen3.5"), ("/v1/chat/completions", "local")}


def test_the_last_report_is_shown_beside_another_machines(servers: Servers, tmp_path: Path) -> None:
    hearth("--quick", "--model", "llama3.1", "--out", str(tmp_path / "new"))
    sent = len(servers.requests)
    other = tmp_path / "new/bench-llm.json"
    changed = json.loads(other.read_text()) | {"versions": {"ollama": "0.36.0"}}
    other.write_text(json.dumps(changed))
    _, output, _ = hearth("--show", "--against", str(other))
    assert len(servers.requests) == sent
    assert "ollama is 0.35.0 here and 0.36.0 there" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--against", "missing.json"), "missing.json: No such file"),
        (("--show",), "bench-llm.json: No such file"),
        (("--model", "qwen3.6"), "no model or alias 'qwen3.6'"),
        (("--model", "qwen3-vl"), "no model to measure: qwen3-vl: it is not there yet (waiting)"),
        (("--model", "haiku"), "haiku"),
        (("--only", "prompt"), "prompts"),
    ],
)
def test_wrong_words_are_refused_in_one_line_before_anything_is_sent(
    servers: Servers, arguments: tuple[str, ...], words: str
) -> None:
    code, _, error = hearth("--quick", *arguments)
    assert code != 0
    assert words in error
    assert servers.requests == []


def test_a_second_run_at_once_is_refused(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with locked(tmp_path / "kept/.bench-llm.lock"):
        code, _, error = hearth("--quick")
    assert code == 1
    assert "another `hearth bench llm` is running" in error


def test_a_slow_model_is_exit_code_one(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, _ = hearth("--quick", "--model", "llama3.1", "--json")
    (model,) = json.loads(output)["models"]
    # 20 tokens/s of 7.6 billion parameters from assumed 40 GB/s are more than physics allow.
    assert (model["match"], code) == ("faster", 0)
    rate = Rate(median=900e9, low=900e9, high=900e9, source="made up")
    node = MemoryNode(number=0, processors=64, memory_bytes=64 * 2**30, bandwidth=rate)
    monkeypatch.setattr(bench_llm, "measure", lambda: replace(SLOW_MACHINE, nodes=(node,)))
    code, output, _ = hearth("--quick", "--model", "llama3.1", "--json")
    assert (json.loads(output)["models"][0]["match"], code) == ("slower", 1)
