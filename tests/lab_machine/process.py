"""Processes that outlive the command that started them, and are identified reliably later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab_machine.command import LabError

# The process records itself before it becomes the program, so a kill at any moment leaves either
# no process or a recorded one. `exec` keeps pid and start time.
_SHIM = 'cat /proc/$$/stat > "$0.stat"; exec "$@"'
_JOIN = 'while [ "$1" != -- ]; do echo $$ 2>&- > "$1"/cgroup.procs; shift; done; shift; exec "$@"'
_LOOP = 's=$1; shift; while :; do /bin/sh -c "$s" "$@"; c=$?; [ $c -eq "$0" ] || exit $c; done'


@dataclass(frozen=True, slots=True)
class Identity:
    """The unambiguous identity of a process: pid, start time and command line."""

    pid: int
    start: int
    argv: tuple[str, ...]


def parse_stat(text: str) -> tuple[int, int]:
    """Pid and start time (ticks since boot) of a line of /proc/PID/stat."""
    # The name, in brackets, may itself contain spaces and brackets.
    head, _, tail = text.rpartition(")")
    return int(head.split(" ", 1)[0]), int(tail.split()[19])


def recorded(record: Path) -> Identity | None:
    """The process that a record names, alive or not; None if none was started."""
    try:
        argv = json.loads(record.with_name(f"{record.name}.argv").read_text())
        pid, start = parse_stat(record.with_name(f"{record.name}.stat").read_text())
    except (FileNotFoundError, ValueError, IndexError):
        return None
    return Identity(pid, start, tuple(argv))


def alive(identity: Identity | None) -> bool:
    """Whether exactly this process runs: same pid, same start, same command line."""
    if identity is None:
        return False
    proc = Path(f"/proc/{identity.pid}")
    try:
        stat = (proc / "stat").read_text()
        start = parse_stat(stat)[1]
        argv = (proc / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (OSError, ValueError, IndexError):
        return False
    # An exiting process has no command line any more, but may still hold files and mounts.
    ending = not argv and stat.rpartition(")")[2].split()[0] not in ("Z", "X")
    return start == identity.start and (ending or tuple(argv) == identity.argv)


def spawn(
    record: Path,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    running: Sequence[str] | None = None,
) -> Identity:
    """Start a program that survives its caller, recorded under `record`, with output to `log`.

    `running` is its final command line if `argv` starts with a program that executes it.
    """
    record.parent.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    forget(record)
    record.with_name(f"{record.name}.argv").write_text(json.dumps(list(running or argv)))
    with log.open("ab") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _SHIM, str(record), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            close_fds=True,
            env={**os.environ, **(env or {})},
            cwd="/",
        )
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        identity = recorded(record)
        if alive(identity) and identity is not None:
            _abandon(child)
            return identity
        if child.poll() is not None:
            break
        time.sleep(0.01)
    raise LabError(f"{argv[0]} did not start; see {log}")


def joining(groups: Sequence[Path], argv: Sequence[str]) -> list[str]:
    """The command line that enters control groups and then executes `argv`."""
    return ["/bin/sh", "-c", _JOIN, "join", *map(str, groups), "--", *argv]


def again(record: Path, argv: Sequence[str], code: int) -> list[str]:
    """The command line that runs `argv`, recorded under `record`, again after each exit `code`."""
    record.parent.mkdir(parents=True, exist_ok=True)
    forget(record)
    record.with_name(f"{record.name}.argv").write_text(json.dumps(list(argv)))
    return ["/bin/sh", "-c", _LOOP, str(code), _SHIM, str(record), *argv]


def _abandon(child: subprocess.Popen[bytes]) -> None:
    # It is meant to outlive this process; without this, Python warns that it still runs.
    child.returncode = 0


def end(record: Path, *, gently: signal.Signals = signal.SIGTERM, within_s: float = 5) -> None:
    """End the recorded process if it still runs, with TERM first, and remove its record."""
    identity = recorded(record)
    for wish in (gently, signal.SIGKILL):
        if identity is None or not alive(identity):
            break
        os.kill(identity.pid, wish)
        wait_gone(identity, within_s if wish is gently else 5)
    if identity is not None:
        reap(identity.pid)
    forget(record)


def end_all(folder: Path) -> None:
    """End every process that is recorded in a folder, and remove the records."""
    for path in sorted(folder.glob("*.argv")):
        end(path.with_suffix(""))


def wait_gone(identity: Identity, within_s: float) -> bool:
    """Wait until the process has ended; False when it still runs after `within_s`."""
    deadline = time.monotonic() + within_s
    while alive(identity):
        if time.monotonic() > deadline:
            return False
        reap(identity.pid)
        time.sleep(0.05)
    return True


def reap(pid: int) -> None:
    """Reap a child process that has ended, so that no zombie remains."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def forget(record: Path) -> None:
    """Remove the record of a process."""
    for suffix in ("argv", "stat"):
        record.with_name(f"{record.name}.{suffix}").unlink(missing_ok=True)
