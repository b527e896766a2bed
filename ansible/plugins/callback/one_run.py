"""Let one run of site.yml at a time work on a machine: the lock dies with it and names it."""

from __future__ import annotations

DOCUMENTATION = """
name: one_run
type: notification
short_description: One run of a playbook that changes the machine at a time
description: Holds a lock of this machine while site.yml (or what removes a service) runs, with all
  that it started. A second run ends before its first task and says who holds it; what a killed run
  left at work is waited for.
author: Hearth
options:
  lock:
    description: The file that is locked; with none, nothing is locked or waited for.
    type: str
    default: /run/hearth.lock
    env:
      - name: HEARTH_RUN_LOCK
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from ansible.playbook import Playbook
from ansible.playbook.play import Play
from ansible.plugins.callback import CallbackBase

from hearth import runs
from hearth.files import LockHeldError, locked

# What changes the machine; all other playbooks write into the project at most.
PLAYBOOKS = ("site", "remove")
ELSEWHERE = "afar"
# Where callback/hearth_events.py of `hearth up` writes, too.
EVENTS = "HEARTH_EVENTS_FD"
LOOK_AGAIN_S = 0.2


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Lives in Ansible's own process, from the first play to the last."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "one_run"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Hold nothing yet."""
        super().__init__(*args, **kwargs)
        self._held = contextlib.ExitStack()
        self._changes = False

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        """See whether it is a playbook that changes the machine."""
        # Whoever is not root changes nothing on this machine.
        self._changes = Path(playbook._file_name).name.startswith(PLAYBOOKS) and not os.geteuid()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Before the first task take the lock and wait for what others left, or end here."""
        lock, changes, self._changes = self.get_option("lock"), self._changes, False
        # For a house elsewhere the run there takes the lock of its own machine.
        if not changes or not lock or play.get_variable_manager()._inventory.get_hosts(ELSEWHERE):
            return
        run = runs.this_run(sys.argv)
        try:
            machine = runs.scope(self._take(Path(lock), run))
        except LockHeldError as error:
            other = runs.read(error.holder) or error
            # Unbroken, so that whoever reads the log for its last error finds all of it.
            text = f"another run is at work on this machine: {other}"
            self._display.error(text, wrap_text=False)
            # Anything else that a callback raises is a warning to Ansible.
            sys.exit(1)
        os.environ[runs.MARK] = f"{machine}.{run.name}"
        runs.outlast(machine, run.name, self._say)

    def _take(self, lock: Path, run: runs.Run) -> int:
        """Take the lock; one that only a dead run's last tasks hold is waited for."""
        told, end = False, time.monotonic() + runs.PATIENCE_S
        while True:
            try:
                return self._held.enter_context(locked(lock, within_s=0, who=run.dump()))
            except LockHeldError as error:
                other = runs.read(error.holder)
                if other is None or other.alive or time.monotonic() > end:
                    raise
                if not told:
                    self._say(f"a run was killed, its last task goes on: {other}")
                    told = True
                time.sleep(LOOK_AGAIN_S)

    def _say(self, text: str) -> None:
        """Tell who reads Ansible's own lines, and the display of `hearth up` where there is one."""
        self._display.warning(text)
        if number := os.environ.get(EVENTS):
            os.write(int(number), json.dumps({"kind": "note", "text": text}).encode() + b"\n")
