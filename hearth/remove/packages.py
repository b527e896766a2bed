"""Choose and purge the Debian packages that only Hearth needed."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hearth.files import write_atomic
from hearth.remove import run
from hearth.remove.before import STATE, UNFINISHED, Before, forget_gone, installed, names_in

_APT_S = 900


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages that go, with dependencies; `stays` has the others and the reason."""

    goes: tuple[str, ...] = ()
    stays: dict[str, str] = field(default_factory=dict)


def choose_packages(
    before: Before,
    requested: Collection[str],
    protected: Collection[str],
    state: Path = STATE,
) -> Packages:
    """Choose, of the `requested` packages, those that go without any that are not Hearth's.

    Without a record from before Hearth, nothing goes; neither do `protected` packages, which
    something else on the machine still needs.
    """
    here = set(installed())
    ours = sorted({*requested} & here)
    cut = {*unfinished(state)} & here - _manual()
    if not before.known:
        return Packages(stays=dict.fromkeys(ours, "there is no record from before Hearth"))
    ours = [name for name in ours if name not in before.packages]
    stays = {name: "the remaining data need it" for name in ours if name in protected}
    others = (_manual() | before.packages) - {*ours} | {*stays}
    for name in ours:
        # A package that was installed later may depend on it.
        if name not in stays and (needing := sorted(_would_go([name]) & others)):
            stays[name] = f"{needing[0]} needs it"
    others |= {*stays}
    if cut and _would_go(sorted(cut)) & others:
        # Packages of an unfinished purge may have become dependencies, too.
        cut = {name for name in cut if not _would_go([name]) & others}
    first = [name for name in ours if name not in stays]
    if first:
        # Other packages that wait for `apt autoremove` are not Hearth's.
        cut |= _would_go(["--auto-remove", *first]) - _would_go([], "autoremove")
    return Packages(tuple(sorted(cut - before.packages)), stays)


def purge(names: Iterable[str], state: Path = STATE) -> None:
    """Purge packages, after finishing what a killed run left half done."""
    # After half a purge, apt could no longer tell why the others were installed.
    write_atomic(state / UNFINISHED, json.dumps(sorted({*names, *unfinished(state)})).encode())
    run("/usr/bin/dpkg", "--configure", "-a", timeout_s=_APT_S)
    left = sorted({*names} & _known())
    if left:
        words = ("-q", "-y", "-o", "DPkg::Lock::Timeout=120", "purge", *left)
        run("/usr/bin/apt-get", *words, timeout_s=_APT_S)
    # If they are installed again, they are not Hearth's.
    forget_gone(state)


def unfinished(state: Path = STATE) -> list[str]:
    """Return the packages of a purge that was interrupted."""
    return names_in(state / UNFINISHED)


def _would_go(words: list[str], verb: str = "purge") -> set[str]:
    """Return the packages that apt would remove, from its simulation."""
    # A package that is only recommended by another is not a dependency.
    strict = [f"-oAPT::AutoRemove::{what}Important=false" for what in ("Recommends", "Suggests")]
    words = ["--simulate", "-q", *strict, verb, *words]
    shown = run("/usr/bin/apt-get", *words, timeout_s=_APT_S)
    rows = (line.split() for line in shown.splitlines())
    return {row[1].partition(":")[0] for row in rows if row and row[0] in ("Purg", "Remv")}


def _manual() -> set[str]:
    return {line.partition(":")[0] for line in run("/usr/bin/apt-mark", "showmanual").split()}


def _known() -> set[str]:
    """Return every package in dpkg's database, also removed ones that left settings."""
    return set(run("/usr/bin/dpkg-query", "-W", "-f", "${Package}\n").split())
