"""Commands and files inside a running lab machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.lab_machine import groups, process
from tests.lab_machine.command import LabError, call, last_line
from tests.lab_machine.model import Machine, load

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def record(machine: Machine) -> Path:
    """The record of its nspawn process."""
    return machine.folder / "run" / "nspawn"


def keeper(machine: Machine) -> Path:
    """The record of the process that restarts nspawn when the machine reboots."""
    return machine.folder / "run" / "keeper"


def running(machine: Machine) -> bool:
    """Whether it runs; rebooting counts as running."""
    return any(process.alive(process.recorded(path(machine))) for path in (keeper, record))


def leader_pid(name: str) -> int:
    """Pid, outside, of the machine's pid 1; `LabError` when it is not running."""
    found = find_leader(load(name))
    if found is None:
        raise LabError(f"lab machine {name!r} is not running; `hearth lab start {name}`")
    return found


def find_leader(machine: Machine) -> int | None:
    """Pid, outside, of the machine's pid 1, if it exists now."""
    identity = process.recorded(record(machine))
    if identity is None or not process.alive(identity):
        return None
    # nspawn has other child processes beside it, and a reboot inside creates a new one.
    for pid in children(identity.pid):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if is_first_of_its_namespace(status):
            return pid
    return None


def children(pid: int) -> list[int]:
    """The children of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_first_of_its_namespace(status: str) -> bool:
    """Whether a /proc/PID/status text is that of a pid 1 inside another pid namespace."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            pids = line.split()[1:]
            return len(pids) > 1 and pids[-1] == "1"
    return False


def entry(machine: Machine, env: Mapping[str, str] | None = None) -> list[str]:
    """The command prefix that runs a command inside."""
    pid, nspawn = find_leader(machine), process.recorded(record(machine))
    if pid is None or nspawn is None:
        raise LabError(
            f"lab machine {machine.name!r} is not running; `hearth lab start {machine.name}`"
        )
    # Python programs ship their own certificate authorities; the lab's are in Debian's bundle.
    trust = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"), _BUNDLE)
    settings = {
        **{"HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash"},
        **{"PATH": _PATH, "LANG": "C.UTF-8", "TERM": os.environ.get("TERM", "dumb")},
        **trust,
        **(env or {}),
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    enter = ["nsenter", "-t", str(pid), "-a", "env", "-i", "--chdir=/root", *words]
    return groups.beside(nspawn.pid, enter)


def run(
    name: str,
    argv: Sequence[str],
    *,
    timeout: float = 60,
    stdin: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    stream_to: IO[bytes] | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command as root inside and return its exit code and output.

    With `stream_to`, output and errors are one stream, written there as they come and returned as
    `stdout`. After `timeout` seconds the command and its children are killed and `LabError` raised.
    """
    child = subprocess.Popen(
        [*entry(load(name), env), *argv],
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if stream_to else subprocess.PIPE,
        start_new_session=True,
    )
    data = stdin.encode() if isinstance(stdin, str) else stdin
    with _limited(child, timeout) as late:
        out, err = _gather(child, data, stream_to)
    if late.is_set():
        raise LabError(f"{name}: {' '.join(argv)[:80]}: no end after {timeout:g} s")
    done = subprocess.CompletedProcess(
        list(argv), child.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )
    if check and done.returncode != 0:
        reason = f"exit {done.returncode}: {last_line(done)}"
        raise LabError(f"{name}: {' '.join(argv)[:80]}: {reason}")
    return done


@contextlib.contextmanager
def _limited(child: subprocess.Popen[bytes], timeout: float) -> Iterator[threading.Event]:
    """Kill a command with all its children after `timeout` seconds, or when its caller exits."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        # nsenter's child lives in another pid namespace but in the same process group.
        os.killpg(child.pid, signal.SIGKILL)

    watch = threading.Timer(timeout, stop)
    watch.start()
    try:
        yield late
    finally:
        watch.cancel()
        watch.join()
        if child.poll() is None:
            stop()
            child.wait()


def _gather(
    child: subprocess.Popen[bytes], data: bytes | None, stream_to: IO[bytes] | None
) -> tuple[bytes, bytes]:
    if stream_to is None or child.stdout is None:
        return child.communicate(data)
    feeder = threading.Thread(target=_feed, args=(child, data))
    feeder.start()
    chunks = []
    while chunk := os.read(child.stdout.fileno(), 1 << 16):
        chunks.append(chunk)
        stream_to.write(chunk)
        stream_to.flush()
    child.stdout.close()
    feeder.join()
    child.wait()
    return b"".join(chunks), b""


def _feed(child: subprocess.Popen[bytes], data: bytes | None) -> None:
    if child.stdin is None:
        return
    try:
        with child.stdin as pipe:
            pipe.write(data or b"")
    except BrokenPipeError:
        return


def interactive(name: str, argv: Sequence[str]) -> int:
    """Run a command (or a shell) on this terminal inside; return its exit code."""
    words = [*entry(load(name)), *(argv or ["/bin/bash", "--login"])]
    return subprocess.call(words)


def copy_in(name: str, src: Path, dst: str, *, exclude: Sequence[str] = ()) -> None:
    """Copy a file to `dst`, or the contents of a folder into the folder `dst`, inside."""
    words = entry(load(name))
    if src.is_dir():
        skip = [f"--exclude={pattern}" for pattern in exclude]
        _pipe(
            ["tar", "-C", str(src), "-c", *skip, "."],
            [*words, "sh", "-c", 'mkdir -p "$0" && exec tar -x --no-same-owner -C "$0"', dst],
        )
        return
    if not src.is_file():
        raise LabError(f"{src}: no such file to copy into {name}")
    mode = f"{src.stat().st_mode & 0o777:o}"
    _pipe(["cat", str(src)], [*words, "install", "-D", "-m", mode, "/dev/stdin", dst])


def trust(name: str, label: str, certificate_pem: str) -> None:
    """Add a trusted certificate authority to the machine, such as the mock upstreams'."""
    path = f"/usr/local/share/ca-certificates/{label}.crt"
    run(name, ["install", "-m", "644", "/dev/stdin", path], stdin=certificate_pem, check=True)
    run(name, ["update-ca-certificates"], check=True)


def copy_out(name: str, src: str, dst: Path) -> None:
    """Copy a file to `dst`, or the contents of a folder into the folder `dst`, from inside."""
    words = entry(load(name))
    if call([*words, "test", "-d", src], check=False).returncode == 0:
        dst.mkdir(parents=True, exist_ok=True)
        take = ["tar", "-x", "--no-same-owner", "-C", str(dst)]
        _pipe([*words, "tar", "-C", src, "-c", "."], take)
        return
    dst.parent.mkdir(parents=True, exist_ok=True)
    _pipe([*words, "cat", src], ["install", "-m", "644", "/dev/stdin", str(dst)])


def _pipe(giver: Sequence[str], taker: Sequence[str]) -> None:
    script = 'set -o pipefail; n=$1; shift; "${@:1:n}" | "${@:n+1}"'
    call(["bash", "-c", script, "pipe", str(len(giver)), *giver, *taker], timeout_s=600)
