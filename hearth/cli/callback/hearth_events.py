"""Write what a playbook does as one line of JSON per event, for the display of `hearth up`."""

import json
import os
from typing import Any

from ansible.executor.stats import AggregateStats
from ansible.executor.task_result import CallbackTaskResult
from ansible.inventory.host import Host
from ansible.playbook.task import Task
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: hearth_events
type: notification
short_description: Events for the display of `hearth up`
description: Writes tasks, results and totals to the file descriptor in HEARTH_EVENTS_FD. Reports
  changes and failures, never the arguments or the content of a task.
author: Hearth
requirements: []
"""
# The last output of a program is shorter.
_LINES = 30


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Writes events for one reader, and nothing without one."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "hearth_events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Open the stream that the environment names."""
        super().__init__(*args, **kwargs)
        number = os.environ.get("HEARTH_EVENTS_FD")
        self._stream = os.fdopen(os.dup(int(number)), "w", buffering=1) if number else None

    def _write(self, kind: str, **more: object) -> None:
        if self._stream is not None:
            self._stream.write(json.dumps({"kind": kind, **more}) + "\n")

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        """Report the start of a task on a host."""
        self._write("task", host=host.get_name(), name=task.get_name().strip())

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        """Report whether a task changed a host."""
        fields = result.result
        # The actions that our own modules report: paths and names, never contents.
        did = fields.get("did") or fields.get("done") or ()
        self._write(
            "ok",
            host=result.host.get_name(),
            name=result.task.get_name().strip(),
            changed=bool(fields.get("changed")),
            did=[did] if isinstance(did, str) else list(did),
            planned=fields.get("planned") or [],
            warnings=[str(warning) for warning in fields.get("warnings") or ()],
        )

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        """Report a failure and its reason."""
        if ignore_errors:
            return
        # `no_log` leaves only this key; nothing of such a result may be shown.
        hidden = "censored" in result.result
        message = "the task's output is hidden" if hidden else _message(result.result)
        task = result.task.get_name().strip()
        self._write("failed", host=result.host.get_name(), task=task, message=message)

    v2_runner_on_unreachable = v2_runner_on_failed

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        """Report the end of a task that did nothing."""
        self._write("skipped", host=result.host.get_name())

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        """Report the totals of each host."""
        self._write("stats", hosts={host: stats.summarize(host) for host in stats.processed})


def _message(fields: dict[str, Any]) -> str:
    """Return a module's own reason, or the most useful line of a program's output."""
    for row in fields.get("results") or ():
        if isinstance(row, dict) and row.get("failed"):
            return _message(row)
    for key in ("msg", "stderr", "module_stderr", "stdout"):
        lines = [line for line in str(fields.get(key) or "").splitlines() if line.strip()]
        if lines and not (key == "msg" and lines[0].startswith("MODULE FAILURE")):
            # The reason of a traceback is in its last line.
            if key.endswith("stderr"):
                return lines[-1]
            # Our own modules report all problems at once, or the last output of a program.
            return "\n".join(lines[:_LINES]) if key == "msg" else lines[0]
    return "no reason given"
