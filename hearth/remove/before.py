"""Record the machine as it was before Hearth, once, for its removal.

Without a record from before the first run it is unknown what Hearth installed, and nothing is
removed on a guess. Only packages go that Hearth installed and that nothing else needs.
"""

import grp
import json
import pwd
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hearth.files import write_atomic
from hearth.remove import run

STATE = Path("/var/lib/hearth")
# scripts/environment writes this before it installs the first package.
EARLIER = Path(".hearth/packages-before")
# It writes this where Ansible was never used; later, Ansible's own folder exists.
NO_ANSIBLE = Path(".hearth/no-ansible-before")
# Packages that it and the handover from a remote machine installed for Hearth.
BROUGHT = Path(".hearth/brought")
ANSIBLE = "/root/.ansible"
KERNEL = (
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.src_valid_mark",
    "fs.inotify.max_user_instances",
)
SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
_APT_S = 900
_RECORD, REQUESTED = "before.json", "requested.json"
# The list of an unfinished purge.
UNFINISHED = "unfinished.json"


@dataclass(frozen=True, slots=True)
class Before:
    """A machine without Hearth; `known` is false if it was recorded too late or not at all."""

    known: bool = False
    packages: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    kernel: dict[str, str] = field(default_factory=dict)
    subordinate: dict[str, str] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()


# Their entries are recorded, to tell those from before Hearth from later ones.
PLACES = (
    *("/etc", "/etc/systemd", "/etc/systemd/system", "/var/lib", "/var/cache", "/var/log"),
    *("/var/backups", "/root", "/root/.cache", "/root/.config", "/sys/class/net"),
)


def record_before(
    project: Path,
    packages: Iterable[str],
    brought: Iterable[str] = (),
    *,
    write: bool,
    state: Path = STATE,
) -> bool:
    """Write the missing record and the packages to install; return whether anything changed.

    Call this before apt: a run that is killed in between has recorded a package too many, which
    is harmless. `brought` were installed before the first run. The list of an unfinished purge is
    discarded.
    """
    missing = not (state / _RECORD).exists()
    known = requested(state)
    new = {*packages} - known
    if new and not missing:
        # After the first run, a package that is already installed is not Hearth's.
        new -= {*installed()}
    new |= {*brought} - known
    changed = missing or bool(new) or (state / UNFINISHED).exists()
    if write and changed:
        (state / UNFINISHED).unlink(missing_ok=True)
        state.mkdir(parents=True, exist_ok=True)
        write_atomic(state / REQUESTED, json.dumps(sorted(new | known)).encode() + b"\n")
        if missing:
            seen = read_machine(project, known=not (state / "converged").exists())
            # Names need not be UTF-8 on a disk; JSON's own escapes carry the others.
            text = json.dumps(asdict(seen), default=sorted, indent=1)
            write_atomic(state / _RECORD, text.encode() + b"\n")
    return changed


def read_machine(project: Path, *, known: bool = True) -> Before:
    """Return the machine as it is now, with the packages from before Hearth's first."""
    earlier = project / EARLIER
    packages = earlier.read_text().split() if earlier.exists() else installed()
    fresh = {ANSIBLE} if (project / NO_ANSIBLE).exists() else set()
    paths = {str(path) for place in PLACES for path in Path(place).glob("*")}
    return Before(
        known=known,
        packages=frozenset(packages),
        users=frozenset(user.pw_name for user in pwd.getpwall()),
        groups=frozenset(group.gr_name for group in grp.getgrall()),
        kernel={name: kernel_value(name) for name in KERNEL},
        subordinate={str(path): content(path) for path in SUBORDINATE},
        paths=frozenset(paths - fresh),
    )


def read_record(state: Path = STATE) -> Before:
    """Return the record; an empty one where there is none."""
    path = state / _RECORD
    plain: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    sets = {name: frozenset(value) for name, value in plain.items() if isinstance(value, list)}
    return Before(**(plain | sets))


def requested(state: Path = STATE) -> frozenset[str]:
    """Return the packages that Hearth installed here and has not removed since."""
    return frozenset(names_in(state / REQUESTED))


def names_in(path: Path) -> list[str]:
    """Return the names in one of the lists that are kept between runs."""
    return list(json.loads(path.read_text())) if path.exists() else []


def forget_gone(state: Path = STATE) -> None:
    """Finish a purge: the removed packages are no longer Hearth's."""
    left = sorted(requested(state) & {*installed()})
    write_atomic(state / REQUESTED, json.dumps(left).encode() + b"\n")
    (state / UNFINISHED).unlink(missing_ok=True)


def installed() -> list[str]:
    """Return every installed package, as dpkg reports it."""
    shown = run("/usr/bin/dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n")
    rows = (line.split() for line in shown.splitlines())
    return [row[1] for row in rows if row[0] == "installed"]


def kernel_value(name: str) -> str:
    """Return one setting of the running kernel."""
    return Path("/proc/sys", *name.split(".")).read_text().strip()


def content(path: Path) -> str:
    """Return a file's text; empty where there is none."""
    return path.read_text() if path.exists() else ""


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
