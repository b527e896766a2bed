"""Commands in instances, wherever they are carried: the only way into them for our programs.

`incus exec` loses output when several run at once, and pylxd's own `execute` polls all sockets of
a command in one thread that a closing socket can kill. Here each stream has a reader of its own.
Wherever a function takes an optional instance, `None` means the machine itself: its parts are
ordinary systemd units there.
"""

import contextlib
import functools
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, AnyStr, Generic, NamedTuple, TypeVar

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, unix_connect

from hearth.render.quadlets import QUADLETS, unit_name

# pylxd warns about every attribute that is newer than itself; Incus has many. It is imported where
# it is used: half of the start and a fifth of the memory of a program that only looks.
os.environ.setdefault("PYLXD_WARNINGS", "none")
SOCKET = "/var/lib/incus/unix.socket"
# The storage pool with the instances and their data.
POOL = "hearth"
# The name of a sandbox (hearth/sandbox), and of its copies of volumes.
SANDBOX_NAME = re.compile(r"sb-[0-9a-f]{8}")
_SANDBOX_VOLUME = re.compile(rf"({SANDBOX_NAME.pattern})-data\d+")
T = TypeVar("T")
# Incus reads a message whole; this is well below its limit.
CHUNK_BYTES = 64 * 1024
# How Incus names input, output and errors of a command.
STREAMS = ("0", "1", "2")
READ_S = 20
_OPEN_S = 10
# `timeout` ends the command inside; this is what the response may take on top of it.
_GRACE_S = 5
_TIMED_OUT = 124
_ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8"}


class EngineError(Exception):
    """One line for a person: which instance, what failed, what to do."""


class OutputLost(EngineError):
    """The command ended with `returncode`, and part of its output is missing.

    A command that only reads may retry; one whose output does not matter has its result.
    """

    def __init__(self, reason: str, returncode: int) -> None:
        super().__init__(reason)
        self.returncode = returncode


class Ended(NamedTuple, Generic[AnyStr]):
    """The exit code of a command and all of its output."""

    returncode: int
    stdout: AnyStr
    stderr: AnyStr


Output = Ended[bytes]
Completed = Ended[str]


def execute(
    instance: str | None, argv: Sequence[str], *, timeout: float, stdin: str | bytes | None = None
) -> Completed:
    """Run `argv` without a shell and return all of its output, whatever its exit code.

    Raises:
        EngineError: the instance or the engine is not there, or `timeout` seconds are over.
    """
    limited = ["/usr/bin/timeout", "--kill-after=2", f"{timeout:g}", *argv]
    given = stdin.encode() if isinstance(stdin, str) else stdin or b""
    if instance is None:
        done = _run_here(limited, timeout + _GRACE_S, given)
    elif contained(instance):
        done = (
            _engines()
            .podman()
            .execute(unit_name(instance), limited, timeout=timeout + _GRACE_S, stdin=given)
        )
    else:
        done = bounded(
            instance,
            lambda: run_inside(_client(), instance, limited, stdin=given, environment=_ENVIRONMENT),
            timeout + _GRACE_S,
        )
    if done.returncode == _TIMED_OUT:
        raise EngineError(f"{_name(instance)}: `{argv[0]}` took longer than {timeout:g} s")
    texts = (output.decode(errors="replace") for output in (done.stdout, done.stderr))
    return Completed(done.returncode, *texts)


def look(
    instance: str | None, argv: Sequence[str], *, timeout: float, stdin: str | bytes | None = None
) -> Completed:
    """Run a command that only reads, as `execute` does: again if its output was lost.

    A busy Incus loses output now and then, which says nothing about the instance.
    """
    try:
        return execute(instance, argv, timeout=timeout, stdin=stdin)
    except OutputLost:
        return execute(instance, argv, timeout=timeout, stdin=stdin)


