"""What the machine sees of units and instances from outside, without running a program there.

A look takes microseconds. A command in an instance takes a quarter of a second of processor time,
needs Incus, and hangs where the instance does.
"""

import ctypes
import errno
import os
import re
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hearth.machine import compose
from hearth.paths import FORM
from hearth.render.quadlets import unit_name

CGROUPS = Path("/sys/fs/cgroup")
# LXC's name for the control group of an instance.
_PAYLOAD = "lxc.payload."
# Podman's, below the unit's own.
_CONTAINER = "libpod-payload-"
# It adds a number where an old group of that name is still there.
_INSTANCE = re.compile(
    r"lxc\.payload\.([\w-]+?)(?:-\d+)?(?:/|$)|/hearth-([\w-]+)\.service/libpod-payload-",
    re.MULTILINE,
)
_NEW_NETWORK = 0x40000000
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# openat2(2): RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS; its number is the same on all processors.
_OPENAT2, _IN_ROOT = 437, 0x10 | 0x02
_MOST_BYTES = 2**20
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of one unit; `since` is when the oldest one started, as a Unix time.

    `memory_bytes` is what they have in memory, files included. `halted` is true if the oldest one
    was stopped by a signal (SIGSTOP) or a debugger. `cpu_s` is the processor time of all that were
    in the unit since it was started.
    """

    pids: tuple[int, ...] = ()
    since: int = 0
    memory_bytes: int = 0
    halted: bool = False
    cpu_s: float = 0


def processes(instance: str | None, unit: str) -> Processes:
    """Return the processes of a unit, in an instance or on the machine itself (`None`)."""
    own = f"{CGROUPS}/{_PAYLOAD}{instance}/system.slice/{unit}"
    if instance is None or not (pids := _pids(own)):
        own = f"{group(instance)}/system.slice/{unit}"
        pids = _pids(own)
    if instance is None and not pids:
        # Of a container, without Podman's own process and the first one, which only waits.
        pids = _pids(f"{_payload(unit)}")[1:]
    found = [one for pid in pids if (one := _stat(pid))]
    if not found:
        return Processes()
    start, _, state, _ = min(found)
    return Processes(
        pids=tuple(pid for _, pid, _, _ in sorted(found)),
        since=_unix_time(start),
        memory_bytes=sum(pages for *_, pages in found) * _PAGE,
        halted=state in "Tt",
        cpu_s=_cpu_s(own),
    )


def group(instance: str | None) -> Path:
    """Return the control group of an instance, or of the machine itself (`None`)."""
    if instance is None:
        return CGROUPS
    plain = CGROUPS / f"{_PAYLOAD}{instance}"
    if _pids(f"{plain}/init.scope"):
        return plain
    # An instance that was killed may leave its old group behind, empty.
    numbered = (one for one in CGROUPS.glob(f"{plain.name}-*") if instance_of(one.name) == instance)
    return next((one for one in numbered if _pids(f"{one}/init.scope")), plain)


def _payload(unit: str) -> Path:
    """Return the control group of the container that a unit of the machine runs."""
    own = CGROUPS / "system.slice" / unit
    return next((one for one in own.glob(f"{_CONTAINER}*") if _pids(f"{one}")), own / _CONTAINER)


def instance_of(groups: str) -> str | None:
    """Return the instance that a process belongs to, from the path or file of its groups."""
    found = _INSTANCE.search(groups)
    return found[1] or found[2] if found else None


def first_process(instance: str) -> int:
    """Return the process id of an instance's systemd; 0 when it does not run.

    In a house of containers it is the first process of the one that runs its program.
    """
    if FORM:
        return compose.first_process(instance)
    its = _pids(f"{group(instance)}/init.scope")
    for pid in its or _pids(f"{_payload(f'{unit_name(instance)}.service')}"):
        numbers = next((line for line in _lines(f"/proc/{pid}/status") if "NSpid" in line), "")
        # Its helpers have other numbers inside.
        if numbers.split()[-1:] == ["1"]:
            return pid
    return 0


def sockets(instance: str | None, count: int) -> list[socket.socket]:
    """Return TCP sockets that connect as a program in the instance, or on the machine, does.

    Raises:
        OSError: the instance is not running, or this is not root.
    """
    box: list[socket.socket] = []
    errors: list[OSError] = []

    def make() -> None:
        try:
            if instance is not None:
                _enter_network(instance)
            box.extend(socket.socket() for _ in range(count))
        except OSError as error:
            errors.append(error)

    # Only this thread enters the namespace, and it ends there.
    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return box


def read_file(instance: str | None, path: str) -> bytes:
    """Return a file of an instance, or of the machine (`None`), of at most a megabyte.

    Raises:
        OSError: there is no such regular file, the instance does not run, or this is not root.
    """
    folder = "/"
    if instance is not None:
        pid = first_process(instance)
        if not pid:
            raise ProcessLookupError(f"the instance {instance} is not running")
        folder = f"/proc/{pid}/root"
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        handle = _open_beneath(root, path.lstrip("/"))
    finally:
        os.close(root)
    with os.fdopen(handle, "rb") as stream:
        # A pipe or a device of the instance would never end.
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, f"{path} is not a regular file")
        return stream.read(_MOST_BYTES)


def _open_beneath(root: int, path: str) -> int:
    """Open a file for reading; links in it lead nowhere but below `root`."""
    how = struct.pack("=QQQ", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, _IN_ROOT)
    handle = int(_libc.syscall(_OPENAT2, root, os.fsencode(path), how, len(how)))
    if handle < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"/{path}")
    return handle


def _enter_network(instance: str) -> None:
    """Move this thread into the network of an instance."""
    pid = first_process(instance)
    if not pid:
        raise ProcessLookupError(f"the instance {instance} is not running")
    with open(f"/proc/{pid}/ns/net", "rb") as network:
        if _libc.setns(network.fileno(), _NEW_NETWORK):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _pids(folder: str) -> list[int]:
    return [int(line) for line in _lines(f"{folder}/cgroup.procs")]


def _cpu_s(folder: str) -> float:
    used = (line.split() for line in _lines(f"{folder}/cpu.stat"))
    return next((int(words[1]) / 1e6 for words in used if words[0] == "usage_usec"), 0.0)


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of a file of the kernel; a group or a process may end at any time."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            yield from stream
    except OSError:
        return


def _stat(pid: int) -> tuple[int, int, str, int] | None:
    """Return start (in ticks), number, state and pages in memory; None of one that has ended."""
    fields = "".join(_lines(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return None
    return int(fields[19]), pid, fields[0], int(fields[21])


def _unix_time(start: int) -> int:
    # Whole seconds first, because both clocks are never read at the same moment.
    booted = round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
    return booted + start // _TICKS
