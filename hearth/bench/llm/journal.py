"""Keeps each result at once, one line of JSON each, so that an interrupted run can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth.files import write_atomic

END = "end"
_BEFORE = "-before"


@dataclass(slots=True)
class Journal:
    """The file of one run: its first line says what is measured, each other one has a result.

    `results` has the last result of each step, by model and step.
    """

    path: Path
    head: dict[str, Any]
    results: dict[tuple[str, str], Any] = field(default_factory=dict)
    resumed: int = 0
    """How many results an interrupted run had left."""

    def add(self, model: str, step: str, result: Any) -> None:
        """Append a result; it is on the disk when this returns.

        Raises:
            OSError: the disk is full or broken.
        """
        self.results[model, step] = result
        line = json.dumps({"model": model, "step": step, "result": result}, ensure_ascii=False)
        with self.path.open("ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def drop(self, model: str, step: str) -> None:
        """Forget a result, so that the step is done again."""
        self.results.pop((model, step), None)


def open_journal(path: Path, head: Mapping[str, Any], *, again: bool = False) -> Journal:
    """Go on with the unfinished run of this head, or begin a new one.

    The file of another or finished run is kept beside it, with `-before` in its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    found = None if again else _read(path)
    if found and found.head["run"] == head["run"] and ("", END) not in found.results:
        found.resumed = len(found.results)
        # A line that a killed run left unfinished must not spoil the next one.
        if not path.read_bytes().endswith(b"\n"):
            with path.open("ab") as file:
                file.write(b"\n")
        return found
    if path.exists():
        path.replace(path.with_name(f"{path.stem}{_BEFORE}{path.suffix}"))
    line = json.dumps({"head": dict(head)}, ensure_ascii=False)
    write_atomic(path, line.encode() + b"\n")
    return Journal(path, dict(head))


def _read(path: Path) -> Journal | None:
    """Return what a file has; None without a readable head. A broken line is left out."""
    try:
        first, *lines = path.read_bytes().splitlines()
        head = json.loads(first)["head"]
        journal = Journal(path, dict(head))
        journal.head["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for line in lines:
        try:
            one = json.loads(line)
            journal.results[str(one["model"]), str(one["step"])] = one["result"]
        except (ValueError, KeyError, TypeError):
            continue
    return journal
