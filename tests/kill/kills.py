"""Kill a run in a lab machine at a chosen event.

A kill is written `KIND:PLACE+MS`. KIND is
* `controller`: Ansible's processes and `hearth up`; what they started on the machine goes on,
* `tree`: everything that the run started, on the machine and in its instances,
* `power`: the machine itself, which is booted again.
PLACE is the number of an event (the start of a task, its start on a host, a result), or the name
of a long step. MS is how long after it, in milliseconds.
"""

import hashlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import lab_machine as lab
from tests.lab.house import CLONE, ROOT, recap

KINDS = ("controller", "tree", "power")
PLACES = ("apt", "uv", "image", "import", "start", "reload", "pull")
SITE = (f"{CLONE}/.venv/bin/ansible-playbook", "site.yml")
UP = (f"{CLONE}/scripts/up",)
# How far a module may get after its event, at most.
WAITS_MS = 700
RUN_S = 1200
_REPORT = "/run/hearth-kill.json"
_ASKED = "HEARTH_KILL"


@dataclass(frozen=True, slots=True)
class Kill:
    """What is killed, where, and how long after."""

    kind: str
    place: str
    wait_ms: int = 0

    def __str__(self) -> str:
        """Return `KIND:PLACE+MS`."""
        return f"{self.kind}:{self.place}+{self.wait_ms}"


@dataclass(frozen=True, slots=True)
class Killed:
    """A run that was killed: at which event, in which task, after how long."""

    kill: Kill
    event: int
    what: str
    task: str
    took_s: float


def parse(text: str) -> Kill:
    """Read `KIND:PLACE+MS`."""
    kind, _, rest = text.partition(":")
    place, _, wait = rest.partition("+")
    if kind not in KINDS or not (place in PLACES or place.isdigit()):
        raise ValueError(f"{text!r}: a kill is {'|'.join(KINDS)}:N+MS, N an event or {PLACES}")
    return Kill(kind, place, int(wait or 0))


def chosen(name: str, events: int, kinds: Sequence[str] = KINDS) -> Kill:
    """Choose a kill by the last commit and a name, or take the one in HEARTH_KILL.

    The next commit has another one, and this one can be repeated.
    """
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    digest = hashlib.sha256(f"{commit} {name}".encode()).digest()
    kind = kinds[digest[0] % len(kinds)]
    event = 1 + int.from_bytes(digest[1:5]) % events
    kill = Kill(kind, str(event), int.from_bytes(digest[5:7]) % WAITS_MS)
    if asked := os.environ.get(_ASKED):
        kill = parse(asked)
    print(f"\n{name}: {_ASKED}={kill} repeats this one", flush=True)
    return kill


def run_killed(machine: str, kill: Kill, argv: Sequence[str] = SITE) -> Killed:
    """Run a command in a lab machine, kill it as requested, and return when it is dead.

    Raises:
        AssertionError: the run ended before it reached that place.
    """
    report = _root(machine) / _REPORT[1:]
    report.unlink(missing_ok=True)
    cut = threading.Thread(target=_cut, args=(machine, report))
    if kill.kind == "power":
        cut.start()
    done = _run(machine, argv, kill)
    if kill.kind == "power":
        cut.join()
        result = _CUT.pop(machine, None)
        assert result, f"{kill}: the run ended by itself: {done.stdout[-1500:]}"
        lab.start(machine)
    else:
        assert report.exists(), f"{kill}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
        result = json.loads(report.read_text())
    if not result.pop("fired"):
        raise AssertionError(f"{kill}: the run has only {result['event']} events")
    assert done.returncode != 0, done.stdout[-1500:]
    return Killed(kill, **result)


def count(machine: str, argv: Sequence[str] = SITE) -> int:
    """Run a command without a kill, and return how many events it has."""
    report = _root(machine) / _REPORT[1:]
    done = _run(machine, argv, None)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]
    return int(json.loads(report.read_text())["event"])


def site(machine: str) -> dict[str, int]:
    """Run site.yml to its end; return how many tasks changed each host."""
    done = _run(machine, SITE, None)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]
    counted = dict(recap(done.stdout))
    assert counted, done.stdout[-3000:]
    return counted


def _run(machine: str, argv: Sequence[str], kill: Kill | None) -> subprocess.CompletedProcess[str]:
    callbacks = f"{CLONE}/tests/kill/callback"
    env = {
        "ANSIBLE_CALLBACK_PLUGINS": f"{callbacks}:{CLONE}/ansible/plugins/callback",
        "ANSIBLE_CALLBACKS_ENABLED": "one_run,kill_at",
        "ANSIBLE_NOCOLOR": "1",
        "HEARTH_KILL_AT": str(kill or ""),
        "HEARTH_KILL_REPORT": _REPORT,
    }
    line = ["/bin/sh", "-c", f'cd {CLONE} && exec "$@"', "run", *argv]
    return lab.run(machine, line, env=env, timeout=RUN_S)


# The last report of a machine before its power was cut: it was in memory.
_CUT: dict[str, dict[str, Any]] = {}


def _cut(machine: str, report: Path) -> None:
    """Wait for the report, then cut the power at once."""
    end = time.monotonic() + RUN_S
    while not report.exists():
        if time.monotonic() > end:
            return
        time.sleep(0.005)
    result = json.loads(report.read_text())
    _CUT[machine] = result
    if result["fired"]:
        lab.cut(machine)


def _root(machine: str) -> Path:
    """The machine's own file tree, seen from here."""
    return Path(f"/proc/{lab.leader_pid(machine)}/root")
