"""Kill many runs that change a house, one after the other, and say what became of each.

`scripts/test --sweep N` runs it. Each kill hits a run that makes a change (or takes it back). After
one, or some in a row, comes a run that nobody kills: it must leave the house exactly as a run that
was never killed did, and the one after must have nothing to do.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hearth import lab
from tests.kill import change, state
from tests.kill.kills import KINDS, WAITS_MS, Kill, Killed, count, parse, run_killed, site
from tests.lab.house import ROOT

REPORT = ROOT / ".hearth" / "logs" / "sweep.json"
# Long steps of a change on a house that stands; the others work on a bare machine only.
STANDING = ("reload",)


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one kill."""

    killed: Killed
    next_s: float
    recovered: bool
    second_changed: int
    differences: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the next run put all right and the one after had nothing to do."""
        return self.recovered and self.second_changed == 0

    def line(self) -> str:
        """Return the row of the table."""
        killed = self.killed
        return (
            f"{killed.kill!s:<22} {killed.event:>4}  {killed.task[:44]:<44}  "
            f"{killed.what[:22]:<22} "
            f"{killed.took_s:6.1f} s  {self.next_s:6.1f} s  "
            f"{'yes' if self.recovered else 'NO':<9}  changed={self.second_changed}"
        )


HEAD = (
    f"{'kill':<22} {'n':>4}  {'task':<44}  {'event':<22} {'killed':>8}  {'next':>8}  "
    f"recovered  second run"
)


@dataclass(slots=True)
class Sweep:
    """A house, its two states as unkilled runs leave them, and which of them it is to be in."""

    machine: str
    references: dict[bool, Mapping[str, str]] = field(default_factory=dict)
    events: dict[bool, int] = field(default_factory=dict)
    changed: bool = False

    def prepare(self) -> None:
        """Take both references, and count the events of both ways."""
        # Whatever the machine was like before, the first run makes it the house of this commit.
        change.make(self.machine, changed=False)
        site(self.machine)
        for changed in (True, False):
            change.make(self.machine, changed=changed)
            self.events[changed] = count(self.machine)
            self.references[changed] = state.look(self.machine)
            assert not (found := state.wrong(self.references[changed])), found

    def kill(self, kill: Kill) -> Killed:
        """Kill a run that turns the house into its other state."""
        self.changed = not self.changed
        change.make(self.machine, changed=self.changed)
        killed = run_killed(self.machine, kill)
        print(f"killed  {killed.kill} in {killed.task!r}, {killed.what}", flush=True)
        return killed

    def recover(self, killed: Sequence[Killed]) -> list[Row]:
        """Run twice what was killed, and compare; what is wrong stands with the last kill."""
        began = time.monotonic()
        try:
            site(self.machine)
        except AssertionError as error:
            took, found, second = time.monotonic() - began, [str(error)[-1500:]], -1
        else:
            took = time.monotonic() - began
            found = state.differences(self.references[self.changed], state.look(self.machine))
            second = sum(site(self.machine).values())
        rows = [Row(one, took, not found, second) for one in killed]
        rows[-1].differences.extend(found)
        return rows


def plan(number: int, events: Mapping[bool, int], seed: str) -> Iterator[Kill]:
    """Choose kills of all kinds: the named places first, then events all over the run."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    named = [Kill(kind, place, 20) for place in STANDING for kind in KINDS]
    for index in range(number):
        if index < len(named):
            yield named[index]
            continue
        # The run that is killed turns the house the other way each time.
        last = events[index % 2 == 0]
        # Spread evenly, each kind over the whole of the run, and not on the same events each time.
        part = (index // len(KINDS)) / max(1, number // len(KINDS))
        event = 1 + int((part + chance.random() / max(1, number // len(KINDS))) * last) % last
        yield Kill(KINDS[index % len(KINDS)], str(event), chance.randrange(WAITS_MS))


def keep(rows: Sequence[Row], machine: str, path: Path) -> None:
    """Write the table for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = [asdict(row) | {"good": row.good, "kill": str(row.killed.kill)} for row in rows]
    path.write_text(json.dumps({"machine": machine, "rows": told}, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Kill as often as asked, print a row for each, and end with 1 when one did not recover."""
    parser = argparse.ArgumentParser(prog="scripts/test --sweep", description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("--machine", default="sweep", help="a lab machine with a house in it")
    parser.add_argument("--in-a-row", type=int, default=1, help="so many, then a whole run")
    parser.add_argument("--seed", default="", help="chooses other events (default: by the time)")
    parser.add_argument("--kill", action="append", help="KIND:PLACE+MS instead of a choice")
    parser.add_argument("--report", type=Path, default=REPORT)
    asked = parser.parse_args(argv)
    if asked.machine not in {known.name for known in lab.load_all()}:
        build(asked.machine)
    sweep, rows = Sweep(asked.machine), list[Row]()
    sweep.prepare()
    seed = asked.seed or str(int(time.time()))
    print(
        f"events: {sweep.events[True]} and back {sweep.events[False]}; seed {seed}\n{HEAD}",
        flush=True,
    )
    chosen = iter(
        [parse(word) for word in asked.kill or ()] or plan(asked.number, sweep.events, seed)
    )
    while some := list(itertools.islice(chosen, asked.in_a_row)):
        for row in sweep.recover([sweep.kill(kill) for kill in some]):
            rows.append(row)
            lines = [row.line(), *(f"    {line}" for line in row.differences[:12])]
            print("\n".join(lines), flush=True)
        keep(rows, asked.machine, asked.report)
    good = sum(row.good for row in rows)
    print(f"{good} of {len(rows)} recovered; {asked.report}")
    return 0 if rows and good == len(rows) else 1


def build(machine: str) -> None:
    """Make a lab machine with a house in it, as a user would."""
    argv = [str(ROOT / "scripts/up"), "--lab", "--lab-name", machine]
    if subprocess.run(argv, check=False).returncode:
        sys.exit(f"scripts/up --lab --lab-name {machine} failed, so there is no house to kill")


if __name__ == "__main__":
    sys.exit(main())
