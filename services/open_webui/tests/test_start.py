"""The start itself, with an Open WebUI that only says what it sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]

STAND_IN = """
import json, os, sys
def run(app, **options):
    with open("/proc/self/environ", "rb") as block:
        block = block.read().decode()
    print(json.dumps({
        "app": app,
        "options": options,
        "key": os.environ["OPENAI_API_KEYS"],
        "block": block,
        "prefix": sys.pycache_prefix,
        "writes": not sys.dont_write_bytecode,
    }))
"""


def start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "hearth_open_webui", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(folder / "current"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CREDENTIALS_DIRECTORY": str(folder / "credentials"),
        },
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """As the machine installs it: a folder named by a digest, and a link to it."""
    program = tmp_path / "digest"
    program.mkdir()
    (program / "hearth_open_webui").symlink_to(PACKAGE / "hearth_open_webui")
    (program / "uvicorn.py").write_text(STAND_IN)
    (tmp_path / "current").symlink_to("digest")
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "gateway_key").write_text("sesame-open-yourself")
    settings = {"environment": {"ENV": "prod"}, "secrets": {"OPENAI_API_KEYS": ["gateway_key"]}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    return tmp_path


def test_it_serves_with_its_secrets_and_shows_them_to_nobody(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["app"] == "open_webui.main:app"
    assert (said["options"]["host"], said["options"]["port"]) == ("10.0.0.1", 8080)
    assert said["options"]["access_log"] is False
    assert said["key"] == "sesame-open-yourself"
    assert "sesame" not in said["block"]


def test_what_python_made_of_an_earlier_version_goes(installed: Path) -> None:
    kept = installed / "kept"
    (kept / "older").mkdir(parents=True)
    settings = ("--settings", str(installed / "settings.json"))
    place = ("--host", "10.0.0.1", "--port", "8080", "--bytecode", str(kept))
    # The package lies in the digest's folder itself, as the machine puts it there.
    (installed / "digest" / "hearth_open_webui").unlink()
    folder = installed / "digest" / "hearth_open_webui"
    folder.mkdir()
    for path in (PACKAGE / "hearth_open_webui").glob("*.py"):
        (folder / path.name).write_bytes(path.read_bytes())
    said = json.loads(start(installed, *settings, *place).stdout)
    assert said["prefix"] == str(kept / "digest")
    assert said["writes"] is True
    assert not (kept / "older").exists()


def test_settings_that_are_not_there_end_it_with_one_line(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "nothing.json"), *place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hearth_open_webui: ")
    assert done.stderr.count("\n") == 1
