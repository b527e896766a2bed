"""Runs inside a machine or an instance: `look` at everything managed there, or `spoil` it.

The managed files and units are not listed here: the records of what was converged name them,
and Hearth's own folders name the rest.
"""

import glob
import hashlib
import json
import os
import subprocess
import sys

UNITS = "/etc/systemd/system/"


def files() -> list[str]:
    """Name every managed file."""
    found = set(glob.glob(f"{UNITS}hearth-*.*"))
    for record in glob.glob("/var/lib/hearth/converged/*.json"):
        with open(record) as stream:
            found |= set(json.load(stream)["files"])
    for folder, _, names in os.walk("/etc/hearth"):
        found |= {os.path.join(folder, name) for name in names}
    return sorted(path for path in found if os.path.isfile(path))


def units() -> list[str]:
    """Name every service of Hearth, by its unit file."""
    names = (path.removeprefix(UNITS) for path in files() if path.startswith(UNITS))
    return [name for name in names if name.endswith(".service")]


def look() -> dict[str, str]:
    """Return the state of each file and unit."""
    found = {}
    for path in files():
        with open(path, "rb") as stream:
            digest = hashlib.sha256(stream.read()).hexdigest()
        stat = os.stat(path)
        found[path] = f"{digest} {stat.st_mode & 0o7777:04o} {stat.st_uid}:{stat.st_gid}"
    for name in units():
        argv = ["systemctl", "show", name, "--property=ActiveState,UnitFileState,NeedDaemonReload"]
        found[name] = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return found


def spoil() -> dict[str, str]:
    """Append a line to every file, make it writable for everybody, and stop every unit."""
    done = dict.fromkeys(files(), "edited")
    running = [name for name in units() if "=active" in look()[name]]
    for path in done:
        with open(path, "a") as stream:
            stream.write("# by hand\n")
        os.chmod(path, 0o666)  # noqa: S103 - that is what shall be found
    if running:
        subprocess.run(["systemctl", "stop", *running], check=True)
    return done | dict.fromkeys(running, "stopped")


if __name__ == "__main__":
    print(json.dumps({"look": look, "spoil": spoil}[sys.argv[1]]()))
