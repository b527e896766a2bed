"""Remember which service wants which program, so that the last one takes it along.

One empty file per pair: making and removing it cannot be cut in half.
"""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from hearth.paths import PROGRAMS
from hearth.remove import Trace

WANTED = Path("/var/lib/hearth/wanted")


def want(program: str, service: str, wanted: Path = WANTED) -> None:
    """Note that the service uses the program; said before it is installed."""
    folder = wanted / program
    folder.mkdir(parents=True, exist_ok=True)
    (folder / service).touch()


def unwanted(gone: Iterable[str], programs: Path = PROGRAMS, wanted: Path = WANTED) -> list[Trace]:
    """List the programs that only services that are gone have used."""
    left = set(gone)
    found = []
    for name in sorted({path.name for path in (*wanted.glob("*"), *programs.glob("*"))}):
        owners = {path.name for path in (wanted / name).glob("*")}
        # A house of before these notes: a program that is called like its service is its own.
        mine = owners & left if owners else {name} & left
        if mine and not owners - left:
            found.append(Trace(f"program {name}", partial(_drop, name, programs, wanted)))
        elif mine:
            said = f"claim of {', '.join(sorted(mine))} to program {name}"
            found.append(Trace(said, partial(_forget, wanted / name, mine)))
    return found


def _drop(name: str, programs: Path, wanted: Path) -> None:
    # The note goes last: what a kill leaves of the program is found again by it.
    if (programs / name).exists():
        shutil.rmtree(programs / name)
    shutil.rmtree(wanted / name, ignore_errors=True)


def _forget(folder: Path, owners: Iterable[str]) -> None:
    for owner in owners:
        (folder / owner).unlink(missing_ok=True)
