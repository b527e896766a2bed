"""Allow one run of site.yml at a time on a machine; its lock names it and ends with it."""

from __future__ import annotations

DOCUMENTATION = """
name: one_run
type: notification
short_description: Allow one playbook run at a time to change the machine
description: Holds a lock on this machine while site.yml and the processes that it started run. A
  second run fails before its first task and names the holder. It waits for the processes of a
  killed run.
author: Hearth
options:
  lock:
    description: The lock file; without one, there is neither a lock nor a wait.
    type: str
    default: /run/hearth.lock
    env:
      - name: HEARTH_RUN_LOCK
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from ansible.playbook import Playbook
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase

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

    def _say(self, text: str) -> None:
        """Print a line as Ansible's, and send it to the display of `hearth up` if there is one."""
        self._display.warning(text)
        if number := os.environ.get(EVENTS):
            os.write(int(number), json.dumps({"kind": "note", "text": text}).encode() + b"\n")
