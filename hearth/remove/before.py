"""Record the machine as it was before Hearth, once, for its removal.

Without a record from before the first run it is unknown what Hearth installed, and nothing is
removed on a guess.
"""

import grp
import json
import pwd
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from hearth.files import write_atomic

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
_RECORD, REQUESTED = "before.json", "requested.json"
# The list of an unfinished purge; building the house again discards it.
UNFINISHED = "unfinished.json"
_DPKG_S = 60


@dataclass(frozen=True, slots=True)
class Before:
    """A machine without Hearth; `known` is false if it was recorded after the first package."""

    known: bool
    packages: frozenset[str]
    users: frozenset[str]
    groups: frozenset[str]
    kernel: dict[str, str]
    subordinate: dict[str, str]
    paths: frozenset[str]


# Their entries are recorded, to tell those from before Hearth from later ones.
PLACES = (
    *("/etc", "/etc/systemd", "/etc/systemd/system", "/var/lib", "/var/cache", "/var/log"),
    *("/var/backups", "/root", "/root/.cache", "/root/.config", "/sys/class/net"),
)


def record_before(
    project: Path,
    requested: Iterable[str],
    brought: Iterable[str] = (),
    *,
    write: bool,
    state: Path = STATE,
) -> bool:
    """Write the missing record and the packages to install; return whether anything changed.

    Call this before apt: a run that is killed in between has recorded a package too many, which
    is harmless. `brought` were installed before the first run.
    """
    missing = not (state / _RECORD).exists()
    known = _requested(state)
    new = {*requested} - known
    if new and not missing:
        # After the first run, a package that is already installed is not Hearth's.
        new -= {*installed()}
    new |= {*brought} - known
    changed = missing or bool(new)
    if write:
        (state / UNFINISHED).unlink(missing_ok=True)
    if write and changed:
        state.mkdir(parents=True, exist_ok=True)
        write_atomic(state / REQUESTED, json.dumps(sorted(new | known)).encode() + b"\n")
        if missing:
            seen = read_machine(project, known=not (state / "converged").exists())
            write_atomic(state / _RECORD, _text(seen))
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


def read_record(state: Path = STATE) -> Before | None:
    """Return the record, or None where there is none."""
    try:
        plain = json.loads((state / _RECORD).read_text())
    except FileNotFoundError:
        return None
    sets = ("packages", "users", "groups", "paths")
    return Before(**{**plain, **{name: frozenset(plain[name]) for name in sets}})


def requested(state: Path = STATE) -> frozenset[str]:
    """Return the packages that Hearth installed here and has not removed since."""
    return frozenset(_requested(state))


def forget_gone(state: Path = STATE) -> None:
    """Finish a purge: the removed packages are no longer Hearth's."""
    left = sorted(_requested(state) & {*installed()})
    write_atomic(state / REQUESTED, json.dumps(left).encode() + b"\n")
    (state / UNFINISHED).unlink(missing_ok=True)


def installed() -> list[str]:
    """Return every installed package, as dpkg reports it."""
    shown = subprocess.run(
        ["/usr/bin/dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_DPKG_S,
    ).stdout
    rows = (line.split() for line in shown.splitlines())
    return [row[1] for row in rows if row[0] == "installed"]


def kernel_value(name: str) -> str:
    """Return one setting of the running kernel."""
    return Path("/proc/sys", *name.split(".")).read_text().strip()


def _requested(state: Path) -> set[str]:
    try:
        return set(json.loads((state / REQUESTED).read_text()))
    except FileNotFoundError:
        return set()


def _text(seen: Before) -> bytes:
    plain = {
        key: sorted(value) if isinstance(value, frozenset) else value
        for key, value in asdict(seen).items()
    }
    return json.dumps(plain, indent=1).encode() + b"\n"


def content(path: Path) -> str:
    """Return a file's text; empty where there is none."""
    return path.read_text() if path.exists() else ""
