"""Run site.yml and show each step with its time."""

import os
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status

from hearth.cli.console import note
from hearth.project import Project

_CALLBACKS = Path(__file__).with_name("callback")
# A faster task that changed nothing gets no line.
_MIN_SHOWN_S = 0.5


class PlaybookError(Exception):
    """One line for a person: what failed where, and the full log."""


@dataclass(slots=True)
class Steps:
    """What the playbook has reported so far; its full output is in the log."""

    console: Console
    status: Status
    log: Path
    preview: bool = False
    task: str = ""
    started: float = field(default_factory=time.monotonic)
    changed: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    totals: dict[str, dict[str, int]] = field(default_factory=dict)
    code: int = 0

    def handle(self, event: dict[str, Any]) -> None:
        """Handle one event of the callback plugin."""
        kind = event["kind"]
        if kind in ("task", "stats"):
            self._finish()
        if kind == "task":
            self.task, self.started = event["name"], time.monotonic()
            self.status.update(f"[dim]{self.task}[/dim]")
        elif kind == "ok":
            self.planned += event["planned"]
            for warning in event["warnings"]:
                note(warning, self.console)
            self.done.append(event["host"])
            if event["changed"]:
                self.changed.append(event["host"])
                self.did += [f"{event['host']}: {line}" for line in event["did"]]
        elif kind == "note":
            note(event["text"], self.console)
        elif kind == "failed":
            self.failures.append(event)
        elif kind == "stats":
            self.totals = event["hosts"]
        elif kind == "end":
            self.code = event["code"]

    def _finish(self) -> None:
        """Print the line of the task that has ended."""
        took = time.monotonic() - self.started
        if self.task and (self.changed or (self.done and took >= _MIN_SHOWN_S)):
            what = f"  [yellow]{', '.join(self.changed)}[/yellow]" if self.changed else ""
            self.console.print(f"[dim]{took:6.1f} s[/dim]  {self.task}{what}")
            for line in self.did if self.preview else ():
                self.console.print(f"          would {line}", markup=False)
        self.task, self.changed, self.did, self.done = "", [], [], []

    def total(self, what: str) -> int:
        """Return a total over all hosts, such as `changed`."""
        return sum(host.get(what, 0) for host in self.totals.values())


def run(project: Project, console: Console, more: tuple[str, ...] = ()) -> Steps:
    """Run site.yml with its full output in a log; return what it did, or raise PlaybookError."""
    log = project.logs / f"up-{datetime.now():%Y%m%d-%H%M%S}.log"
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "site.yml", *more]
    plugins = project.root / "ansible/plugins/callback"
    variables = {
        "HEARTH_EVENTS_FD": "{fd}",
        "ANSIBLE_CONFIG": str(project.root / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": _with("ANSIBLE_CALLBACK_PLUGINS", ":", _CALLBACKS, plugins),
        "ANSIBLE_CALLBACKS_ENABLED": _with("ANSIBLE_CALLBACKS_ENABLED", ",", "hearth_events"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }
    with console.status("[dim]Ansible starts[/dim]") as status:
        steps = Steps(console, status, log, preview="--check" in more)
        for event in project.events(argv, log, variables):
            steps.handle(event)
    if steps.code:
        raise PlaybookError(_reason(steps, log))
    return steps


def _reason(steps: Steps, log: Path) -> str:
    if not steps.failures:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        last = next((x for x in reversed(lines) if "ERROR" in x), lines[-1] if lines else "")
        return f"Ansible stopped: {last.strip()}\nthe full log: {log}"
    failed = [f"{row['host']}: {row['task']}: {row['message']}" for row in steps.failures]
    return "\n".join([*failed, f"the full log: {log}"])


def _with(name: str, between: str, *ours: object) -> str:
    """Return a list setting of Ansible: our values, then those of the environment."""
    theirs = filter(None, os.environ.get(name, "").split(between))
    return between.join(dict.fromkeys([*map(str, ours), *theirs]))
