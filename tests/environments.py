"""Locked packages beside the shared environment, which they must never meet."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from hearth.files import locked
from hearth.project import current

PROJECT = Path(__file__).resolve().parents[1]
_BUILD_S = 600


def locked_packages(name: str, *words: str) -> Path:
    """Return a folder with what requirements/NAME.txt locks, installed once per lock and Python.

    `words` are further ones for `uv pip install`.
    """
    lock = PROJECT / "requirements" / f"{name}.txt"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = PROJECT / ".hearth" / "environments" / f"{name}-{python}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Of two runs at once the first one builds; the other waits and finds it made.
    with locked(folder.with_name(f".{folder.name}.lock"), within_s=_BUILD_S):
        if not folder.is_dir():
            _build(folder, lock, "--python-version", python, *words)
    return folder


def _build(folder: Path, lock: Path, *words: str) -> None:
    # A build that was killed leaves its own folder behind, never a half one under the real name.
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    install = [str(current().uv), "pip", "install", "--quiet", "--python", sys.executable]
    install += ["--require-hashes", "--only-binary", ":all:", *words]
    subprocess.run(
        [*install, "--target", str(fresh), "-r", str(lock)], check=True, timeout=_BUILD_S
    )
    fresh.rename(folder)
