"""What the machine was before Hearth: written down once, and never overwritten.

A house whose first run did not write it (an older Hearth) gets a record that says so; what only
Hearth brought is not known there, and nothing is taken away on a guess.
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
# What scripts/environment wrote before it installed the first package.
EARLIER = Path(".hearth/packages-before")
# It wrote this one where nobody had used Ansible yet; whoever looks later sees Ansible's folder.
NO_ANSIBLE = Path(".hearth/no-ansible-before")
# What it and the hand-over from another machine have installed for Hearth.
BROUGHT = Path(".hearth/brought")
ANSIBLE = "/root/.ansible"
KERNEL = (
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.src_valid_mark",
    "fs.inotify.max_user_instances",
)
SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
_RECORD, _ASKED = "before.json", "asked.json"
# What packages.purge was about to take away; a house that is built again has no such plan.
DOOMED = "doomed.json"
_DPKG_S = 60


@dataclass(frozen=True, slots=True)
class Before:
    """A bare machine: `known` is false where nobody looked before the first package came."""

    known: bool
    packages: frozenset[str]
    users: frozenset[str]
    groups: frozenset[str]
    kernel: dict[str, str]
    subordinate: dict[str, str]
    paths: frozenset[str]


# What lies in these was there before, or came with Hearth or after it.
PLACES = (
    *("/etc", "/etc/systemd", "/etc/systemd/system", "/var/lib", "/var/cache", "/var/log"),
    *("/var/backups", "/root", "/root/.cache", "/root/.config", "/sys/class/net"),
)


def remember(
    project: Path,
    asked: Iterable[str],
    brought: Iterable[str] = (),
    *,
    write: bool,
    state: Path = STATE,
) -> bool:
    """Write the record where it lacks, and what apt is asked for; return whether anything was.

    Said before apt is asked: a run that is killed in between has promised a package too many,
    which is none when it is not there. `brought` was asked for before there was a run.
    """
    lacking = not (state / _RECORD).exists()
    known = _asked(state)
    new = {*asked} - known
    if new and not lacking:
        # After the first time, what is here already came for somebody else's sake.
        new -= {*installed()}
    new |= {*brought} - known
    changed = lacking or bool(new)
    if write:
        (state / DOOMED).unlink(missing_ok=True)
    if write and changed:
        state.mkdir(parents=True, exist_ok=True)
        write_atomic(state / _ASKED, json.dumps(sorted(new | known)).encode() + b"\n")
        if lacking:
            seen = look(project, known=not (state / "converged").exists())
            write_atomic(state / _RECORD, _text(seen))
    return changed


def look(project: Path, *, known: bool = True) -> Before:
    """Look at the machine as it is now, and at the packages before the very first one."""
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


def read(state: Path = STATE) -> Before | None:
    """Return the record, or None where there is none."""
    try:
        plain = json.loads((state / _RECORD).read_text())
    except FileNotFoundError:
        return None
    sets = ("packages", "users", "groups", "paths")
    return Before(**{**plain, **{name: frozenset(plain[name]) for name in sets}})


def asked(state: Path = STATE) -> frozenset[str]:
    """Return the packages that Hearth has asked for here and not taken away since."""
    return frozenset(_asked(state))


def forget_gone(state: Path = STATE) -> None:
    """End a purge: nothing that it took away is Hearth's any more."""
    left = sorted(_asked(state) & {*installed()})
    write_atomic(state / _ASKED, json.dumps(left).encode() + b"\n")
    (state / DOOMED).unlink(missing_ok=True)


def installed() -> list[str]:
    """Name every installed package, as dpkg tells."""
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
    """Read one setting of the running kernel."""
    return Path("/proc/sys", *name.split(".")).read_text().strip()


def _asked(state: Path) -> set[str]:
    try:
        return set(json.loads((state / _ASKED).read_text()))
    except FileNotFoundError:
        return set()


def _text(seen: Before) -> bytes:
    plain = {
        key: sorted(value) if isinstance(value, frozenset) else value
        for key, value in asdict(seen).items()
    }
    return json.dumps(plain, indent=1).encode() + b"\n"


def content(path: Path) -> str:
    """Read a small file; one that is not there is empty."""
    return path.read_text() if path.exists() else ""
