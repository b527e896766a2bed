"""Kill a run of a playbook at one of its events, or while a named program works for it."""

from __future__ import annotations

import glob
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from ansible.executor.stats import AggregateStats
from ansible.executor.task_result import CallbackTaskResult
from ansible.inventory.host import Host
from ansible.playbook.play import Play
from ansible.playbook.task import Task
from ansible.plugins.callback import CallbackBase

from hearth.machine import runs

DOCUMENTATION = """
name: kill_at
type: notification
short_description: Kill this run at event N
description: Counts the starts of tasks, the starts on a host and the results, writes what it is
  about to do, and kills. Only the tests of a killed run load it.
author: Hearth
options:
  kill:
    description: "`KIND:PLACE+MS`, as tests/kill/kills.py says it; empty to count only."
    type: str
    default: ""
    env:
      - name: HEARTH_KILL_AT
  report:
    description: Where it says what it does.
    type: str
    required: true
    env:
      - name: HEARTH_KILL_REPORT
"""

# What the command line of a program holds while a long task is at it.
PLACES = {
    "apt": b"dpkg\0--status-fd\0",
    "uv": b"uv\0pip\0install",
    "image": b"/usr/bin/mmdebstrap\0",
    "import": b"incus\0image\0import",
    "start": b"forkstart",
    "reload": b"caddy\0reload\0",
}
# Half a model, which the puller goes on with beside the run.
PULLED = "/var/lib/incus/storage-pools/hearth/custom/*/models/blobs/*-partial*"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Runs in Ansible's own process, like the code that kills it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "kill_at"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Count from nothing."""
        super().__init__(*args, **kwargs)
        self._seen, self._task, self._began, self._fired = 0, "", time.monotonic(), False
        self._kind, self._place, self._wait_s = "", "", 0.0

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Read what is asked for, once; watch for a program where one is named."""
        if self._kind or not (asked := self.get_option("kill")):
            return
        self._kind, _, place = asked.partition(":")
        self._place, _, wait = place.partition("+")
        self._wait_s = int(wait or 0) / 1000
        if not self._place.isdigit():
            threading.Thread(target=self._watch, daemon=True).start()

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        """Count the start of a task."""
        self._task = task.get_name().strip()
        self._count("task")

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        """Count the start on one host."""
        self._count(f"start on {host.get_name()}")

    def v2_runner_on_ok(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        """Count a result."""
        self._count(f"result of {result.host.get_name()}")

    v2_runner_on_failed = v2_runner_on_skipped = v2_runner_on_unreachable = v2_runner_on_ok

    def v2_runner_item_on_ok(self, result: CallbackTaskResult) -> None:
        """Count the result of one item of a loop."""
        self._count(f"item of {result.host.get_name()}")

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Say how many events there were; a run that ends has not been killed."""
        self._report("end", fired=False)

    def _count(self, what: str) -> None:
        self._seen += 1
        if self._place == str(self._seen) and not self._fired:
            self._fired = True
            # On its own thread, so that the run goes on in the meantime.
            threading.Timer(self._wait_s, self._fire, args=(what,)).start()

    def _watch(self) -> None:
        # What an earlier run left at work is none of this one's, which waits for it first.
        while runs.MARK not in os.environ or not _at(self._place):
            time.sleep(0.01)
        time.sleep(self._wait_s)
        self._fired = True
        self._fire(self._place)

    def _fire(self, what: str) -> None:
        self._report(what, fired=True)
        if self._kind == "controller":
            _kill_controller()
        elif self._kind == "tree":
            _kill_tree()
        # `power` is cut from outside, by the reader of the report.

    def _report(self, what: str, *, fired: bool) -> None:
        path = Path(self.get_option("report"))
        result = {
            "fired": fired,
            "event": self._seen,
            "what": what,
            "task": self._task,
            "took_s": round(time.monotonic() - self._began, 2),
        }
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_text(json.dumps(result))
        fresh.replace(path)


def _at(place: str) -> bool:
    """Whether the long step is at work."""
    if place == "pull":
        return bool(glob.glob(PULLED))
    return any(PLACES[place] in _cmdline(pid) for pid in _processes())


def _kill_controller() -> None:
    """Kill Ansible's own processes and the commands that wait for it; modules go on."""
    me = os.getpid()
    workers = [pid for pid in _children(me) if _cmdline(pid) == _cmdline(me)]
    for pid in [*_callers(me), *workers, me]:
        _signal(pid, signal.SIGKILL)


def _kill_tree() -> None:
    """Kill all that this run started, on the machine and in instances, and who started it."""
    me = os.getpid()
    mark = f"{runs.MARK}={os.environ[runs.MARK]}".encode()
    doomed: set[int] = set()
    # Stopped first, so that nothing gets further while others die.
    while fresh := {pid for pid in _processes() if mark in _environ(pid)} - doomed - {me}:
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        doomed |= fresh
    workers = [pid for pid in _children(me) if _cmdline(pid) == _cmdline(me)]
    for pid in [*doomed, *_callers(me), *workers, me]:
        _signal(pid, signal.SIGKILL)


def _callers(pid: int) -> list[int]:
    """The commands of Hearth that wait for this run, the outermost first."""
    found: list[int] = []
    while (pid := _parent(pid)) > 1 and any(
        word in _cmdline(pid) for word in (b"hearth.cli", b"scripts/up", b"scripts/hearth")
    ):
        found.insert(0, pid)
    return found


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _parent(pid: int) -> int:
    stat = _read(pid, "stat").decode(errors="replace")
    return int(stat.rpartition(")")[2].split()[1]) if stat else 0


def _children(pid: int) -> list[int]:
    return [int(word) for word in _read(pid, f"task/{pid}/children").split()]


def _cmdline(pid: int) -> bytes:
    return _read(pid, "cmdline")


def _environ(pid: int) -> list[bytes]:
    return _read(pid, "environ").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
