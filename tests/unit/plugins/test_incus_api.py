"""The connection returns exactly what a command wrote, or names what did not answer."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.playbook.play_context import PlayContext
from pylxd.exceptions import ClientConnectionFailed, NotFound

from hearth.machine.engine import EngineError, Output
from tests.unit.machine.fake_incus import api_error
from tests.unit.plugins.by_path import plugin


class FakeFiles:
    """Files of one instance, with the rights that they were given."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes, str, int, int]] = {}

    def put(self, path: str, data: bytes, mode: str, uid: int, gid: int) -> None:
        self.held[path] = (data, mode, uid, gid)

    def get(self, path: str) -> bytes:
        return self.held[path][0]


class FakeClient:
    """pylxd's client of a server with one instance."""

    def __init__(self, endpoint: str) -> None:
        if endpoint == "/nowhere":
            raise ClientConnectionFailed("no such socket")
        self.files = FakeFiles()
        self.instances = SimpleNamespace(get=self._get)

    def _get(self, name: str) -> Any:
        if name != "ollama":
            raise api_error("Instance not found", NotFound)
        return SimpleNamespace(name=name, files=self.files)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = plugin("connection", "incus_api")
    monkeypatch.setattr(module, "Client", FakeClient)
    return module


def connection(
    module: ModuleType, name: str = "ollama", socket: str = "/var/lib/incus/unix.socket"
) -> Any:
    made = module.Connection(PlayContext())
    options = {"remote_addr": name, "socket": socket}
    made.get_option = options.get
    return made


def test_a_command_runs_in_a_shell_as_root_and_its_answer_is_bytes(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Any, ...]] = []

    def execute(client: Any, instance: str, argv: list[str], **more: Any) -> Output:
        ran.append((instance, argv, more))
        return Output(3, b"\xfftwo", b"text")

    monkeypatch.setattr(module, "run_inside", execute)
    made = connection(module)
    made._connect()
    assert made.exec_command("exit 3", in_data=b"module") == (3, b"\xfftwo", b"text")
    assert made.exec_command("true") == (3, b"\xfftwo", b"text")
    instance, argv, more = ran[0]
    assert (instance, argv) == ("ollama", ["/bin/sh", "-c", "exit 3"])
    assert more["stdin"] == b"module"
    assert more["environment"]["HOME"] == "/root"
    assert ran[1][2]["stdin"] == b""


def test_nothing_is_opened_twice(module: ModuleType) -> None:
    made = connection(module)
    assert made._connect() is made
    first = made._instance
    assert made._connect()._instance is first
    made.close()
    made.close()
    assert made._connect()._instance is not first


def test_files_are_written_for_root_only_and_read_back(module: ModuleType, tmp_path: Path) -> None:
    made = connection(module)
    made._connect()
    source = tmp_path / "source"
    source.write_bytes(b"\x00 module")
    made.put_file(str(source), "/root/x")
    assert made._instance.files.held == {"/root/x": (b"\x00 module", "0600", 0, 0)}
    made.fetch_file("/root/x", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"\x00 module"


def test_a_missing_file_is_reported(module: ModuleType, tmp_path: Path) -> None:
    made = connection(module)
    made._connect()
    with pytest.raises(AnsibleFileNotFound) as caught:
        made.put_file(str(tmp_path / "nothing"), "/root/x")
    assert f"{tmp_path}/nothing is not there" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "socket", "line"),
    [
        ("olama", "/var/lib/incus/unix.socket", "Incus has no instance 'olama'"),
        ("ollama", "/nowhere", "Incus does not answer on /nowhere: no such socket"),
    ],
)
def test_a_daemon_that_does_not_respond_is_reported(
    module: ModuleType, name: str, socket: str, line: str
) -> None:
    with pytest.raises(AnsibleConnectionFailure) as caught:
        connection(module, name, socket)._connect()
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (api_error("Instance is not running"), "Instance is not running"),
        (EngineError("ollama: a stream broke off"), "ollama: a stream broke off"),
        (ConnectionResetError("reset by Incus"), "reset by Incus"),
    ],
)
def test_an_instance_that_stopped_meanwhile_is_reported(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    def execute(*_: Any, **__: Any) -> Output:
        raise error

    monkeypatch.setattr(module, "run_inside", execute)
    made = connection(module)
    made._connect()
    with pytest.raises(AnsibleConnectionFailure) as caught:
        made.exec_command("true")
    assert f"instance 'ollama' takes no command: {line}" in str(caught.value)
