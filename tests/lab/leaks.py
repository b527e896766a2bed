"""Search for the house's secrets wherever an account could read them that should not."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import lab_machine as lab
from tests.lab.house import CLONE, NAME, House

PROGRAM = Path(__file__).with_name("leaks_inside.py").read_text(encoding="utf-8")
STOP = "/run/leaks.stop"
WITHIN_S = 900
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# Every client receives the certificates.
PUBLIC = ("_cert",)
# A key in PEM form may be split into lines; each single line would be a leak.
LINE = 40


@dataclass(slots=True)
class Leaks:
    """The secrets that are searched for, since when, and every hit as a name and a place."""

    house: House
    needles: dict[str, list[str]]
    since: float
    hits: set[tuple[str, str]] = field(default_factory=set)

    def names_at(self, place: str) -> set[str]:
        """Name the secrets that were found in places with this text in their names."""
        return {name for name, where in self.hits if place in where}

    def read(self, place: str, text: str) -> None:
        """Search a text that other people may get to see."""
        for name, needles in self.needles.items():
            if any(needle in text for needle in needles):
                self.hits.add((name, place))

    @contextmanager
    def watching(self) -> Iterator[dict[str, float]]:
        """Watch all processes as `nobody` until the block ends; yield how often it looked."""
        self.house.shell(f"rm -f {STOP}")
        seen: dict[str, float] = {}

        def watch() -> None:
            report = self._ask([*NOBODY], {"watch": STOP})
            self._take("processes", report)
            seen["per_s"] = report["looks"] / report["seconds"]

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield seen
        finally:
            self.house.shell(f"touch {STOP}")
            thread.join()

    def look_at_files(self, instances: list[str]) -> None:
        """Search the files that everybody may read, on the machine and in instances."""
        for name in (None, *instances):
            into = ["incus", "exec", name, "--"] if name else []
            report = self._ask([*into, *NOBODY], {"since": self.since})
            self._take(f"files of {name or 'the machine'}", report)

    def look_at_journals(self, instances: list[str]) -> None:
        """Search the journals and the logs of every run."""
        read = f"journalctl --no-pager --output=cat --since=@{int(self.since)}"
        self.read("journal of the machine", self.house.shell(read))
        for name in instances:
            self.read(
                f"journal of {name}", self.house.shell(f"incus exec {name} -- {read} </dev/null")
            )
        self.read("logs of runs", self.house.shell(f"cat {CLONE}/.hearth/logs/*.log"))
        kept = "find /var/lib/hearth/receipt -type f -exec cat {} +"
        self.read("the receipt", self.house.shell(kept))

    def _ask(self, argv: list[str], what: Mapping[str, Any]) -> dict[str, Any]:
        request = json.dumps({"needles": self.needles, **what})
        words = [*argv, "/usr/bin/python3", "-I", "-c", PROGRAM]
        # `incus exec` sometimes loses a program's output on a busy machine.
        for _ in range(3):
            done = lab.run(NAME, words, stdin=request, timeout=WITHIN_S)
            assert done.returncode == 0, done.stderr[-2000:]
            if done.stdout:
                break
        return dict(json.loads(done.stdout))

    def _take(self, place: str, report: Mapping[str, Any]) -> None:
        self.hits.update((name, f"{place}: {where}") for name, where in report["hits"])


def of_the_house(house: House, **more: str) -> Leaks:
    """Every secret of the vault, and `more`, in all shapes in which they may be written."""
    script = (
        "import json, sys; from hearth.project import current; "
        "json.dump(current().vault.values(), sys.stdout)"
    )
    output = house.shell(f"cd {CLONE}; .venv/bin/python -c '{script}'")
    values = {n: v for n, v in json.loads(output).items() if not n.endswith(PUBLIC)} | more
    return Leaks(house, {name: shapes(value) for name, value in values.items()}, time.time() - 1)


def shapes(value: str) -> list[str]:
    """The value as it is, or line by line, and as a header or a unit would contain it."""
    if "\n" in value:
        return [line for line in value.splitlines() if len(line) >= LINE and "-----" not in line]
    return [value, base64.b64encode(value.encode()).decode().rstrip("=")]
