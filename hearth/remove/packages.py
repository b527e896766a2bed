"""Which Debian packages only Hearth brought, and which of them nobody else has come to need."""

import json
import os
import subprocess
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hearth.files import write_atomic
from hearth.remove import RemoveError
from hearth.remove.before import DOOMED, STATE, Before, forget_gone, installed

_APT_S = 900
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Packages:
    """What goes, with what came along for it; `stays` says of the others why not."""

    goes: tuple[str, ...] = ()
    stays: dict[str, str] = field(default_factory=dict)


def chosen(
    before: Before | None, asked: Collection[str], protected: Collection[str], state: Path = STATE
) -> Packages:
    """Choose what apt would take away without touching anything that is not Hearth's.

    Args:
        before: The machine's record; without one nothing is known, and nothing goes.
        asked: What Hearth has asked for and not taken away since.
        protected: What has to stay because something else here needs it still.
        state: Where a purge that was cut short has left its list.
    """
    here = set(installed())
    ours = sorted({*asked} & here)
    cut = {*doomed(state)} & here - _manual()
    if before is None or not before.known:
        return Packages(stays=dict.fromkeys(ours, "nobody noted what was here before Hearth"))
    ours = [name for name in ours if name not in before.packages]
    stays = {name: "the data that stay need it" for name in ours if name in protected}
    others = (_manual() | before.packages) - {*ours} | {*stays}
    for name in ours:
        # Somebody may have installed something since that cannot do without it.
        if name not in stays and (needing := sorted(_would_go([name]) & others)):
            stays[name] = f"{needing[0]} needs it"
    others |= {*stays}
    if cut and _would_go(sorted(cut)) & others:
        # Also what nobody could name any more may be of use to somebody by now.
        cut = {name for name in cut if not _would_go([name]) & others}
    first = [name for name in ours if name not in stays]
    if first:
        # What waits for `apt autoremove` for other reasons is not ours to clear.
        cut |= _would_go(["--auto-remove", *first]) - _would_go([], "autoremove")
    return Packages(tuple(sorted(cut - before.packages)), stays)


def purge(names: Iterable[str], state: Path = STATE) -> None:
    """Take packages away with their settings; what a killed run left half done is ended first."""
    # Of half of them gone nobody could tell any more why the others had come.
    write_atomic(state / DOOMED, json.dumps(sorted({*names, *doomed(state)})).encode())
    _run(["/usr/bin/dpkg", "--configure", "-a"])
    left = sorted({*names} & _known())
    if left:
        _run(["/usr/bin/apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120", "purge", *left])
    # Whatever of it comes from now on comes for somebody else's sake.
    forget_gone(state)


def doomed(state: Path = STATE) -> list[str]:
    """Name what a purge that was cut short had begun to take away."""
    try:
        return list(json.loads((state / DOOMED).read_text()))
    except FileNotFoundError:
        return []


def _would_go(words: list[str], verb: str = "purge") -> set[str]:
    """Name what apt would remove, by asking it to pretend."""
    # What somebody's package only recommends did not come for that one's sake.
    strict = [f"-oAPT::AutoRemove::{what}Important=false" for what in ("Recommends", "Suggests")]
    said = _run(["/usr/bin/apt-get", "--simulate", "-q", *strict, verb, *words])
    rows = (line.split() for line in said.splitlines())
    return {row[1].partition(":")[0] for row in rows if row and row[0] in ("Purg", "Remv")}


def _manual() -> set[str]:
    return {line.partition(":")[0] for line in _run(["/usr/bin/apt-mark", "showmanual"]).split()}


def _known() -> set[str]:
    """Name what dpkg knows at all: also what is removed and has left its settings."""
    return set(_run(["/usr/bin/dpkg-query", "-W", "-f", "${Package}\n"]).split())


def _run(argv: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - names that dpkg itself gave, no shell
            argv,
            capture_output=True,
            text=True,
            check=True,
            timeout=_APT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_QUIET},
        )
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).strip().splitlines() or ["nothing said"]
        raise RemoveError(
            f"{' '.join(argv[:3])}: {words[-1]}: mend it, then say this again"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RemoveError(f"{argv[0]}: {error}") from None
    return done.stdout
