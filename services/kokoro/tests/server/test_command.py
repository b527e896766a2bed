"""`hearth-kokoro` as people start it, and start it wrongly."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2]


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "hearth_kokoro", *arguments],
        env={"PATH": os.defpath, "PYTHONPATH": str(PACKAGE), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the options for two files that are there and hold rubbish."""
    model, voices = tmp_path / "model.onnx", tmp_path / "voices.bin"
    model.write_bytes(b"no model")
    voices.write_bytes(b"no voices")
    return ["--model", str(model), "--voices", str(voices)]


def refused(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that says why it does not start."""
    assert ended.returncode == 2, ended.stderr
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("hearth-kokoro: ")
    assert "Traceback" not in ended.stderr
    return line


def test_help_shows_how() -> None:
    ended = start("--help")
    assert ended.returncode == 0
    assert "examples:" in ended.stdout
    assert "--voices" in ended.stdout


def test_a_missing_file_is_named(files: list[str]) -> None:
    assert "nothere.onnx: no such file" in refused(start(*files, "--model", "/nothere.onnx"))


def test_a_file_that_is_no_model_is_named(files: list[str]) -> None:
    assert "voices.bin" in refused(start(*files, "--port", "0"))


def test_a_port_in_use_is_named(files: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"port {port}" in refused(start(*files, "--port", port))


@pytest.mark.parametrize("host", ["nobody.invalid", "203.0.113.7"])
def test_an_address_that_is_not_ours_is_named(files: list[str], host: str) -> None:
    assert host in refused(start(*files, "--host", host))


def test_a_key_file_must_hold_a_key(files: list[str], tmp_path: Path) -> None:
    empty = tmp_path / "key"
    assert "key" in refused(start(*files, "--key-file", str(empty)))
    empty.write_text("\n")
    assert "one key" in refused(start(*files, "--key-file", str(empty)))


def test_an_open_server_says_so_where_others_reach_it(files: list[str]) -> None:
    wide = ["--host", "0.0.0.0", "--port", "0"]
    assert "no key" in start(*files, *wide).stderr
    ended = start(*files, *wide, HEARTH_KOKORO_KEY="a-key")
    assert "no key" not in ended.stderr
    assert "a-key" not in ended.stderr
