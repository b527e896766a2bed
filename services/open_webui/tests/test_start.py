"""The start itself, with an Open WebUI that only says what it sees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]

UVICORN = """
import json, os, sys
def run(app, **options):
    with open("/proc/self/environ", "rb") as block:
        block = block.read().decode()
    from open_webui.routers import openai
    print(json.dumps({
        "app": app,
        "options": options,
        "key": os.environ["OPENAI_API_KEYS"],
        "block": block,
        "prefix": sys.pycache_prefix,
        "writes": not sys.dont_write_bytecode,
        "mended": openai.stream_wrapper.__module__,
    }))
"""
# It reads the environment when it is imported, as the real one does.
OPEN_WEBUI = {
    "__init__.py": "",
    "config.py": (
        "import os, pathlib\n"
        "CACHE_DIR = pathlib.Path(os.environ['DATA_DIR'], 'cache')\n"
        "STATIC_DIR = pathlib.Path(os.environ['DATA_DIR'], 'static')\n"
    ),
    "main.py": "app = 'the application'\n",
    "routers/__init__.py": "",
    "routers/openai.py": "async def stream_wrapper(response):\n    yield b''\n",
}


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
    (program / "uvicorn.py").write_text(UVICORN)
    (program / "open_webui" / "routers").mkdir(parents=True)
    for name, text in OPEN_WEBUI.items():
        (program / "open_webui" / name).write_text(text)
    (tmp_path / "data" / "static").mkdir(parents=True)
    spoken = tmp_path / "data" / "cache" / "audio" / "transcriptions"
    spoken.mkdir(parents=True)
    (spoken / "words.json").write_text("what was said")
    (tmp_path / "current").symlink_to("digest")
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "gateway_key").write_text("sesame-open-yourself")
    settings = {
        "environment": {"DATA_DIR": str(tmp_path / "data")},
        "secrets": {"OPENAI_API_KEYS": ["gateway_key"]},
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    return tmp_path


def test_it_serves_with_its_secrets_and_shows_them_to_nobody(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["app"] == "the application"
    assert (said["options"]["host"], said["options"]["port"]) == ("10.0.0.1", 8080)
    assert said["options"]["access_log"] is False
    assert said["key"] == "sesame-open-yourself"
    assert "sesame" not in said["block"]
    assert said["mended"] == "hearth_open_webui.streams"
    ours = (PACKAGE / "hearth_open_webui" / "page" / "loader.js").read_text()
    assert (installed / "data" / "static" / "loader.js").read_text() == ours


def test_what_was_said_before_is_thrown_away(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    start(installed, "--settings", str(installed / "settings.json"), *place)
    assert [path for path in (installed / "data" / "cache").rglob("*") if path.is_file()] == []


def test_what_python_made_of_an_earlier_version_goes(installed: Path) -> None:
    kept = installed / "kept"
    (kept / "older").mkdir(parents=True)
    settings = ("--settings", str(installed / "settings.json"))
    place = ("--host", "10.0.0.1", "--port", "8080", "--bytecode", str(kept))
    # The package lies in the digest's folder itself, as the machine puts it there.
    (installed / "digest" / "hearth_open_webui").unlink()
    shutil.copytree(PACKAGE / "hearth_open_webui", installed / "digest" / "hearth_open_webui")
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
