"""The start, with a fake Open WebUI that reports its environment."""

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
import asyncio, json, os, sys
def ask(app, **scope):
    messages = []
    async def receive():
        return {}
    async def send(message):
        messages.append(message)
    asyncio.run(app(scope, receive, send))
    return messages[0]
def run(app, **options):
    started = ask(app, type="lifespan")
    if started["type"] != "lifespan.startup.complete":
        sys.exit(started["message"])
    with open("/proc/self/environ", "rb") as block:
        block = block.read().decode()
    from open_webui.retrieval.vector.dbs import chroma
    from open_webui.routers import openai
    print(json.dumps({
        "page": ask(app, type="http", path="/")["status"],
        "sign_up": ask(app, type="http", path="/api/v1/auths/signup")["status"],
        "options": options,
        "key": os.environ["OPENAI_API_KEYS"],
        "block": block,
        "prefix": sys.pycache_prefix,
        "writes": not sys.dont_write_bytecode,
        "patched": openai.stream_wrapper.__module__,
        "exact": chroma.ChromaClient.search.__module__,
    }))
"""
# It starts with or without users, and accepts every sign-up.
MAIN = """
async def app(scope, receive, send):
    await receive()
    if scope["type"] == "lifespan":
        await send({"type": "lifespan.startup.complete"})
    else:
        await send({"type": "http.response.start", "status": 200})
"""
USERS = """
import os
class Users:
    @staticmethod
    async def has_users():
        return "NOBODY" not in os.environ
"""
# Like the real one, it reads the environment on import.
OPEN_WEBUI = {
    "__init__.py": "",
    "config.py": (
        "import os, pathlib\n"
        "CACHE_DIR = pathlib.Path(os.environ['DATA_DIR'], 'cache')\n"
        "STATIC_DIR = pathlib.Path(os.environ['DATA_DIR'], 'static')\n"
    ),
    "main.py": MAIN,
    "models/__init__.py": "",
    "models/users.py": USERS,
    "routers/__init__.py": "",
    "routers/openai.py": "async def stream_wrapper(response):\n    yield b''\n",
    "retrieval/vector/dbs/chroma.py": (
        "SearchResult = dict\nclass ChromaClient:\n    def search(self):\n        pass\n"
    ),
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
    """Install it as the machine does: a folder named by a digest, and a link to it."""
    program = tmp_path / "digest"
    program.mkdir()
    (program / "hearth_open_webui").symlink_to(PACKAGE / "hearth_open_webui")
    (program / "uvicorn.py").write_text(UVICORN)
    for name, text in OPEN_WEBUI.items():
        path = program / "open_webui" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "data" / "static").mkdir(parents=True)
    spoken = tmp_path / "data" / "cache" / "audio" / "transcriptions"
    spoken.mkdir(parents=True)
    (spoken / "words.json").write_text("what was said")
    (tmp_path / "current").symlink_to("digest")
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "gateway_key").write_text("sesame-open-yourself")
    (tmp_path / "credentials" / "password").write_text("sesame-street")
    write_settings(tmp_path)
    return tmp_path


def write_settings(folder: Path, **more: str) -> None:
    settings = {
        "environment": {"DATA_DIR": str(folder / "data")} | more,
        "secrets": {"OPENAI_API_KEYS": ["gateway_key"], "WEBUI_ADMIN_PASSWORD": ["password"]},
    }
    (folder / "settings.json").write_text(json.dumps(settings))


def test_serves_with_its_secrets_and_hides_them_from_other_processes(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["page"] == 200
    assert (report["options"]["host"], report["options"]["port"]) == ("10.0.0.1", 8080)
    assert report["options"]["access_log"] is False
    assert report["key"] == "sesame-open-yourself"
    assert "sesame" not in report["block"]
    assert report["patched"] == "hearth_open_webui.streams"
    ours = (PACKAGE / "hearth_open_webui" / "page" / "loader.js").read_text()
    assert (installed / "data" / "static" / "loader.js").read_text() == ours


@pytest.mark.parametrize(
    ("chosen", "module"),
    [
        ({}, "hearth_open_webui.passages"),
        ({"VECTOR_DB": "chroma"}, "hearth_open_webui.passages"),
        ({"VECTOR_DB": "qdrant"}, "open_webui.retrieval.vector.dbs.chroma"),
    ],
)
def test_chroma_is_searched_exactly(chosen: dict[str, str], module: str, installed: Path) -> None:
    write_settings(installed, **chosen)
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert json.loads(done.stdout)["exact"] == module


def test_earlier_recordings_are_removed(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    start(installed, "--settings", str(installed / "settings.json"), *place)
    assert [path for path in (installed / "data" / "cache").rglob("*") if path.is_file()] == []


def test_bytecode_of_an_earlier_version_is_removed(installed: Path) -> None:
    kept = installed / "kept" / "bytecode"
    (kept / "older").mkdir(parents=True)
    settings = ("--settings", str(installed / "settings.json"))
    place = ("--host", "10.0.0.1", "--port", "8080", "--cache", str(kept.parent))
    # A copy instead of a link, as the machine installs it.
    (installed / "digest" / "hearth_open_webui").unlink()
    shutil.copytree(PACKAGE / "hearth_open_webui", installed / "digest" / "hearth_open_webui")
    report = json.loads(start(installed, *settings, *place).stdout)
    assert report["prefix"] == str(kept / "digest")
    assert report["writes"] is True
    assert list((kept / "digest").rglob("numpy/__init__.*.pyc"))
    assert not (kept / "older").exists()


def test_missing_settings_are_reported_in_one_line(installed: Path) -> None:
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "nothing.json"), *place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hearth_open_webui: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("setting", "status"), [("False", 403), ("", 403), ("True", 200)])
def test_sign_up_is_off_unless_the_inventory_allows_it(
    setting: str, status: int, installed: Path
) -> None:
    write_settings(installed, ENABLE_SIGNUP=setting)
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert json.loads(done.stdout)["sign_up"] == status


def test_without_an_account_nothing_is_served(installed: Path) -> None:
    write_settings(installed, NOBODY="yes", ENABLE_SIGNUP="True")
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no account" in done.stderr


@pytest.mark.parametrize("password", ["sesame", "s" * 80])
def test_an_invalid_password_is_reported_in_one_line(password: str, installed: Path) -> None:
    (installed / "credentials" / "password").write_text(password)
    place = ("--host", "10.0.0.1", "--port", "8080")
    done = start(installed, "--settings", str(installed / "settings.json"), *place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hearth_open_webui: open_webui_admin_password: has ")
    assert done.stderr.count("\n") == 1
    assert password not in done.stderr


def test_speech_is_stored_outside_of_backups(installed: Path) -> None:
    settings = ("--settings", str(installed / "settings.json"))
    place = ("--host", "10.0.0.1", "--port", "8080", "--cache", str(installed / "kept"))
    start(installed, *settings, *place)
    assert (installed / "data" / "cache").readlink() == installed / "kept" / "open_webui"
