"""The command `hearth-kokoro`, with right and wrong options."""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hearth_kokoro.__main__ import main
from hearth_kokoro.web import app

PACKAGE = Path(__file__).parents[2]


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as caches:
        known = {"PATH": os.defpath, "PYTHONPATH": str(PACKAGE), "XDG_CACHE_HOME": caches}
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "hearth_kokoro", *arguments],
            env=known | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the options for two files that exist and contain garbage."""
    model, voices = tmp_path / "model.onnx", tmp_path / "voices.bin"
    model.write_bytes(b"no model")
    voices.write_bytes(b"no voices")
    return ["--model", str(model), "--voices", str(voices)]


def refused(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the one line with the reason why it does not start."""
    assert ended.returncode == 2, ended.stderr
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("hearth-kokoro: ")
    assert "Traceback" not in ended.stderr
    return line


def test_help_contains_examples() -> None:
    ended = start("--help")
    assert ended.returncode == 0
    assert "examples:" in ended.stdout
    assert "--voices" in ended.stdout


def test_a_missing_file_is_named(files: list[str]) -> None:
    assert "nothere.onnx: no such file" in refused(start(*files, "--model", "/nothere.onnx"))


def test_a_file_that_is_not_a_model_is_named(files: list[str]) -> None:
    assert "voices.bin" in refused(start(*files, "--port", "0"))


def test_a_port_in_use_is_named(files: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"port {port}" in refused(start(*files, "--port", port))


@pytest.mark.parametrize("host", ["nobody.invalid", "203.0.113.7"])
def test_an_address_of_another_machine_is_named(files: list[str], host: str) -> None:
    assert host in refused(start(*files, "--host", host))


def test_a_key_file_must_contain_a_key(files: list[str], tmp_path: Path) -> None:
    empty = tmp_path / "key"
    assert "key" in refused(start(*files, "--key-file", str(empty)))
    empty.write_text("\n")
    assert "one key" in refused(start(*files, "--key-file", str(empty)))


def test_a_server_without_a_key_warns_if_other_machines_can_reach_it(files: list[str]) -> None:
    wide = ["--host", "0.0.0.0", "--port", "0"]
    assert "no key" in start(*files, *wide).stderr
    ended = start(*files, *wide, HEARTH_KOKORO_KEY="a-key")
    assert "no key" not in ended.stderr
    assert "a-key" not in ended.stderr
    assert "no key" not in start(*files, *wide, "--open").stderr


def kept_in(monkeypatch: pytest.MonkeyPatch, files: list[str], **environment: str) -> Path | None:
    """Return the folder in which a server with this environment stores its measurements."""
    for name in ("STATE_DIRECTORY", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    served: list[argparse.Namespace] = []
    monkeypatch.setattr(app, "serve", lambda options, *_: served.append(options))
    assert main(files) == 0
    folder: Path | None = served[0].state
    return folder


def test_measurements_are_stored_in_the_users_cache_by_default(
    monkeypatch: pytest.MonkeyPatch, files: list[str], tmp_path: Path
) -> None:
    home = {"HOME": str(tmp_path)}
    assert kept_in(monkeypatch, files, **home) == tmp_path / ".cache/hearth-kokoro"
    cache = {**home, "XDG_CACHE_HOME": str(tmp_path / "own")}
    assert kept_in(monkeypatch, files, **cache) == tmp_path / "own/hearth-kokoro"
    assert (tmp_path / "own/hearth-kokoro").is_dir()
    unit = {**cache, "STATE_DIRECTORY": str(tmp_path / "unit")}
    assert kept_in(monkeypatch, files, **unit) == tmp_path / "unit"


def test_without_a_writable_folder_it_starts_and_warns_once(
    monkeypatch: pytest.MonkeyPatch,
    files: list[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert kept_in(monkeypatch, files, XDG_CACHE_HOME=str(tmp_path / "file")) is None
    assert len(caplog.messages) == 1
    assert "Not a directory; so it is measured at every start" in caplog.text
