"""Each fix says beforehand what it will do, and does just that."""

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from hearth.catalogue.schema import HealthRecord
from hearth.clients.health import HealthResult
from hearth.doctor import fixes, kinds
from hearth.doctor.finding import Finding
from hearth.doctor.fixes import FixError, fix, plan
from hearth.machine import images, runs
from hearth.machine.engine import Completed, EngineError
from tests.unit.doctor.conftest import HOUSE


class Commands:
    """Records what was executed; nothing is."""

    def __init__(self) -> None:
        self.ran: list[tuple[str | None, str]] = []
        self.code = 0
        self.looks: list[str] = []
        # The reasons of the next health checks, the first one last; then all is healthy.
        self.answers: list[str] = []

    def __call__(self, instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        self.ran.append((instance, " ".join(argv).rpartition("/")[2]))
        return Completed(self.code, "", "it failed")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands()
    monkeypatch.setattr("hearth.doctor.fixes.engine.execute", commands)
    monkeypatch.setattr("hearth.doctor.fixes.engine.is_running", lambda name: True)
    monkeypatch.setattr("hearth.doctor.fixes._LOOK_AGAIN_S", 0)

    async def answer(url: str, health: HealthRecord) -> HealthResult:
        commands.looks.append(url)
        return HealthResult(commands.answers.pop() if commands.answers else "", 0)

    monkeypatch.setattr("hearth.doctor.fixes.health.look", answer)
    return commands


def test_a_dead_or_hung_program_is_restarted_where_it_runs(ran: Commands) -> None:
    dead = Finding(kinds.SERVICE_DOWN, "kokoro", "inactive")
    assert plan(dead, HOUSE).startswith("restart kokoro.service in the instance kokoro")
    assert ran.ran == []
    assert fix(dead, HOUSE) == "restarted kokoro.service in the instance kokoro"
    hung = Finding(kinds.SERVICE_HUNG, "login", "stopped")
    assert fix(hung, HOUSE) == "restarted hearth-login.service on this machine"
    assert ran.ran == [
        ("kokoro", "systemctl reset-failed kokoro.service"),
        ("kokoro", "systemctl restart kokoro.service"),
        (None, "systemctl reset-failed hearth-login.service"),
        (None, "systemctl restart hearth-login.service"),
    ]


def test_a_restart_ends_when_the_program_answers(ran: Commands) -> None:
    ran.answers = ["health returns HTTP 503", "no answer: its port is closed"]
    fix(Finding(kinds.SERVICE_HUNG, "kokoro", "halted"), HOUSE)
    assert ran.looks == [HOUSE.services["kokoro"].url] * 3


def test_a_stopped_instance_is_started(ran: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.doctor.fixes.engine.is_running", lambda name: False)
    assert fix(Finding(kinds.SERVICE_DOWN, "kokoro", "x"), HOUSE) == "started the instance kokoro"
    assert ran.ran == [(None, "incus start kokoro")]


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        (kinds.FIREWALL_GONE, "hearth-firewall.service"),
        (kinds.DOCKER_BLOCKS, "hearth-firewall-watch.service"),
        (kinds.INCUS_DOWN, "incus.service"),
        (kinds.WATCHER_SILENT, "hearth-watch.service"),
    ],
)
def test_a_unit_of_the_machine_is_restarted(ran: Commands, kind: Any, unit: str) -> None:
    found = Finding(kind, "", "x")
    assert plan(found, HOUSE).startswith(f"restart {unit}, which")
    assert fix(found, HOUSE) == f"restarted {unit}"
    assert ran.ran[-1] == (None, f"systemctl restart {unit}")


def test_downloads_are_tried_again_and_their_server_goes_on(ran: Commands) -> None:
    failed = Finding(kinds.MODEL_FAILED, "qwen3.5:4b", "since Monday")
    assert "tries again at once" in plan(failed, HOUSE)
    fix(failed, HOUSE)
    assert ran.ran[-1] == ("ollama", "systemctl restart ollama-models.service")


def test_a_fix_that_fails_says_so(ran: Commands) -> None:
    ran.code = 1
    with pytest.raises(FixError, match=r"HEARTH-SERVICE-DOWN:kokoro: .*it failed"):
        fix(Finding(kinds.SERVICE_DOWN, "kokoro", "x"), HOUSE)


