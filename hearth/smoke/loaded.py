"""A program of its own, sent whole to where a unit runs: which versions its living process holds.

Only Python's standard library, so that `/usr/bin/python3 -c PROGRAM` runs it anywhere. It reads
`{"unit": name, "packages": [Python packages]}` and answers `{"pid": 0 where nothing runs,
"stale": [files that were replaced under it], "packages": {name: version}}`. What it says of
packages it has from the files that the process has mapped, not from where a link points now.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = "/opt/hearth"
DELETED = " (deleted)"


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Look at what the unit's main process has open."""
    argv = ["systemctl", "show", "--property=MainPID", "--value", asked["unit"]]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20)  # noqa: S603
    pid = int(done.stdout.strip() or 0)
    if not pid:
        return {"pid": 0, "stale": [], "packages": {}}
    mapped = files(pid)
    gone = sorted({name for name in mapped if name.endswith(DELETED) and is_program(name)})
    versions = {}
    for folder in sorted({root for name in mapped if (root := program(name))}):
        for name in asked["packages"]:
            if found := version(Path(folder), name):
                versions[name] = found
    return {"pid": pid, "stale": gone, "packages": versions}


def files(pid: int) -> set[str]:
    """Return the files of a process: its program and what it has mapped."""
    names = set()
    with contextlib.suppress(OSError):
        names.add(os.readlink(f"/proc/{pid}/exe"))
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/"):
            names.add(words[5])
    return names


def is_program(name: str) -> bool:
    """Say whether a file is a program or a library; others come and go while a program runs."""
    return name.startswith(("/usr/", "/opt/", "/lib")) and "/share/" not in name


def program(name: str) -> str:
    """Return the folder that one of Hearth's programs was put into as a whole, or nothing."""
    found = re.match(rf"{PROGRAMS}/[^/]+/[^/]+/", name)
    return found[0] if found else ""


def version(folder: Path, package: str) -> str:
    """Return the version of a Python package in a folder, as its metadata say, or nothing."""
    plain = re.sub(r"[-_.]+", "_", package)
    for path in folder.glob(f"{plain}-*.dist-info/METADATA"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ").strip()
    return ""


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
