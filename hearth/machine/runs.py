"""The run lock of this machine: one playbook run at a time, and the orphans of a killed one.

A killed controller does not kill what it started: a module goes on, on the machine or in an
instance, and would write the same files as the next run. Each process that a run starts
therefore carries the run's name in its environment, and the next run waits until no process
carries another one.
"""

import contextlib
import json
import os
import pwd
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hearth.files import LockHeldError, locked

# Held by each run that changes this machine; callback/one_run.py takes it for a run of site.yml.
LOCK = Path("/run/hearth.lock")
# In the environment of every process of a run, on the machine and in its instances.
MARK = "HEARTH_RUN"
# Longer than the longest module runs, which is to build and import an image.
PATIENCE_S = 1860.0
# A killed process that does not end hangs in the kernel, on a dead disk.
_KILLED_S = 60.0
_LOOK_AGAIN_S = 0.2
_WORDS = 100
_WAITS = "waiting for another run to finish"
_OTHER = "another run is active on this machine"


class BusyError(Exception):
    """One line for a person: which run or process is active on this machine already."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a playbook, as the lock names it."""

    user: str
    origin: str
    command: str
    pid: int
    started: int
    since: str

    def __str__(self) -> str:
        """Return user, origin, command and start time, for a person."""
        return (
            f"{self.user} ({self.origin}) runs `{self.command}` as process {self.pid} "
            f"since {self.since}"
        )

    @property
    def name(self) -> str:
        """The name that marks its processes; no later run has the same."""
        return f"{self.pid}.{self.started}"

    @property
    def alive(self) -> bool:
        """Whether its own process is there, and not a later one of the same number."""
        return started(self.pid) == self.started

    def dump(self) -> str:
        """Return the text that `read` takes; its first line is for people."""
        return f"{self}\n{json.dumps(asdict(self))}"


def this_run(argv: list[str]) -> Run:
    """Describe the run that this process is."""
    pid = os.getpid()
    words = shlex.join([Path(argv[0]).name, *argv[1:]])
    # Only the first line of the lock is shown to people.
    command = " ".join(words.split())[:_WORDS]
    return Run(_user(), _origin(), command, pid, started(pid), f"{time.strftime('%F %T %Z')}")


def read(text: str) -> Run | None:
    """Read the run from a lock's text; None when Hearth did not write it."""
    try:
        return Run(**json.loads(text.splitlines()[1]))
    except (ValueError, TypeError, IndexError):
        return None


def started(pid: int) -> int:
    """Return when a process started, in the kernel's ticks; 0 when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    # One that has ended and waits for its parent is no longer active.
    return 0 if fields[0] in "ZX" else int(fields[19])


def scope(lock: int | Path) -> str:
    """Name the machine whose lock this file, open or not, is: a lab machine on it has another."""
    stat = os.stat(lock)
    return f"{stat.st_dev:x}-{stat.st_ino:x}"


def at_work(machine: str) -> dict[str, dict[int, str]]:
    """Return each run's active processes by its name, also in instances, and their commands."""
    ours, found = f"{MARK}={machine}.".encode(), dict[str, dict[int, str]]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(folder.name)
        for entry in environment:
            if entry.startswith(ours) and started(pid):
                name = entry.removeprefix(ours).decode(errors="replace")
                found.setdefault(name, {})[pid] = _command(folder)
    return found


def left_at_work(machine: str, mine: str) -> dict[int, str]:
    """Return the orphans: active processes of other runs and their commands."""
    others = (found for name, found in at_work(machine).items() if name != mine)
    return {pid: command for found in others for pid, command in found.items()}


def is_alive(name: str) -> bool:
    """Return whether the run of this name is active."""
    pid, _, began = name.partition(".")
    return pid.isdigit() and str(started(int(pid))) == began


def active(lock: Path | None = None) -> Run | None:
    """Return the run that changes this machine now, without touching its lock."""
    try:
        run = read((lock or LOCK).read_text(errors="replace"))
    except OSError:
        return None
    return run if run and run.alive else None


