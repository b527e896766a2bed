"""Let a remote house run a playbook itself, and show its output as it arrives.

Arguments: `project` (the checkout to send there), `reach` (the record's `reach: ssh://…`) and
`playbook`. Options of this run (--check, --diff, --tags, --limit, -e, -v) apply there too. The task
fails if the remote run fails, and is `changed` if it changed anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

from hearth import progress
from hearth.machine.action import HouseAction
from hearth.remote.controller import RemoteError, follow, prepared, send, target

# One row of Ansible's recap: `house : ok=5 changed=2 unreachable=0 failed=0 …`.
_ROW = re.compile(r"^(\S+)\s+: (ok=\d+ .*)$")


class ActionModule(HouseAction):
    """Send the project there, run the playbook, and return its recap."""

    arguments: ClassVar = {
        "project": {"type": "path", "required": True},
        "reach": {"type": "str", "required": True},
        "playbook": {"type": "str", "required": True},
    }
    errors = (RemoteError,)

    def work(self, params: dict[str, Any], *, write: bool) -> dict[str, Any]:
        """Run it there; in check mode it is previewed there, which needs the project as well."""
        recap: dict[str, dict[str, int]] = {}

        def show(line: str) -> None:
            self._display.display(line)
            progress.printed()
            if row := _ROW.match(line):
                words = (word.partition("=") for word in row[2].split())
                recap[row[1]] = {name: int(count) for name, _, count in words}

        there = target(params["reach"])
        words = [".venv/bin/ansible-playbook", params["playbook"], *options(context.CLIARGS)]
        send(Path(params["project"]), there, self._display.display)
        command = prepared(words, with_values=True)
        code = follow(there, command, show, values=values(self._loader))
        changed = any(row.get("changed", 0) for row in recap.values())
        result = {"changed": changed, "recap": recap, "rc": code}
        failed = {"failed": True, "msg": f"the run on {there.host} failed: see its output above"}
        return result | (failed if code else {})


def options(given: Mapping[str, Any]) -> list[str]:
    """Return the options that make the run there the same as this one."""
    words = [f"--{name}" for name in ("check", "diff") if given.get(name)]
    if given.get("subset"):
        words += ["--limit", given["subset"]]
    tags = {"tags": ["all"], "skip_tags": []}
    for name, unset in tags.items():
        if (named := list(given.get(name) or unset)) != unset:
            words += [f"--{name.replace('_', '-')}", ",".join(named)]
    loud = "v" * int(given.get("verbosity") or 0)
    return [*words, f"-{loud}"] if loud else words


def values(loader: DataLoader) -> str:
    """Return what `-e` gave this run, files included, for a file there.

    On a command line every user of the machine could read them.
    """
    return json.dumps(load_extra_vars(loader), default=str)
