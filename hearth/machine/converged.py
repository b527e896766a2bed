"""A program of its own, sent whole into each instance: it compares files with what Hearth wrote.

Only Python's standard library, so that `/usr/bin/python3 -I -c PROGRAM` runs it anywhere. It reads
`{"debian": [package, ...]}` and prints `{"edited": [[path, how], ...], "unfinished": [program,
...], "debian": {package: version}}`. The records of service_converge name the files.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORDS = Path("/var/lib/hearth/converged")
GONE = "it is gone"
_WITHIN_S = 5


def look(packages: list[str], records: Path = RECORDS) -> dict[str, Any]:
    """Return the files that differ, the programs that a run left unfinished, and versions."""
    edited, unfinished = [], []
    for path in sorted(records.glob("*.json")):
        try:
            record = json.loads(path.read_text())
            states = record.get("states") or {}
        except (OSError, ValueError, AttributeError):
            edited.append([str(path), "it cannot be read"])
            continue
        if record.get("unfinished"):
            unfinished.append(path.stem)
        found = [[name, how] for name, at in states.items() if (how := _difference(Path(name), at))]
        # A program that was removed leaves its record.
        if not all(how == GONE for _, how in found) or len(found) < max(2, len(states)):
            edited += found
    return {"edited": edited, "unfinished": unfinished, "debian": debian_versions(packages)}


def _difference(path: Path, state: str) -> str:
    """Return how a file differs from its recorded state; empty where it does not."""
    digest, mode, owner = state.split()
    try:
        stat, text = path.lstat(), path.read_bytes()
    except OSError:
        return GONE
    if path.is_symlink() or hashlib.sha256(text).hexdigest() != digest:
        return "its text differs"
    now = f"{stat.st_mode & 0o7777:04o}"
    if now != mode:
        return f"its mode is {now} instead of {mode}"
    its = f"{stat.st_uid}:{stat.st_gid}"
    return "" if its == owner else f"its owner is {its} instead of {owner}"


def debian_versions(packages: list[str]) -> dict[str, str]:
    """Return the versions of those Debian packages that are installed."""
    if not packages:
        return {}
    shown = "--showformat=${Package} ${Version} ${db:Status-Status}\\n"
    done = subprocess.run(  # noqa: S603 - fixed words and validated package names
        ["/usr/bin/dpkg-query", "--show", shown, *packages],
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    rows = (line.split() for line in done.stdout.splitlines() if line.endswith(" installed"))
    return {package: version for package, version, _ in rows}


if __name__ == "__main__":
    print(json.dumps(look(json.load(sys.stdin)["debian"])))
