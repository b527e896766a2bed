"""Where the house looks for a container: by its quadlet, and through one interface."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hearth.machine import engine, engines
from hearth.machine.engine import EngineError, Output


class Podman:
    """What engine.py calls of Podman."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str], bytes]] = []

    def execute(self, name: str, argv: Sequence[str], *, timeout: float, stdin: bytes) -> Output:
        self.calls.append((name, list(argv), stdin))
        return Output(3, b"out", b"err")

    def instances(self) -> list[engines.Found]:
        return [engines.Found("hearth-kokoro", running=True, image="")]


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Podman:
    """A machine where kokoro is a container."""
    found = Podman()
    monkeypatch.setattr(engine, "QUADLETS", str(tmp_path))
    (tmp_path / "hearth-kokoro.container").touch()
    monkeypatch.setattr(engines, "podman", lambda: found)
    return found


def test_a_command_reaches_the_container_of_a_service(podman: Podman) -> None:
    done = engine.execute("kokoro", ["/bin/true"], timeout=7, stdin="given")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out", "err")
    ((name, argv, stdin),) = podman.calls
    assert (name, argv[-1], stdin) == ("hearth-kokoro", "/bin/true", b"given")
    assert argv[:1] == ["/usr/bin/timeout"]
    assert engine.is_running("kokoro")


def test_other_services_are_instances(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SOCKET", "/run/no.sock")
    with pytest.raises(EngineError, match="kokoro-gpu: Incus does not answer"):
        engine.execute("kokoro-gpu", ["/bin/true"], timeout=7)
    assert podman.calls == []


def test_a_row_of_a_list_and_an_inspection_say_the_same() -> None:
    row: dict[str, Any] = {
        "Names": ["/speech"],
        "State": "running",
        "Image": "tts",
        "Labels": {"a": "b"},
    }
    inspected = {
        "Name": "/speech",
        "State": {"Running": True},
        "Image": "tts",
        "Config": {"Labels": {"a": "b"}},
        "Mounts": [
            {"Type": "bind", "Source": "/srv", "Destination": "/app/api"},
            {"Type": "volume", "Source": "/var/lib/x", "Destination": "/data"},
        ],
    }
    one, other = engines._of_docker(row), engines._of_docker(inspected)
    assert (one.name, one.running, one.labels) == (other.name, other.running, other.labels)
    assert other.mounts == {"/app/api": "/srv"}
