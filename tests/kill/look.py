"""Print what a system consists of and what really runs; read by `python3 -` inside the system.

Runs on the machine and in each instance, with nothing but the standard library.
"""

import calendar
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

UNITS = Path("/etc/systemd/system")
# Where a unit's text names a file that its program reads.
READS = re.compile(r"/(?:etc|opt/hearth)/[\w./@-]*\w")
SHOWN = ("ActiveState", "SubState", "UnitFileState", "NeedDaemonReload", "FragmentPath", "User")
CADDY = ("/etc/hearth/Caddyfile", "/run/hearth-caddy/admin.sock")


def run(*argv: str) -> str:
    """Return a program's output; an error is part of it."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=-3, timeout=60)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"


def entry(path: Path) -> str:
    """Describe a file, folder or link without its times."""
    stat = path.lstat()
    mode = f"{stat.st_mode:o} {stat.st_uid}:{stat.st_gid}"
    if path.is_symlink():
        return f"{mode} -> {os.readlink(path)}"
    if path.is_file():
        return f"{mode} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    return mode


def tree(top: str, deep: int = 99) -> dict[str, str]:
    """Describe everything in a folder, down to a depth."""
    found, device = {}, os.stat(top).st_dev
    for here, folders, files in os.walk(top):
        for name in [*folders, *files]:
            found[f"{here}/{name}"] = entry(Path(here, name))
        if here.count("/") - top.count("/") >= deep - 1:
            folders.clear()
        folders[:] = [name for name in folders if os.lstat(f"{here}/{name}").st_dev == device]
    return found


def units() -> dict[str, dict[str, str]]:
    """Return for each unit of ours how it is loaded, and which of its files are newer than it."""
    found = {}
    for path in sorted(UNITS.glob("*.service")):
        if path.is_symlink() or not path.is_file() or path.name == "ssh-host-keys.service":
            continue
        asked = ",".join((*SHOWN, "ExecMainStartTimestamp"))
        output = run("systemctl", "show", "--timestamp=us+utc", "-p", asked, path.name)
        state = dict(line.partition("=")[::2] for line in output.splitlines())
        began = seconds(state.pop("ExecMainStartTimestamp", ""))
        state["older than"] = " ".join(newer(path, began)) if began else ""
        found[path.name] = state
    return found


def seconds(stamp: str) -> float:
    """Read systemd's time; 0 for never."""
    try:
        _, day, clock, _ = stamp.split()
        whole, _, part = clock.partition(".")
        read = calendar.timegm(time.strptime(f"{day} {whole}", "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        return 0.0
    return read + float(f"0.{part or 0}")


def newer(unit: Path, began: float) -> list[str]:
    """Return the files of a unit that were changed after its process started."""
    text = unit.read_text()
    names = {str(unit), *READS.findall(text)}
    # A program is found through a link, which is switched.
    names |= {f"{name.partition('/current')[0]}/current" for name in names if "/current" in name}
    if "\nExecReload=" in text:
        # It reloads that file without a new process; `caddy()` checks what it has loaded.
        names.discard(CADDY[0])
    return sorted(name for name in names if changed(name) > began)


def changed(name: str) -> float:
    """Return when a file, or the link to it, was written."""
    try:
        return 0.0 if Path(name).is_dir() and not os.path.islink(name) else os.lstat(name).st_ctime
    except OSError:
        return 0.0


def caddy() -> str:
    """Compare what Caddy has loaded with its file."""
    text, socket = CADDY
    wanted = run("caddy", "adapt", "--adapter", "caddyfile", "--config", text)
    loaded = run("curl", "-sS", "--unix-socket", socket, "-H", "Host;", "http://localhost/config/")
    try:
        return "as its file" if json.loads(wanted) == json.loads(loaded) else "not as its file"
    except ValueError:
        return f"unknown: {wanted[:200]} {loaded[:200]}"


def machine() -> dict[str, Any]:
    """Return what only the machine has."""
    records = Path("/var/lib/hearth/converged").glob("*.json")
    rules = "nft --stateless --terse list table inet hearth"
    sets = "nft --stateless list set inet hearth flows"
    instances = json.loads(run("incus", "list", "--format", "json"))
    return {
        "programs": tree("/var/lib/hearth/programs", 2),
        "records": {path.name: json.loads(path.read_text())["digest"] for path in records},
        "rules": run(*rules.split()) + run(*sets.split()),
        "caddy": caddy(),
        "sites": sites(),
        "instances": {found["name"]: instance(found) for found in instances},
        "volumes": run(
            "incus", "storage", "volume", "list", "hearth", "--format", "csv", "-c", "n"
        ),
        "images": sorted(run("incus", "image", "list", "--format", "csv", "-c", "l").split()),
        "left": sorted(map(str, Path("/var/lib/hearth/images").glob(".*"))),
    }


def sites() -> dict[str, str]:
    """Request each name of the house from Caddy, and its address from the resolver."""
    found = {}
    for name in re.findall(
        r"^\s*interface-name=([^,]+),", Path("/etc/hearth/dnsmasq.conf").read_text(), re.M
    ):
        code = run(
            *("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10"),
            *("--resolve", f"{name}:443:127.0.0.1", f"https://{name}/"),
        )
        found[name] = f"{code} {' '.join(run('getent', 'ahostsv4', name).split()[:1])}"
    return found


def instance(found: dict[str, Any]) -> dict[str, Any]:
    """Return what Incus holds of an instance, and look inside."""
    config = {
        key: value for key, value in found["config"].items() if not key.startswith("volatile.")
    }
    inside = subprocess.run(
        ["incus", "exec", found["name"], "--", "python3", "-", "inside"],
        input=SOURCE,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    try:
        seen = json.loads(inside.stdout)
    except ValueError:
        seen = f"exit {inside.returncode}: {inside.stderr[-300:]}"
    return {"state": found["status"], "config": config, "devices": found["devices"], "in it": seen}


def look(*, inside: bool) -> dict[str, Any]:
    """Return everything about this system."""
    # Debian's package rewrites the cache at any time.
    skip = ("/etc/ld.so.cache", "/etc/.updated", "/etc/.pwd.lock")
    files = {name: state for name, state in tree("/etc").items() if not name.startswith(skip)}
    seen: dict[str, Any] = {"files": files, "units": units()}
    if inside:
        records = Path("/var/lib/hearth/converged").glob("*.json")
        seen["records"] = {path.name: json.loads(path.read_text())["digest"] for path in records}
        return seen
    return seen | machine()


SOURCE = ""
if __name__ == "__main__":
    # On the machine its own source comes as input, to be passed on to the instances.
    SOURCE = "" if len(sys.argv) > 1 else sys.stdin.read()
    json.dump(look(inside=len(sys.argv) > 1), sys.stdout)
