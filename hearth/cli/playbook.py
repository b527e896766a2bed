"""Run a playbook, mostly site.yml, and show each step with its time."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from hearth.cli.console import Display, display, note
from hearth.progress import repeating
from hearth.project import Project

_CALLBACKS = Path(__file__).with_name("callback")
# A faster task that changed nothing gets no line.
_MIN_SHOWN_S = 0.5
# Before the first task; no host has this name.
_START = ""
_BESIDE_S = 2.0


class PlaybookError(Exception):
    """One line for a person: what failed where, and the full log."""


@dataclass(slots=True)
class Steps:
    """What the playbook has reported so far; its full output is in the log."""

    shown: Display
    log: Path
    preview: bool = False
    planned: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    totals: dict[str, dict[str, int]] = field(default_factory=dict)
    code: int = 0

    def handle(self, event: dict[str, Any]) -> None:
        """Handle one event of the callback plugins."""
        kind = event["kind"]
        if kind == "task":
            self.shown.running.end(_START)
            self.shown.running.start(event["host"], event["name"])
        elif kind == "detail":
            self.shown.running.detail(event["host"], event["what"], event["text"])
        elif kind == "ok":
            self._finish(event)
        elif kind == "skipped":
            self.shown.running.end(event["host"])
        elif kind == "note":
            note(event["text"], self.shown)
        elif kind == "failed":
            self.shown.running.end(event["host"])
            self.failures.append(event)
        elif kind == "stats":
            self.totals = event["hosts"]
        elif kind == "end":
            self.code = event["code"]

    def _finish(self, event: dict[str, Any]) -> None:
        """Print the line of a task that has ended on a host."""
        took, changed = self.shown.running.end(event["host"]), event["changed"]
        self.planned += event["planned"]
        for warning in event["warnings"]:
            note(warning, self.shown)
        if changed or took >= _MIN_SHOWN_S:
            host = f"  [yellow]{event['host']}[/yellow]" if changed else ""
            self.shown.print(f"[dim]{took:6.1f} s[/dim]  {event['name']}{host}")
        if changed:
            each = event["did"] or [event["name"]]
            self.changes += [f"{event['host']}: {line}" for line in each]
        for line in event["did"] if changed and self.preview else ():
            self.shown.print(f"          would {event['host']}: {line}", markup=False)

    def total(self, what: str) -> int:
        """Return a total over all hosts, such as `changed`."""
        return sum(host.get(what, 0) for host in self.totals.values())


def run(
    project: Project,
    console: Console,
    more: tuple[str, ...] = (),
    beside: Callable[[Display], None] | None = None,
    described_by: Project | None = None,
    name: str = "site",
) -> Steps:
    """Run site.yml, or another playbook of the project's folder by its `name`, with its full output
    in a log; return what it did, or raise PlaybookError.

    `beside` is called every two seconds meanwhile, in a thread, and may print. `described_by` has
    another inventory than the project's own, for a preview only.
    """
    kind = "up" if name == "site" else name
    log = project.logs / f"{kind}-{datetime.now():%Y%m%d-%H%M%S}.log"
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), f"{name}.yml", *more]
    plugins = project.root / "ansible/plugins/callback"
    variables = {
        "HEARTH_EVENTS_FD": "{fd}",
        "ANSIBLE_CONFIG": str(project.root / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": _with("ANSIBLE_CALLBACK_PLUGINS", ":", _CALLBACKS, plugins),
        "ANSIBLE_CALLBACKS_ENABLED": _with("ANSIBLE_CALLBACKS_ENABLED", ",", "hearth_events"),
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if described_by:
        argv += ["--inventory", str(described_by.inventory / "machines.yml")]
        # Without the lock of a run: a preview that an agent asked for holds up no person.
        variables |= {"HEARTH_PROJECT": str(described_by.root), "HEARTH_RUN_LOCK": ""}
    with display(console) as shown, _repeated(beside, shown):
        steps = Steps(shown, log, preview="--check" in more)
        shown.running.start(_START, "Ansible starts")
        for event in project.events(argv, log, variables):
            steps.handle(event)
    if steps.code:
        raise PlaybookError(_reason(steps, log))
    return steps


def _repeated(
    beside: Callable[[Display], None] | None, shown: Display
) -> AbstractContextManager[None]:
    return repeating(partial(beside, shown), _BESIDE_S) if beside else nullcontext()


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
