"""The only place where our programs talk to the engine that carries instances.

`incus exec` loses output when several run at once, so everything goes through Incus' API with
pylxd. Wherever a function takes an instance, `None` means the machine itself: its parts are
ordinary systemd units there.
"""

import functools
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# pylxd warns about every attribute that is newer than itself; Incus has many.
os.environ.setdefault("PYLXD_WARNINGS", "none")

import pylxd
import pylxd.exceptions
import requests

from hearth.machine import instance_exec
from hearth.machine.instance_config import POOL
from hearth.machine.instance_exec import SOCKET

READ_S = 20
# `timeout` ends the command inside; this is what the answer may take on top of it.
_GRACE_S = 5
_TIMED_OUT = 124
_ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8"}


class EngineError(Exception):
    """One line for a person: which instance, what failed, what to do."""


class OutputLost(EngineError):
    """The command ended, but not all that it said arrived: who only looks may look again."""


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command left behind: its exit code and all of its output as text."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class State:
    """What the engine says of an instance; `memory_bytes` is what it uses now."""

    status: str
    memory_bytes: int

    @property
    def running(self) -> bool:
        """Say whether the instance runs."""
        return self.status == "Running"


def execute(
    instance: str | None, argv: Sequence[str], *, timeout: float, stdin: str | bytes | None = None
) -> Completed:
    """Run `argv` and return all of its output, whatever its exit code.

    Args:
        instance: the instance's name, `None` for the machine itself.
        argv: the program and its arguments; no shell reads them.
        timeout: seconds after which the command is ended, inside.
        stdin: what the command reads.

    Raises:
        EngineError: the instance or the engine is not there, or the time is over.
    """
    bounded = ["/usr/bin/timeout", "--kill-after=2", f"{timeout:g}", *argv]
    if instance is None:
        done = _run_here(bounded, timeout + _GRACE_S, stdin)
    else:
        done = _run_inside(instance, bounded, timeout + _GRACE_S, stdin)
    if done.returncode == _TIMED_OUT:
        raise EngineError(f"{_name(instance)}: `{argv[0]}` took longer than {timeout:g} s")
    return done


def read_file(instance: str | None, path: str) -> str:
    """Return the text of a file.

    Raises:
        EngineError: there is no such file or instance.
    """
    done = execute(instance, ["/bin/cat", "--", path], timeout=READ_S)
    if done.returncode:
        raise refusal(instance, f"cannot read {path}", done)
    return done.stdout


def refusal(instance: str | None, what: str, done: Completed) -> EngineError:
    """Return what is said of a command that failed: where, what, and its own last line."""
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return EngineError(f"{_name(instance)}: {what}: {lines[-1]}")


def state(instance: str) -> State:
    """Return what the engine says of one instance.

    Raises:
        EngineError: the instance or the engine is not there.
    """
    answer = _bounded(instance, lambda: _instance(instance).state(), READ_S)
    return State(status=answer.status, memory_bytes=int((answer.memory or {}).get("usage", 0)))


def has_volume(name: str) -> bool:
    """Say whether the house's pool holds a volume of this name; a machine without Incus has none.

    Raises:
        EngineError: Incus is there and does not answer, so nobody knows.
    """

    def search() -> bool:
        try:
            pool = _client().storage_pools.get(POOL)
        except pylxd.exceptions.NotFound:
            return False
        return any(v.name == name and v.type == "custom" for v in pool.volumes.all())

    return os.path.exists(SOCKET) and bool(_bounded(f"volume {name}", search, READ_S))


def _name(instance: str | None) -> str:
    return instance or "this machine"


def _run_here(argv: Sequence[str], seconds: float, stdin: str | bytes | None) -> Completed:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(  # noqa: S603 - argv comes from our own code, and no shell reads it
            argv, input=given or b"", capture_output=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"this machine: {error}") from error
    return Completed(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def _run_inside(
    instance: str, argv: Sequence[str], seconds: float, stdin: str | bytes | None
) -> Completed:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = _bounded(
        instance,
        lambda: instance_exec.execute(
            _client(), instance, argv, stdin=given or b"", environment=_ENVIRONMENT
        ),
        seconds,
    )
    return Completed(
        done.exit_code, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


@functools.lru_cache(maxsize=1)
def _client() -> Any:
    if not os.path.exists(SOCKET):
        raise FileNotFoundError(SOCKET)
    return pylxd.Client(endpoint=SOCKET)


def _instance(name: str) -> Any:
    return _client().instances.get(name)


def _bounded(instance: str, call: Callable[[], Any], seconds: float) -> Any:
    """Return what `call` returns, or raise after `seconds`: pylxd knows no deadline."""
    box: list[Any] = []
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            box.append(call())
        except BaseException as error:
            trouble.append(error)

    # A daemon thread: one that hangs in a dead instance must not keep the program alive.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise EngineError(f"{instance}: no answer from the engine in {seconds:g} s")
    if trouble:
        raise _explained(instance, trouble[0]) from trouble[0]
    return box[0]


def _explained(instance: str, error: BaseException) -> EngineError:
    if isinstance(error, instance_exec.OutputLost):
        return OutputLost(str(error))
    if isinstance(error, pylxd.exceptions.NotFound):
        return EngineError(f"{instance}: no such instance: run `hearth up` to make it")
    if isinstance(
        error, pylxd.exceptions.ClientConnectionFailed | requests.ConnectionError | OSError
    ):
        return EngineError(
            f"{instance}: Incus does not answer on {SOCKET}: run this on the house, as root"
        )
    return EngineError(f"{instance}: {error or type(error).__name__}")
