"""A program of its own, sent whole to an instance or the machine, to inspect the units there.

Only Python's standard library, so that `/usr/bin/python3 -I -c PROGRAM` runs it anywhere, as root.
It reads one JSON object and prints one, so that a system with many units costs one command.

Of the request, `units` are inspected with their helpers, `others` only for their files; versions
are of `packages` (Python) and `debian` (packages), `secrets` are path patterns, and `program` is
this text. The response has `units` (see `unit`), `debian`, `listening` ([protocol, address, port]),
`programs` (folders in PROGRAMS, without empty ones), `memory_max` ("" without a limit's file) and
`uid_map`.

To try what a unit's sandbox forbids, it enters the namespaces of the unit's process as its user,
without any capability. It leaves no file behind. An attempt that succeeded is `done`; any other
value is the kernel's name of the error.
"""

import contextlib
import errno
import glob
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

READ_ONLY = ("/usr", "/etc", "/var", "/opt")
TMP = "/tmp"  # noqa: S108 - the probe tests whose it is
HOMES = ("/root", "/home")
STATUS = ("NoNewPrivs", "Seccomp", "CapBnd", "CapEff", "Uid", "Gid", "Groups")
PROPERTIES = "ActiveState,SubState,Result,MainPID,User,CapabilityBoundingSet,SourcePath"
# Podman's control groups, below that of the unit which runs the container.
PAYLOAD = "/sys/fs/cgroup/system.slice/{}/libpod-payload-*/cgroup.procs"
CREDENTIALS = "/run/credentials"
WITHIN_S = 20
PROGRAMS = "/opt/hearth"
# The folder of one version of a program that Hearth installed.
PROGRAM = re.compile(rf"{PROGRAMS}/[^/]+/[^/]+/")
DELETED = " (deleted)"


def inspect(request: dict[str, Any]) -> dict[str, Any]:
    """Return everything about this system that the request names."""
    return {
        "units": {name: unit(name, request) for name in with_helpers(request["units"])}
        | {name: unit(name, request, tries=False) for name in request["others"]},
        "debian": debian_versions(request["debian"]),
        "listening": listening(),
        "programs": programs(),
        "memory_max": _text("/sys/fs/cgroup/memory.max"),
        "uid_map": _text("/proc/self/uid_map").split(),
    }


def with_helpers(units: Sequence[str]) -> list[str]:
    """Return the units and their helpers, such as a sidecar proxy; a container has none."""
    if not units:
        return []
    patterns = [f"{name.removesuffix('.service')}-*.service" for name in units]
    listed = _output(["systemctl", "list-units", "--all", "--plain", "--no-legend", *patterns])
    rows = [line.split() for line in listed.splitlines()]
    # A package's own unit that is masked is no helper.
    return list(dict.fromkeys([*units, *(row[0] for row in rows if row[1] != "masked")]))


def unit(name: str, request: dict[str, Any], *, tries: bool = True) -> dict[str, Any]:
    """Return systemd's view of a unit, its loaded files, and, if it `tries`, its sandbox.

    `sandbox` is None without a process, and the text of the error where the probe failed.
    """
    shown = _output(["systemctl", "show", f"--property={PROPERTIES}", name])
    properties = dict(line.partition("=")[::2] for line in shown.splitlines())
    # The first process of a container only waits; the unit's own one is Podman's.
    contained = [pid for at in glob.glob(PAYLOAD.format(name)) for pid in _text(at).split()[1:]]
    pid = int(contained[0] if contained else properties["MainPID"])
    found = {"properties": properties, **loaded(request["packages"], pid), "sandbox": None}
    found["text"] = _output(["systemctl", "cat", name], strict=False)
    found["security"] = _output(["systemd-analyze", "security", "--no-pager", name], strict=False)
    if pid and tries:
        try:
            found["sandbox"] = sandbox(name, pid, request)
        except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
            found["sandbox"] = str(error)
    return found


