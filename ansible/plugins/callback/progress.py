"""Print what each running task is doing when nothing else was printed for a while."""

from __future__ import annotations

DOCUMENTATION = """
name: progress
type: notification
short_description: Show what long tasks are doing
description: Repeats the name and the time of each running task, with what its action reports, when
  nothing was printed for four seconds. Sends the reports to the display of `hearth up`.
author: Hearth
"""

import contextlib
import json
import os
from typing import Any

from ansible.executor.task_result import CallbackTaskResult
from ansible.inventory.host import Host
from ansible.playbook import Playbook
from ansible.playbook.task import Task
from ansible.plugins.callback import CallbackBase

from hearth import progress

# Where callback/hearth_events.py of `hearth up` writes, too.
EVENTS = "HEARTH_EVENTS_FD"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Runs a thread in Ansible's own process, from the start of a playbook to its totals."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "progress"
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Open the pipe that the workers report to."""
        super().__init__(*args, **kwargs)
        self._reports = progress.collect()
        self._silence, self._running = progress.Silence(), progress.Running()
        self._thread = contextlib.ExitStack()

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        """Start to look."""
        self._thread.enter_context(progress.repeating(self._look))

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        """Note that a task starts on a host."""
        self._silence.broken()
        self._running.start(host.get_name(), task.get_name().strip())

    def _end(self, result: CallbackTaskResult, **_: Any) -> None:
        self._silence.broken()
        self._running.end(result.host.get_name())

    v2_runner_on_ok = v2_runner_on_failed = v2_runner_on_unreachable = v2_runner_on_skipped = _end

    def v2_playbook_on_stats(self, stats: object) -> None:
        """Stop looking."""
        self._thread.close()

    def _look(self) -> None:
        for place, what, text in self._reports.read():
            if not what:
                # It printed something itself.
                self._silence.broken()
                continue
            self._running.detail(place, what, text)
            if number := os.environ.get(EVENTS):
                event = {"kind": "detail", "host": place, "what": what, "text": text}
                os.write(int(number), json.dumps(event).encode() + b"\n")
        if self._silence.is_long():
            for line in self._running.lines():
                self._display.display(line)