def test_what_has_no_safe_fix_is_refused(ran: Commands) -> None:
    with pytest.raises(FixError, match="no safe fix"):
        plan(Finding(kinds.SERVICE_LOOPS, "kokoro", "x"), HOUSE)
    with pytest.raises(FixError, match="no service or part"):
        fix(Finding(kinds.SERVICE_DOWN, "../etc", "x"), HOUSE)
    assert ran.ran == []


class Server(BaseHTTPRequestHandler):
    """Lists two loaded models, and notes which are unloaded."""

    unloaded: ClassVar[list[Any]] = []

    def do_GET(self) -> None:
        self._answer({"models": [{"name": "one:latest"}, {"name": "two:latest"}]})

    def do_POST(self) -> None:
        self.unloaded.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer({})

    def _answer(self, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep still."""


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (Finding(kinds.MODEL_ON_CPU, "one:latest", "x"), ["one:latest"]),
        (Finding(kinds.SWAP, "ollama", "x"), ["one:latest", "two:latest"]),
    ],
)
def test_models_are_unloaded(found: Finding, wanted: list[str], ran: Commands) -> None:
    Server.unloaded.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        services = {**HOUSE.services, "ollama": replace(HOUSE.services["ollama"], url=url)}
        assert "unload" in plan(found, HOUSE)
        done = fix(found, replace(HOUSE, services=services))
        assert done.count("is out of the memory of ollama") == len(wanted)
    finally:
        server.shutdown()
        server.server_close()
    assert [one["model"] for one in Server.unloaded] == wanted
    assert all(one["keep_alive"] == 0 for one in Server.unloaded)
    assert ran.ran == []


def test_swap_of_a_program_without_a_puller_is_freed_by_a_restart(ran: Commands) -> None:
    found = Finding(kinds.SWAP, "kokoro", "x")
    assert plan(found, HOUSE).startswith("restart kokoro.service")
    assert "restarted" in fix(found, HOUSE)


def test_only_a_half_finished_image_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "FOLDER", tmp_path / "images")
    monkeypatch.setattr(runs, "LOCK", tmp_path / "lock")
    left, kept = tmp_path / "images/.image-x", tmp_path / "kept"
    for folder in (left, kept):
        folder.mkdir(parents=True)
    with pytest.raises(FixError):
        fix(Finding(kinds.IMAGE_UNFINISHED, str(kept), "x"), HOUSE)
    assert fix(Finding(kinds.IMAGE_UNFINISHED, str(left), "x"), HOUSE) == f"removed {left}"
    assert kept.exists()
    assert not left.exists()


def test_only_processes_of_a_dead_run_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").touch()
    monkeypatch.setattr(runs, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(runs, "at_work", lambda machine: {"dead": {11: "a"}, "alive": {12: "b"}})
    monkeypatch.setattr(runs, "is_alive", lambda name: name == "alive")
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr("hearth.doctor.fixes.os.kill", lambda *given: ended.append(given))
    found = Finding(kinds.RUN_UNFINISHED, "", "x")
    assert "end the processes" in plan(found, HOUSE)
    assert fix(found, HOUSE) == "ended 1 processes of a killed run"
    assert ended == [(11, signal.SIGKILL)]


def test_an_edited_file_is_written_again_by_a_run_for_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def run(argv: list[str], **more: Any) -> Any:
        calls.append(argv)
        return Completed(0, "", "")

    monkeypatch.setattr("hearth.doctor.fixes.subprocess.run", run)
    monkeypatch.setattr(
        fixes, "current", lambda: type("Project", (), {"root": tmp_path, "logs": tmp_path})
    )
    found = Finding(kinds.FILE_EDITED, "open-webui:/etc/hearth/x", "x")
    assert "edits by hand are lost" in plan(found, HOUSE)
    assert fix(found, HOUSE) == "converged open-webui"
    assert calls[0][1:] == ["site.yml", "--limit", "localhost,house,open-webui"]
    fix(Finding(kinds.FILE_EDITED, "/etc/hearth/x", "x"), HOUSE)
    assert calls[1][-1] == "localhost,house"


def test_an_engine_that_does_not_answer_is_an_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(name: str) -> bool:
        raise EngineError("kokoro: no response in 20 s")

    monkeypatch.setattr("hearth.doctor.fixes.engine.is_running", lost)
    with pytest.raises(FixError, match="no response"):
        fix(Finding(kinds.SERVICE_DOWN, "kokoro", "x"), HOUSE)