def debian_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those Debian packages that are installed."""
    shown = "--showformat=${Package} ${Version} ${db:Status-Status}\\n"
    rows = _output(["dpkg-query", "--show", shown, *packages], strict=False).splitlines()
    found = (row.split() for row in rows if row.endswith(" installed"))
    return {package: version for package, version, _ in found}


def listening() -> list[tuple[str, str, int]]:
    """Return the protocol, the address and the port of each listening socket."""
    found = []
    for line in _output(["ss", "-Hlntu"]).splitlines():
        protocol, _, _, _, local, *_ = line.split()
        address, _, port = local.rpartition(":")
        found.append((protocol, address.partition("%")[0].strip("[]"), int(port)))
    return found


def programs() -> list[str]:
    """Return the folders of programs that hold something."""
    return sorted({path.parent.name for path in Path(PROGRAMS).glob("*/*")})


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text()
    return ""


def loaded(packages: Sequence[str], pid: int) -> dict[str, Any]:
    """Return the versions and the replaced files among what the process has open.

    Versions come from the files that the process has mapped, not from where a link points now.
    """
    mapped = files(pid) if pid else set()
    gone = sorted(name for name in mapped if name.endswith(DELETED) and _is_program(name))
    # As the process sees them.
    seen = f"/proc/{pid}/root"
    roots = sorted({f"{seen}{found[0]}" for name in mapped if (found := PROGRAM.match(name))})
    versions = {
        name: package.version
        for name in packages
        for package in importlib.metadata.distributions(name=name, path=roots)
    }
    return {"pid": pid, "stale": gone, "packages": versions}


def files(pid: int) -> set[str]:
    """Return the files of a process: its program and everything that it has mapped."""
    names = set()
    with contextlib.suppress(OSError):
        names.add(os.readlink(f"/proc/{pid}/exe"))
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/"):
            names.add(words[5])
    return names


def _is_program(name: str) -> bool:
    # Other files come and go while a program runs.
    return name.startswith(("/usr/", "/opt/", "/lib")) and "/share/" not in name


def sandbox(name: str, pid: int, request: dict[str, Any]) -> dict[str, Any]:
    """Read what the kernel holds the process to, then try from inside its namespaces."""
    status, own = kernel_status(pid), f"{CREDENTIALS}/{name}/"
    # The credentials of all other units are tried in any case.
    patterns = (*request["secrets"], f"{CREDENTIALS}/*/*")
    secrets = {path for pattern in patterns for path in glob.glob(pattern)}
    with tempfile.NamedTemporaryFile(dir=TMP, prefix="hearth-probe-") as marker:
        inner = {
            "marker": marker.name,
            "own": sorted(glob.glob(f"{own}*")),
            "secrets": sorted(p for p in secrets if not p.startswith(own) and os.path.isfile(p)),
        }
        return {"status": status, "tried": _enter(pid, status, request["program"], inner)}


def kernel_status(pid: int) -> dict[str, str]:
    """Return the restrictions that the kernel reports for a process."""
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}
    return {name: fields[name] for name in STATUS}


def _enter(pid: int, status: dict[str, str], program: str, request: dict[str, Any]) -> Any:
    """Run this program again in the namespaces of the unit's process and as its user."""
    user, group = status["Uid"].split()[0], status["Gid"].split()[0]
    groups = ",".join(status["Groups"].split())
    argv = ["nsenter", f"--target={pid}", "--mount", "--ipc", "--uts", "--net", "--"]
    argv += ["setpriv", f"--reuid={user}", f"--regid={group}"]
    argv += [f"--groups={groups}"] if groups else ["--clear-groups"]
    argv += ["--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    argv += ["/usr/bin/python3", "-I", "-c", program, "inside"]
    return json.loads(_output(argv, json.dumps(request)))


def _output(argv: list[str], sent: str = "", *, strict: bool = True) -> str:
    done = subprocess.run(  # noqa: S603 - fixed words, numbers and a unit's name
        argv, input=sent, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    if done.returncode and strict:
        raise RuntimeError(f"{argv[0]}: {done.stderr.strip()} (exit {done.returncode})")
    return done.stdout


def attempts(request: dict[str, Any]) -> dict[str, Any]:
    """Try what must fail, and also what must work, so that a broken probe is noticed."""
    return {
        "user": os.getuid(),
        "written": {path: _outcome(_make_folder, path) for path in (*READ_ONLY, TMP)},
        "marker_seen": os.path.exists(request["marker"]),
        # An empty folder reveals nothing either.
        "homes": {path: _outcome(os.listdir, path) for path in HOMES},
        "own": {path: _outcome(_read_byte, path) for path in request["own"]},
        "secrets": {path: _outcome(_read_byte, path) for path in request["secrets"]},
        "processes": sorted(_foreign_processes()),
    }


def _outcome(attempt: Callable[[str], object], path: str) -> str:
    """Return `done`, the kernel's name of the error, or `empty` when there was nothing to list."""
    try:
        return "empty" if attempt(path) == [] else "done"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "unknown")


def _make_folder(folder: str) -> None:
    path = f"{folder}/.hearth-probe-{os.getpid()}"
    os.mkdir(path)
    os.rmdir(path)


def _read_byte(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def _foreign_processes() -> list[str]:
    """Return the visible processes of other users."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid != os.getuid():
                found.append(path.name)
    return found


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(attempts(given) if sys.argv[1:] == ["inside"] else inspect(given)))
