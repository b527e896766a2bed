"""The drill's gateway reads its own files, calls only the drill's agent, and leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.machine import engine, systemd
from hearth.render.units import systemd_unit
from hearth.smoke.drill import agent, gateway
from hearth.smoke.drill.gateway import HOST, DrillError, GatewayPlan, make_plan
from tests.documents import shipped_house
from tests.small_house import alias, model, small_house

LIVE = shipped_house().services["litellm"]
FILES = {"config.yaml", "aliases.json", "consumers.json"}
NO_PLAN = GatewayPlan({}, (), {})
TAKEN = engine.Completed(1, "", "Failed to start transient service unit: already exists.\n")
IDLE = systemd.UnitState("inactive", "dead", "success", 0)


class Machine:
    """An instance that answers each command in turn, and records its input."""

    def __init__(self, *answers: engine.Completed) -> None:
        self._answers = list(answers)
        self.commands: list[Sequence[str]] = []

    def execute(self, instance: str, argv: Sequence[str], **_: Any) -> engine.Completed:
        self.commands.append(argv)
        return self._answers.pop(0) if self._answers else engine.Completed(0, "", "")

    def stopped(self) -> bool:
        return any(argv[:2] == ["/usr/bin/systemctl", "stop"] for argv in self.commands)


def drilled(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "execute", machine.execute)
    monkeypatch.setattr(systemd, "unit_state", lambda *_: IDLE)
    monkeypatch.setattr(systemd, "journal", lambda *_: ["it ended"])
    with gateway.beside(LIVE, NO_PLAN, "key"):
        pass


def test_a_second_drill_does_not_stop_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(TAKEN)
    with pytest.raises(DrillError, match="already exists"):
        drilled(machine, monkeypatch)
    assert not machine.stopped()


def test_an_agent_that_was_started_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    with pytest.raises(DrillError, match="it ended"):
        drilled(machine, monkeypatch)
    assert machine.stopped()


OLLAMA = "http://10.140.30.10:11434"
COMMAND = ["/usr/bin/python3", "-m", "hearth_gateway", "--config", "/etc/litellm/config.yaml"]
UNIT: dict[str, Any] = {
    "summary": "One address for all models.",
    "user": "litellm",
    "command": [*COMMAND, "--host", "10.140.30.14", "--port", "4000"],
    "environment": {"HOME": "/nonexistent"},
    "credentials": ["consumer_digests", "openrouter_api_key"],
    "exceptions": {"ProcSubset": {"value": "all", "reason": "it reads processors"}},
}


CLOUD: dict[str, Any] = {
    "local": False,
    "url": None,
    "litellm": "openrouter",
    "secret": "openrouter_api_key",
}
MODELS = [
    model("a", OLLAMA),
    model("b", OLLAMA),
    replace(model("far", OLLAMA), **CLOUD),
    model("t", OLLAMA, kind="transcribe"),
    model("alone", OLLAMA),
]
ALIASES = [
    alias("fast", "a", "b"),
    alias("far", "far", "a"),
    alias("hear", "t"),
    alias("soon", "a", "b", first_token_timeout_s=0.5, timeout_s=2),
]


def plan() -> GatewayPlan:
    house = small_house(MODELS, ALIASES, {"owner": "all"})
    return make_plan(house, {"b", "far"}, 1.0)


def test_requests_for_every_member_of_an_alias_go_to_the_agent() -> None:
    made = plan()
    ports = {one.name: one.port for one in made.members}
    config = yaml.safe_load(made.files["config.yaml"])
    routes = {route["model_name"]: route["litellm_params"] for route in config["model_list"]}
    for name in ("a", "b", "far"):
        assert routes[name]["api_base"] == f"http://{HOST}:{ports[name]}/v1"
        assert routes[name]["model"] == f"openai/{name}"
        # No key of a cloud is sent anywhere, not even to the agent.
        assert routes[name]["api_key"] == "none"
    assert len(set(ports.values())) == len(ports)
    names = json.loads(made.files["aliases.json"])
    assert names["hear"]["servers"]["t"]["url"] == f"http://{HOST}:{ports['t']}"
    assert made.files.keys() == FILES


def test_only_a_member_of_this_house_is_used_where_it_is() -> None:
    real = {one.name: one.real for one in plan().members}
    assert real == {"a": None, "b": OLLAMA, "far": None, "t": None}
    kinds = {one.name: one.kind for one in plan().members}
    assert kinds == {"a": "chat", "b": "chat", "far": "chat", "t": "transcribe"}


def test_only_the_times_are_shortened() -> None:
    aliases = plan().aliases
    assert aliases.keys() == {"fast", "far", "hear", "soon"}
    assert (aliases["fast"].first_token_timeout_s, aliases["fast"].timeout_s) == (1.0, 4.0)
    assert (aliases["soon"].first_token_timeout_s, aliases["soon"].timeout_s) == (0.5, 2)


def test_the_second_gateway_differs_from_the_unit_in_files_address_and_end_only() -> None:
    argv = gateway.gateway_argv(systemd_unit("litellm", UNIT), "/etc/litellm")
    settings = [word.removeprefix("--property=") for word in argv if word.startswith("--property=")]
    for same in (
        "User=litellm",
        "ProtectSystem=strict",
        "ProcSubset=all",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged",
        "LoadCredential=consumer_digests:/etc/hearth/credentials/litellm/consumer_digests",
    ):
        assert same in settings
    assert not [line for line in settings if line.startswith(("Restart=", "ExecStart"))]
    assert {
        "BindReadOnlyPaths=/run/hearth-drill/etc:/etc/litellm",
        "BindsTo=hearth-drill.service",
        "MemoryMax=1G",
        "RuntimeMaxSec=900",
    } <= set(settings)
    command = argv[argv.index("--") + 1 :]
    assert command == [*COMMAND, "--host", HOST, "--port", "4000"]


def test_the_agent_gets_everything_at_its_start_and_has_a_user_of_its_own() -> None:
    argv = gateway.agent_argv(plan())
    assert "--property=DynamicUser=yes" in argv
    assert "--property=RuntimeDirectory=hearth-drill" in argv
    assert "--property=SystemCallFilter=~@privileged" in argv
    # The kernel rejects a longer argument.
    assert max(map(len, argv)) < 128 * 1024


def test_the_agent_runs_from_the_command_and_the_data_that_it_is_given(tmp_path: Path) -> None:
    """Run as systemd runs it: the program and the plan come on standard input."""
    made = {**plan().as_json(), "idle_s": 0.2, "members": []}
    program = Path(agent.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-c", gateway._BOOT],
        input=zlib.compress(json.dumps({"program": program, "plan": made}).encode()),
        env={"RUNTIME_DIRECTORY": str(tmp_path)},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert {path.name for path in (tmp_path / "etc").iterdir()} == FILES
