"""Allow one run of site.yml at a time on a machine; its lock names it and ends with it."""

from __future__ import annotations

DOCUMENTATION = """
name: one_run
type: notification
short_description: Allow one playbook run at a time to change the machine
description: Holds a lock on this machine while site.yml and the processes that it started run. A
  second run fails before its first task and names the holder. It waits for the processes of a
  killed run. At its end the run writes down what it changed.
author: Hearth
options:
  lock:
    description: The lock file; without one, there is neither a lock nor a wait.
    type: str
    default: /run/hearth.lock
    env:
      - name: HEARTH_RUN_LOCK
  record:
    description: The file with the tasks that changed something, for the health page.
    type: str
    default: /var/lib/hearth/last-run.json
    env:
      - name: HEARTH_RUN_RECORD
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.executor.stats import AggregateStats
from ansible.executor.task_result import CallbackTaskResult
from ansible.playbook import Playbook
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase

from hearth.files import write_atomic
from hearth.machine import runs

# What changes the machine; all other playbooks write into the project at most.
PLAYBOOK = "site.yml"
REMOTE = "remote"
# Where callback/hearth_events.py of `hearth up` writes, too.
EVENTS = "HEARTH_EVENTS_FD"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Runs in Ansible's own process, from the first play to the last."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "one_run"
    # A user's own list of callbacks would silently disable it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Start without the lock."""
        super().__init__(*args, **kwargs)
        self._held = contextlib.ExitStack()
        self._changes = False
        self._changed: list[str] | None = None

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        """Determine whether the playbook changes the machine."""
        # A user's own playbook may import ours.
        files = {Path(play.get_path().rpartition(":")[0]).name for play in playbook.get_plays()}
        # Without root, a run changes nothing on this machine.
        self._changes = PLAYBOOK in files and not os.geteuid()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Take the lock before the first task and wait for orphans, or end the run."""
        lock, changes, self._changes = self.get_option("lock"), self._changes, False
        # For a remote house, the remote run takes the lock of its own machine.
        if not changes or not lock or play.get_variable_manager()._inventory.get_hosts(REMOTE):
            return
        try:
            self._held.enter_context(runs.alone(self._say, Path(lock)))
        except runs.BusyError as error:
            # Not wrapped, so that a reader of the log's last error finds all of it.
            self._display.error(str(error), wrap_text=False)
            # Ansible turns any other exception of a callback into a warning.
            sys.exit(1)
        if not context.CLIARGS.get("check"):
            self._changed = []

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Note a task that changed something."""
        if self._changed is not None and result.result.get("changed"):
            self._changed.append(f"{result.host.get_name()}: {result.task.get_name().strip()}")

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Write down what was changed; a disk that is full costs only that."""
        if self._changed is None:
            return
        failed = any(stats.summarize(host)["failures"] for host in stats.processed)
        found = {"made": time.time(), "changed": self._changed, "failed": failed}
        with contextlib.suppress(OSError):
            write_atomic(Path(self.get_option("record")), json.dumps(found).encode())

    def _say(self, text: str) -> None:
        """Print a line as Ansible's, and send it to the display of `hearth up` if there is one."""
        self._display.warning(text)
        if number := os.environ.get(EVENTS):
            os.write(int(number), json.dumps({"kind": "note", "text": text}).encode() + b"\n")
