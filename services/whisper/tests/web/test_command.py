"""The options of `hearth-whisper`, valid and invalid ones."""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from hearth_whisper.__main__ import main
from hearth_whisper.limits import Limits
from hearth_whisper.web import app

SERVICES = Path(__file__).parents[3]


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as caches:
        path = os.pathsep.join(str(SERVICES / name) for name in ("whisper", "serving"))
        known = {"PATH": os.defpath, "PYTHONPATH": path, "XDG_CACHE_HOME": caches}
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "hearth_whisper", *arguments],
            env=known | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder that exists and contains no model."""
    (tmp_path / "model").mkdir()
    return str(tmp_path / "model")


def refused(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the one line with the reason why it does not start."""
    assert ended.returncode == 2, ended.stderr
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("hearth-whisper: "), ended.stderr
    assert "Traceback" not in ended.stderr
    return line


def test_help_has_examples() -> None:
    ended = start("--help")
    assert ended.returncode == 0
    assert "examples:" in ended.stdout
    assert "--wyoming-port" in ended.stdout


def test_a_missing_folder_is_named(folder: str) -> None:
    assert "/nothere: no such folder" in refused(start("--model", folder, "--model", "/nothere"))
    assert "/nothere: no such folder" in refused(start("--model", folder, "--draft", "/nothere"))


def test_a_folder_without_a_model_is_named(folder: str) -> None:
    assert folder in refused(start("--model", folder, "--port", "0"))


@pytest.mark.parametrize("option", ["--port", "--wyoming-port"])
def test_a_port_in_use_is_named(folder: str, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        others = [] if option == "--port" else ["--port", "0"]
        assert f"port {port}" in refused(start("--model", folder, *others, option, port))


@pytest.mark.parametrize(
    ("option", "value"),
    [("--share", "0"), ("--share", "nan"), ("--unload", "-1"), ("--live", "0"),
     ("--upload-limit", "a lot"), ("--audio-limit", "inf")],
)  # fmt: skip
def test_an_invalid_number_is_named(
    folder: str, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--model", folder, option, value])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err


def test_a_server_without_a_key_warns_on_a_public_address(folder: str) -> None:
    wide = ["--model", folder, "--host", "0.0.0.0", "--port", "0"]
    assert "no key" in start(*wide).stderr
    ended = start(*wide, HEARTH_WHISPER_KEY="a-key")
    assert "no key" not in ended.stderr
    assert "a-key" not in ended.stderr
    assert "no key" not in start(*wide, "--open").stderr


def served(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[argparse.Namespace, Limits]:
    """Return the arguments of `serve`."""
    found: list[Any] = []
    monkeypatch.setattr(app, "serve", lambda *given: found.extend(given))
    assert main(arguments) == 0
    return found[0], found[2]


def test_the_default_state_folder_is_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, folder: str, tmp_path: Path
) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert served(monkeypatch, "--model", folder)[0].state == tmp_path / "hearth-whisper"
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "unit"))
    assert served(monkeypatch, "--model", folder)[0].state == tmp_path / "unit"


def test_limits_come_from_the_options(
    monkeypatch: pytest.MonkeyPatch, folder: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    options, limits = served(monkeypatch, "--model", folder)
    assert limits == Limits()
    assert options.wyoming_port is None
    given = ["--upload-limit", "4000", "--audio-limit", "60", "--time-limit", "30", "--live", "2"]
    _, limits = served(monkeypatch, "--model", folder, *given)
    assert (limits.audio_s, limits.timeout_s, limits.live) == (60, 30, 2)
    assert limits.body_bytes == 4000 * 1024 * 1024
    # The limit of all uploads must allow one of the largest size.
    assert limits.scratch_bytes >= 2 * limits.body_bytes
