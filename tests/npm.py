"""Packages of npm for tests, by a lock file, fetched once for each."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

_WITHIN_S = 180


def modules(project: Path, cache: Path) -> Path:
    """Return a folder with the packages that a project's lock file names, in `node_modules`.

    Raises:
        RuntimeError: npm is missing or failed, in one line.
    """
    lock = project / "package-lock.json"
    folder = cache / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if folder.exists():
        return folder
    fresh = folder.with_suffix(".new")
    shutil.rmtree(cache, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(project / name, fresh / name)
    # Every package is verified by its digest in the lock file; no install script runs.
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(
            argv, cwd=fresh, capture_output=True, text=True, check=False, timeout=_WITHIN_S
        )
    except FileNotFoundError:
        raise RuntimeError(f"npm is missing, which fetches {project.name}: install it") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise RuntimeError(f"{project}: npm ci: {output[0]}")
    fresh.rename(folder)
    return folder
