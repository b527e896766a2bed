"""A program of its own, sent whole to where a unit runs: it tries from inside what must not work.

Only Python's standard library, so that `/usr/bin/python3 -c PROGRAM` runs it anywhere. As root it
reads `{"program": its own text, "unit": name, "secrets": [patterns of paths]}`, enters the
namespaces of the unit's living process as that process' user, without any capability, and answers
`{"pid": 0 where nothing runs, "status": {...}, "capabilities": [...], "tried": {...}}`. Of what it
writes nothing stays.
"""

import contextlib
import errno
import glob
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

READ_ONLY = ("/usr", "/etc", "/var", "/opt")
TMP = "/tmp"  # noqa: S108 - what is asked is whose it is
HOMES = ("/root", "/home")
STATUS = ("NoNewPrivs", "Seccomp", "CapBnd", "CapEff", "Uid", "Gid", "Groups")
CREDENTIALS = "/run/credentials"
WITHIN_S = 20


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Look at the unit from outside, then try from within."""
    pid = int(shown(asked["unit"], "MainPID") or 0)
    if not pid:
        return {"pid": 0}
    status = kernel_says(pid)
    with tempfile.NamedTemporaryFile(dir=TMP, prefix="hearth-probe-") as marker:
        inner = {
            "marker": marker.name,
            "own": sorted(glob.glob(f"{CREDENTIALS}/{asked['unit']}/*")),
            "secrets": others(asked["unit"], asked["secrets"]),
        }
        tried = within(pid, status, asked["program"], inner)
    return {
        "pid": pid,
        "status": status,
        "capabilities": shown(asked["unit"], "CapabilityBoundingSet").split(),
        "tried": tried,
    }


def shown(unit: str, name: str) -> str:
    """Return one property of a unit."""
    argv = ["systemctl", "show", f"--property={name}", "--value", unit]
    done = subprocess.run(  # noqa: S603 - fixed words and a unit's name
        argv, capture_output=True, text=True, check=True, timeout=WITHIN_S
    )
    return done.stdout.strip()


def kernel_says(pid: int) -> dict[str, str]:
    """Return what the kernel holds a living process to."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    said = {row.partition(":")[0]: row.partition(":")[2].strip() for row in rows}
    return {name: said[name] for name in STATUS}


def others(unit: str, patterns: list[str]) -> list[str]:
    """Return the files of the patterns, and the credentials of all units but this one."""
    own = f"{CREDENTIALS}/{unit}/"
    found = {path for pattern in (*patterns, f"{CREDENTIALS}/*/*") for path in glob.glob(pattern)}
    return sorted(path for path in found if not path.startswith(own) and os.path.isfile(path))


def within(pid: int, status: dict[str, str], program: str, asked: dict[str, Any]) -> Any:
    """Run this program again beside the unit's process: in its namespaces and as its user."""
    user, group = status["Uid"].split()[0], status["Gid"].split()[0]
    groups = ",".join(status["Groups"].split())
    argv = ["nsenter", f"--target={pid}", "--mount", "--ipc", "--uts", "--net", "--"]
    argv += ["setpriv", f"--reuid={user}", f"--regid={group}"]
    argv += [f"--groups={groups}"] if groups else ["--clear-groups"]
    argv += ["--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    argv += ["/usr/bin/python3", "-I", "-c", program, "within"]
    given = json.dumps(asked)
    done = subprocess.run(  # noqa: S603 - fixed words and numbers
        argv, input=given, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    if done.returncode:
        sys.exit(f"{done.stderr.strip()} (exit {done.returncode})")
    return json.loads(done.stdout)


def attempts(asked: dict[str, Any]) -> dict[str, Any]:
    """Try what must not work, and beside it what must, so that a broken probe is seen."""
    return {
        "user": os.getuid(),
        "written": {path: makes(path) for path in (*READ_ONLY, TMP)},
        "marker_seen": os.path.exists(asked["marker"]),
        "homes": {path: lists(path) for path in HOMES},
        "own": {path: reads(path) for path in asked["own"]},
        "secrets": {path: reads(path) for path in asked["secrets"]},
        "processes": sorted(strangers()),
    }


def makes(folder: str) -> str:
    """Make a folder there and take it away again; return the word of the refusal, or `done`."""
    path = f"{folder}/.hearth-probe-{os.getpid()}"
    try:
        os.mkdir(path)
        os.rmdir(path)
    except OSError as error:
        return word(error)
    return "done"


def lists(folder: str) -> str:
    """List a folder; an empty one shows nothing, either."""
    try:
        return "done" if os.listdir(folder) else "empty"
    except OSError as error:
        return word(error)


def reads(path: str) -> str:
    """Read a byte of a file."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        return word(error)
    return "done"


def strangers() -> list[str]:
    """Return the processes of others that show themselves."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid != os.getuid():
                found.append(path.name)
    return found


def word(error: OSError) -> str:
    """Return an error as the kernel names it."""
    return errno.errorcode.get(error.errno or 0, "unknown")


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(attempts(given) if sys.argv[1:] == ["within"] else main(given)))
