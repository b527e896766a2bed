"""Offers small upstream folders, in the shape of each release, that really run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .engines import Engines

HERE = Path(__file__).parent
NAMES = {
    "kokoro_v1": "api/src/inference/kokoro_v1.py",
    "tts_service": "api/src/services/tts_service.py",
    "AudioService": "web/src/services/AudioService.js",
}
# Every shape whose steps are known; v0.1 is there to be refused.
SHAPES = ["v0.2.0", "v0.2.1", "v0.2.3", "v0.3", "v0.6", "v0.8", "published"]

Release = Callable[[str], Path]
Run = Callable[[Path, str], Any]


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """Make a release's folder, with the few modules that it imports."""

    def make(shape: str) -> Path:
        folder = tmp_path / f"fastapi-{shape}"
        around = HERE / "around"
        wanted = {
            path: path.relative_to(around).with_suffix(".py") for path in around.rglob("*.txt")
        }
        shapes = HERE / "shapes" / shape
        wanted |= {shapes / f"{short}.txt": Path(name) for short, name in NAMES.items()}
        for source, name in wanted.items():
            if source.exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, folder / name)
        return folder

    return make


@pytest.fixture
def run() -> Run:
    """Run lines of Python beside a release's modules, and return what they print as JSON."""

    def run(folder: Path, code: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=folder,
            env={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def engines(tmp_path: Path) -> Engines:
    return Engines(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
