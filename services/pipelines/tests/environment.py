"""The locked server beside the shared environment, whose packages it must never meet."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from hearth.project import current

PROJECT = Path(__file__).resolve().parents[3]
LOCK = PROJECT / "requirements" / "pipelines.txt"


def server_environment() -> Path:
    """Return the folder of the locked packages; built once per lock and Python, then kept."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = PROJECT / ".hearth" / "environments" / f"pipelines-{python}-{digest}"
    if not folder.is_dir():
        _build(folder, python)
    return folder


def _build(folder: Path, python: str) -> None:
    # A build that was killed leaves its own folder behind, never a half one under the real name.
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [
        str(current().uv),
        "pip",
        "install",
        "--quiet",
        "--compile-bytecode",  # each test starts a process
        "--target",
        str(fresh),
        "--python",
        sys.executable,
    ]
    locked = ["--python-version", python, "--require-hashes", "--only-binary", ":all:"]
    subprocess.run([*command, *locked, "-r", str(LOCK)], check=True, timeout=600)
    fresh.rename(folder)