@contextlib.contextmanager
def alone(
    say: Callable[[str], None], lock: Path | None = None, within_s: float = 0.0
) -> Iterator[None]:
    """Hold this machine's lock once no orphan of a killed run is left.

    Processes that are started meanwhile carry this run's name. A run that is alive is waited for
    during `within_s`, then there is a BusyError.
    """
    run, before = this_run(sys.argv), os.environ.get(MARK)
    with contextlib.ExitStack() as held:
        machine = scope(_take(held, lock or LOCK, run, within_s, say))
        os.environ[MARK] = f"{machine}.{run.name}"
        try:
            outlast(machine, run.name, say)
            yield
        finally:
            # A run that is started later has a name of its own.
            del os.environ[MARK]
            os.environ.update({MARK: before} if before is not None else {})


def _take(
    held: contextlib.ExitStack, lock: Path, run: Run, within_s: float, say: Callable[[str], None]
) -> int:
    """Take the lock; a dead run's last tasks hold it, so wait for them and at last kill them."""
    reported, start, killed = "", time.monotonic(), False
    while True:
        try:
            return held.enter_context(locked(lock, within_s=0, who=run.dump()))
        except LockHeldError as error:
            other = read(error.holder)
            dead = other is not None and not other.alive
            # A transfer of settings has no run yet; its lock has one line.
            who = other or error.holder.partition("\n")[0] or error
            waited = time.monotonic() - start
            if dead and waited >= PATIENCE_S and not killed:
                # Ansible's worker holds it for as long as its task lasts, and has no mark itself.
                _end(_holders(lock) | left_at_work(scope(lock), run.name), PATIENCE_S, say)
                killed = True
            if waited >= (PATIENCE_S + _KILLED_S if dead else within_s):
                whose = "a process of a killed run does not end" if dead else _OTHER
                raise BusyError(f"{whose}: {who}") from None
            why = "a run was killed, and its last task is still running" if dead else _WAITS
            if reported != why:
                say(f"{why}: {who}")
                reported = why
            time.sleep(_LOOK_AGAIN_S)


def _holders(lock: Path) -> dict[int, str]:
    """Return the processes that hold this lock, and their commands."""
    inode, found = f":{lock.stat().st_ino} ", dict[int, str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for entry in (folder / "fdinfo").iterdir():
                text = entry.read_text()
                if "FLOCK" in text and inode in text:
                    found[int(folder.name)] = _command(folder)
    return found


def outlast(
    machine: str, mine: str, say: Callable[[str], None], patience_s: float = PATIENCE_S
) -> None:
    """Return when no process of another run is left; after `patience_s` they are killed.

    The next run repeats every interrupted step, so a kill costs time and nothing else. A process
    that survives it is a BusyError.
    """
    if left := left_at_work(machine, mine):
        say(f"a killed run left this running: {_list(left)}; waiting for its end")
        _end(_after(machine, mine, patience_s), patience_s, say)
        if left := _after(machine, mine, _KILLED_S):
            raise BusyError(
                f"{_list(left)} does not end even when killed: it waits for a disk that "
                "does not respond; reboot this machine, then run this again"
            )


def _after(machine: str, mine: str, within_s: float) -> dict[int, str]:
    """Return the processes that are still left when none is, or when the time is over."""
    end = time.monotonic() + within_s
    while (left := left_at_work(machine, mine)) and time.monotonic() <= end:
        time.sleep(_LOOK_AGAIN_S)
    return left


def _end(left: dict[int, str], patience_s: float, say: Callable[[str], None]) -> None:
    if left:
        say(f"killed after more than {patience_s:g} s: {_list(left)}")
    for pid in left:
        _kill(pid)


def _list(left: dict[int, str]) -> str:
    return ", ".join(f"process {pid} ({command})" for pid, command in left.items())


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _command(folder: Path) -> str:
    try:
        words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = ""
    # Ansible starts a module with a long shell line; only its end names the module.
    return " ".join(words.split())[-_WORDS:] or "ending"


def _user() -> str:
    # Behind `sudo`, the user who typed it is the one to contact.
    named = os.environ.get("SUDO_USER")
    try:
        return named or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _origin() -> str:
    over_ssh = os.environ.get("SSH_CONNECTION", "").split()
    if over_ssh:
        return f"from {over_ssh[0]}"
    for stream in range(3):
        try:
            return f"at {os.ttyname(stream)}"
        except OSError:
            continue
    return "on this machine, without a terminal"
