"""Kill many runs that change a house, one after the other, and report each result.

`scripts/test --sweep N` runs it. Each kill hits a run that makes a change (or reverts it), with
`--bare` one that builds the house. After one kill, or some in a row, comes a run without one: it
must leave the house as a run that was never killed did, and the one after must change nothing.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests import lab_machine as lab
from tests.kill.houses import Bare, House, Outcome, Standing
from tests.kill.kills import KINDS, WAITS_MS, Kill, Killed, parse
from tests.lab.house import ROOT

REPORT = ROOT / ".hearth" / "logs" / "sweep.json"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one kill."""

    killed: Killed
    # All kills of a row have the same.
    outcome: Outcome

    @property
    def recovered(self) -> bool:
        """Whether the next run repaired everything."""
        return not self.outcome.differences

    @property
    def good(self) -> bool:
        """Whether the next run repaired everything and the one after changed nothing."""
        return self.recovered and self.outcome.second_changed == 0

    def line(self) -> str:
        """Return the row of the table."""
        killed = self.killed
        return (
            f"{killed.kill!s:<22} {killed.event:>4}  {killed.task[:44]:<44}  "
            f"{killed.what[:22]:<22} "
            f"{killed.took_s:6.1f} s  {self.outcome.next_s:6.1f} s  "
            f"{'yes' if self.recovered else 'NO':<9}  changed={self.outcome.second_changed}"
        )


HEAD = (
    f"{'kill':<22} {'n':>4}  {'task':<44}  {'event':<22} {'killed':>8}  {'next':>8}  "
    f"recovered  second run"
)


def plan(number: int, events: Sequence[int], places: Sequence[str], seed: str) -> Iterator[Kill]:
    """Choose kills of all kinds: the named places first, then events all over the run.

    `events` are the numbers of events of the runs that are killed in turn.
    """
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    # Of few kills each hits another place; of many each place is hit by all kinds.
    named = [
        Kill(KINDS[(turn + index) % len(KINDS)], place, 20)
        for turn in range(len(KINDS))
        for index, place in enumerate(places)
    ]
    for index in range(number):
        if index < len(named):
            yield named[index]
            continue
        last = events[index % len(events)]
        # Spread evenly, each kind over the whole of the run, and not on the same events each time.
        part = (index // len(KINDS)) / max(1, number // len(KINDS))
        event = 1 + int((part + chance.random() / max(1, number // len(KINDS))) * last) % last
        yield Kill(KINDS[index % len(KINDS)], str(event), chance.randrange(WAITS_MS))


def keep(rows: Sequence[Row], machine: str, path: Path) -> None:
    """Write the table for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results = [asdict(row) | {"good": row.good, "kill": str(row.killed.kill)} for row in rows]
    path.write_text(json.dumps({"machine": machine, "rows": results}, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Kill as often as requested, print a row for each, and exit with 1 if one did not recover."""
    parser = argparse.ArgumentParser(prog="scripts/test --sweep", description=__doc__)
    parser.add_argument("number", type=int)
    parser.add_argument("--machine", help="a lab machine (default: sweep, with --bare sweep-bare)")
    parser.add_argument(
        "--bare", action="store_true", help="runs that build the house on a new machine"
    )
    parser.add_argument("--in-a-row", type=int, default=1, help="so many, then a whole run")
    parser.add_argument("--seed", default="", help="chooses other events (default: by the time)")
    parser.add_argument("--kill", action="append", help="KIND:PLACE+MS instead of a choice")
    parser.add_argument("--report", type=Path, default=REPORT)
    asked = parser.parse_args(argv)
    machine = asked.machine or ("sweep-bare" if asked.bare else "sweep")
    if not asked.bare and machine not in {one.name for one in lab.load_all()}:
        build(machine)
    house: House = Bare(machine) if asked.bare else Standing(machine)
    house.prepare()
    seed = asked.seed or str(int(time.time()))
    print(f"events: {house.events}; seed {seed}\n{HEAD}", flush=True)
    named = [parse(word) for word in asked.kill or ()]
    chosen = iter(named or plan(asked.number, house.events, house.places, seed))
    rows = list[Row]()
    while some := list(itertools.islice(chosen, asked.in_a_row)):
        killed = [_killed(house, kill) for kill in some]
        outcome = house.recover()
        rows += (fresh := [Row(one, outcome) for one in killed])
        print(*(row.line() for row in fresh), sep="\n", flush=True)
        print(*(f"    {line}\n" for line in outcome.differences[:12]), sep="", end="", flush=True)
        keep(rows, machine, asked.report)
    good = sum(row.good for row in rows)
    print(f"{good} of {len(rows)} recovered; {asked.report}")
    return 0 if rows and good == len(rows) else 1


def _killed(house: House, kill: Kill) -> Killed:
    killed = house.kill(kill)
    print(f"killed  {killed.kill} in {killed.task!r}, {killed.what}", flush=True)
    return killed


def build(machine: str) -> None:
    """Make a lab machine with a house in it, as a user would."""
    argv = [str(ROOT / "scripts/up"), "--lab", "--lab-name", machine]
    if subprocess.run(argv, check=False).returncode:
        sys.exit(f"scripts/up --lab --lab-name {machine} failed, so there is no house to kill")


if __name__ == "__main__":
    sys.exit(main())
