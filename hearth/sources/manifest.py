"""Tell cheaply whether an installed folder is still what was installed."""

import json
import os
import stat
from pathlib import Path
from typing import Any

NAME = ".hearth-manifest.json"


def scan(folder: Path) -> dict[str, Any]:
    """Every path below `folder` with kind, mode and, for files, size and time; for links, target.

    It reads no contents: 10,000 files take about 0.1 s. A change that keeps size and time to the
    nanosecond is not seen.
    """
    found: dict[str, Any] = {}
    pending = [(str(folder), "")]
    while pending:
        here, prefix = pending.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                path = prefix + entry.name
                info = entry.stat(follow_symlinks=False)
                mode = stat.S_IMODE(info.st_mode)
                if entry.is_symlink():
                    found[path] = ["link", os.readlink(entry.path)]
                elif entry.is_dir(follow_symlinks=False):
                    found[path] = ["folder", mode]
                    pending.append((entry.path, f"{path}/"))
                else:
                    found[path] = ["file", mode, info.st_size, info.st_mtime_ns]
    found.pop(NAME, None)
    return found


def write(folder: Path) -> None:
    """Record what `folder` holds now."""
    (folder / NAME).write_text(json.dumps(scan(folder)), encoding="utf-8")


def is_intact(folder: Path) -> bool:
    """Whether `folder` holds exactly what was recorded.

    Byte code that a Python run as root put in afterwards is no damage.
    """
    try:
        recorded = json.loads((folder / NAME).read_text(encoding="utf-8"))
        present = scan(folder)
    except (OSError, ValueError):
        return False
    if not isinstance(recorded, dict):
        return False
    extra = present.keys() - recorded.keys()
    if any("__pycache__" not in path.split("/") for path in extra):
        return False
    return all(present.get(path) == entry for path, entry in recorded.items())