def run_program(
    instance: str | None,
    program: ModuleType,
    request: Mapping[str, Any],
    *,
    timeout: float,
    prefix: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a whole program there, which needs only Python and only reads; return its JSON.

    Raises:
        EngineError: as `execute`, or the program failed.
    """
    text = Path(str(program.__file__)).read_text(encoding="utf-8")
    argv = [*prefix, "/usr/bin/python3", "-I", "-c", text]
    done = look(instance, argv, timeout=timeout, stdin=json.dumps(request))
    if done.returncode:
        raise EngineError(f"{_name(instance)}: the probe failed: {done.stderr}")
    return dict(json.loads(done.stdout))


def read_file(instance: str | None, path: str) -> str:
    """Return the text of a file; EngineError without such a file or instance."""
    done = look(instance, ["/bin/cat", "--", path], timeout=READ_S)
    if done.returncode:
        raise failure(instance, f"cannot read {path}", done)
    return done.stdout


def failure(instance: str | None, action: str, done: Completed) -> EngineError:
    """Return the error for a command that failed: where, what, and its own last line."""
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return EngineError(f"{_name(instance)}: {action}: {lines[-1]}")


def is_running(instance: str) -> bool:
    """Return whether an instance runs; EngineError without the instance or the engine."""
    if contained(instance):
        # One between two starts is not there.
        here = _engines().podman().instances()
        return any(one.running for one in here if one.name == unit_name(instance))
    return bool(
        bounded(instance, lambda: _client().instances.get(instance).status, READ_S) == "Running"
    )


def data_volumes(client: Any) -> dict[str, Any]:
    """Return the volumes with the house's data, by name, as pylxd has them."""
    present = _volumes(client)
    return {name: one for name, one in present.items() if not _SANDBOX_VOLUME.fullmatch(name)}


def names_of_volumes() -> list[str]:
    """Return the names of the volumes with the house's data; EngineError without the engine."""
    return list(bounded("volumes", lambda: [*data_volumes(_client())], READ_S))


def sandbox_volumes(client: Any) -> dict[str, Any]:
    """Return the copies of volumes that sandboxes have, by name, as pylxd has them."""
    present = _volumes(client)
    return {name: one for name, one in present.items() if _SANDBOX_VOLUME.fullmatch(name)}


def sandbox_of(volume: str) -> str:
    """Return the sandbox that a copy of a volume belongs to; empty for another volume."""
    found = _SANDBOX_VOLUME.fullmatch(volume)
    return found[1] if found else ""


def _volumes(client: Any) -> dict[str, Any]:
    from pylxd.exceptions import NotFound

    try:
        pool = client.storage_pools.get(POOL)
    except NotFound:
        return {}
    return {volume.name: volume for volume in pool.volumes.all() if volume.type == "custom"}


def has_volume(name: str) -> bool:
    """Return whether the house's pool holds this volume; a machine without Incus has none."""
    return os.path.exists(SOCKET) and bool(
        bounded(f"volume {name}", lambda: name in data_volumes(_client()), READ_S)
    )


def run_inside(
    client: Any,
    instance: str,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    socket: str = SOCKET,
) -> Output:
    """Run `argv` as root in the instance and wait for its end, however long that takes.

    `client` is a `pylxd.Client` on `socket`; `environment` adds to the instance's own.

    Raises:
        EngineError: a stream broke off, or Incus did not report how the command ended.
    """
    collected: dict[str, bytes] = {}
    with started(client, instance, argv, socket, environment=dict(environment or {})) as running:
        streams, wait = running
        readers = [
            threading.Thread(target=_collect, args=(streams[name], name, collected), daemon=True)
            for name in STREAMS[1:]
        ]
        for reader in readers:
            reader.start()
        send(streams[STREAMS[0]], stdin)
        ended = wait()
        for reader in readers:
            reader.join()
    code = (ended.get("metadata") or {}).get("return")
    if code is None:
        reason = ended.get("err") or "a command ended without an exit code"
        raise EngineError(f"{instance}: {reason}")
    if broken := [name for name in STREAMS[1:] if name not in collected]:
        raise OutputLost(f"{instance}: stream {broken[0]} of a command broke off", int(code))
    return Output(int(code), *(collected[name] for name in STREAMS[1:]))


@contextlib.contextmanager
def started(
    client: Any, instance: str, argv: Sequence[str], socket: str = SOCKET, **request: Any
) -> Iterator[tuple[dict[str, ClientConnection], Callable[[], Any]]]:
    """Start a command; give its streams, and a function that waits for its end and returns that."""
    request |= {"command": list(argv), "wait-for-websocket": True, "interactive": False}
    operation = client.api.instances[instance].exec.post(json=request).json()["metadata"]
    streams = {}
    with contextlib.ExitStack() as opened:
        for name, secret in operation["metadata"]["fds"].items():
            if name in STREAMS:
                stream = unix_connect(
                    socket,
                    f"ws://incus/1.0/operations/{operation['id']}/websocket?secret={secret}",
                    open_timeout=_OPEN_S,
                    max_size=None,
                    compression=None,
                    ping_interval=None,
                )
                streams[name] = opened.enter_context(stream)
        wait = client.api.operations[operation["id"]].wait
        yield streams, lambda: wait.get().json()["metadata"]


def _collect(stream: ClientConnection, name: str, into: dict[str, bytes]) -> None:
    """Read one stream to its end: an empty text message, or the closing of the socket."""
    pieces: list[bytes] = []
    try:
        while isinstance(message := stream.recv(), bytes):
            pieces.append(message)
    except ConnectionClosed as error:
        # Without a closing frame the rest may be missing, and half an output is no output.
        if error.rcvd is None:
            return
    into[name] = b"".join(pieces)


def send(stream: ClientConnection, data: bytes) -> None:
    """Send the whole input of a command, and its end."""
    # A command may end without reading all of it; its exit code is the result then.
    with contextlib.suppress(ConnectionClosed):
        for start in range(0, len(data), CHUNK_BYTES):
            stream.send(data[start : start + CHUNK_BYTES])
        # An empty text message is the end of file.
        stream.send("")


def contained(instance: str) -> bool:
    """Return whether an instance is a container of Podman: then the machine has its quadlet."""
    return os.path.exists(f"{QUADLETS}/{unit_name(instance)}.container")


def _engines() -> Any:
    # Docker's SDK takes a fifth of a second to import.
    from hearth.machine import engines

    return engines


def _name(instance: str | None) -> str:
    return instance or "this machine"


def _run_here(argv: Sequence[str], seconds: float, stdin: bytes) -> Output:
    try:
        done = subprocess.run(  # noqa: S603 - argv comes from our own code, and no shell reads it
            argv, input=stdin, capture_output=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"this machine: {error}") from error
    return Output(done.returncode, done.stdout, done.stderr)


@functools.lru_cache(maxsize=1)
def _client() -> Any:
    if not os.path.exists(SOCKET):
        raise FileNotFoundError(SOCKET)
    import pylxd

    return pylxd.Client(endpoint=SOCKET)


def bounded(name: str, call: Callable[[], T], seconds: float) -> T:
    """Return what `call` returns, or raise after `seconds`: pylxd has no deadline."""
    box: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            box.append(call())
        except BaseException as error:
            errors.append(error)

    # A daemon thread: one that hangs in a dead instance must not keep the program alive.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise EngineError(f"{name}: no response in {seconds:g} s")
    if errors:
        raise explained(name, errors[0]) from errors[0]
    return box[0]


def explained(name: str, error: BaseException) -> EngineError:
    """Return the error for a person of what pylxd raised."""
    if isinstance(error, EngineError):
        return error
    from pylxd.exceptions import ClientConnectionFailed, NotFound

    if isinstance(error, NotFound):
        return EngineError(f"{name}: no such instance: run `hearth up` to make it")
    # All errors of requests, which pylxd uses, are among those of the system.
    if isinstance(error, ClientConnectionFailed | OSError):
        return EngineError(
            f"{name}: Incus does not answer on {SOCKET}: run this on the house, as root"
        )
    return EngineError(f"{name}: {error or type(error).__name__}")
