"""The engine returns all output, keeps its deadline, and explains in one line."""

import threading
from pathlib import Path
from typing import Any

import pylxd.exceptions
import pytest

from hearth.machine import engine
from tests.unit.engine.instance import Instance


def test_execute_passes_input_output_and_exit_code(incus: Any) -> None:
    instance = Instance(code=3, stdout="ä\n".encode())
    incus(instance)
    done = engine.execute("ollama", ["/bin/x", "a b"], timeout=4, stdin="in")
    assert done == engine.Completed(3, "ä\n", "why\n")
    assert instance.calls == [
        (["/usr/bin/timeout", "--kill-after=2", "4", "/bin/x", "a b"], b"in"),
    ]


def test_a_command_that_exceeds_its_timeout_is_an_error(incus: Any) -> None:
    incus(Instance(code=124))
    with pytest.raises(engine.EngineError, match=r"^ollama: `/bin/x` took longer than 4 s$"):
        engine.execute("ollama", ["/bin/x"], timeout=4)


def test_an_engine_that_hangs_is_an_error(incus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_GRACE_S", 0.05)
    over, instance = threading.Event(), Instance()
    monkeypatch.setattr(instance, "execute", lambda *_: over.wait(30))
    incus(instance)
    with pytest.raises(engine.EngineError, match=r"^ollama: no response in 0.1 s$"):
        engine.execute("ollama", ["/bin/x"], timeout=0.05)
    over.set()


def test_a_missing_instance_is_reported_with_the_fix(incus: Any) -> None:
    incus(pylxd.exceptions.NotFound(None))
    with pytest.raises(engine.EngineError, match="ollama: no such instance: run `hearth up`"):
        engine.is_running("ollama")


def test_without_incus_the_error_names_the_socket(incus: Any) -> None:
    incus(pylxd.exceptions.ClientConnectionFailed("refused"))
    with pytest.raises(engine.EngineError, match="Incus does not answer on /var/lib/incus"):
        engine.execute("ollama", ["/bin/x"], timeout=1)


def test_missing_incus_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "SOCKET", str(tmp_path / "unix.socket"))
    engine._client.cache_clear()
    with pytest.raises(engine.EngineError, match=r"Incus does not answer on .*unix\.socket"):
        engine.is_running("ollama")


def test_the_error_for_a_missing_file_names_its_path(incus: Any) -> None:
    incus(Instance(code=1))
    with pytest.raises(engine.EngineError, match="ollama: cannot read /etc/x: why"):
        engine.read_file("ollama", "/etc/x")


def test_an_instance_runs_or_does_not(incus: Any) -> None:
    running, stopped = Instance(), Instance()
    stopped.status = "Stopped"
    for instance, runs in ((running, True), (stopped, False)):
        incus(instance)
        assert engine.is_running("ollama") is runs


def test_the_machine_itself_is_the_nameless_instance() -> None:
    done = engine.execute(None, ["/bin/cat"], timeout=5, stdin="x")
    assert done == engine.Completed(0, "x", "")
    with pytest.raises(engine.EngineError, match="this machine: `/bin/sleep` took longer"):
        engine.execute(None, ["/bin/sleep", "5"], timeout=0.1)
    assert engine.execute(None, ["/bin/nonesuch"], timeout=5).returncode == 127
