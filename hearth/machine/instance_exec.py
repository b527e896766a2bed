"""Run one command in an Incus instance and lose none of its output.

`incus exec` loses output when several run at once, and pylxd's own `execute` polls all sockets of
a command in one thread that a closing socket can kill. Here each stream has a reader of its own.
"""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, unix_connect

SOCKET = "/var/lib/incus/unix.socket"
# Incus reads a message whole; this is well below what it takes.
CHUNK_BYTES = 64 * 1024
OPEN_LIMIT_S = 10
# How Incus names input, output and errors of a command.
STREAMS = ("0", "1", "2")


class ExecError(RuntimeError):
    """The command could not be run or its answer did not come; the text says where and why."""


class OutputLost(ExecError):
    """The command ended, and Incus let go of a stream before all of it was handed over."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left behind, as bytes."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def execute(
    client: Any,
    instance: str,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    socket: str = SOCKET,
) -> Output:
    """Run `argv` as root in the instance and wait for its end.

    Args:
        client: A `pylxd.Client` on `socket`.
        instance: The instance's name.
        argv: Program and arguments; no shell reads them.
        stdin: What the command reads, until end of file.
        environment: Variables on top of the instance's own.
        socket: Path of Incus' API socket.

    Raises:
        ExecError: A stream broke off, or Incus did not tell how the command ended.
    """
    asked = client.api.instances[instance].exec.post(
        json={
            "command": list(argv),
            "environment": dict(environment or {}),
            "wait-for-websocket": True,
            "interactive": False,
        }
    )
    operation = asked.json()["metadata"]
    collected: dict[str, bytes] = {}
    with contextlib.ExitStack() as opened:
        streams = {
            name: opened.enter_context(open_stream(socket, operation["id"], secret))
            for name, secret in operation["metadata"]["fds"].items()
            if name in STREAMS
        }
        readers = [
            threading.Thread(target=_collect, args=(streams[name], name, collected), daemon=True)
            for name in STREAMS[1:]
        ]
        for reader in readers:
            reader.start()
        _send(streams[STREAMS[0]], stdin)
        ended = client.api.operations[operation["id"]].wait.get().json()["metadata"]
        for reader in readers:
            reader.join()
    code = (ended.get("metadata") or {}).get("return")
    if code is None:
        raise ExecError(f"{instance}: {ended.get('err') or 'a command ended without an exit code'}")
    if broken := [name for name in STREAMS[1:] if name not in collected]:
        raise OutputLost(f"{instance}: stream {broken[0]} of a command broke off")
    return Output(int(code), *(collected[name] for name in STREAMS[1:]))


def open_stream(
    socket: str, operation: str, secret: str
) -> AbstractContextManager[ClientConnection]:
    """Open one stream of a command that Incus has started."""
    return unix_connect(
        socket,
        f"ws://incus/1.0/operations/{operation}/websocket?secret={secret}",
        open_timeout=OPEN_LIMIT_S,
        max_size=None,
        compression=None,
        ping_interval=None,
    )


def _collect(stream: ClientConnection, name: str, into: dict[str, bytes]) -> None:
    """Read one stream to its end: an empty text message, or the closing of the socket."""
    pieces: list[bytes] = []
    try:
        while True:
            message = stream.recv()
            if isinstance(message, str):
                break
            pieces.append(message)
    except ConnectionClosed as error:
        # Without a closing frame the rest may be missing, and half an output is no output.
        if error.rcvd is None:
            return
    into[name] = b"".join(pieces)


def _send(stream: ClientConnection, data: bytes) -> None:
    try:
        for start in range(0, len(data), CHUNK_BYTES):
            stream.send(data[start : start + CHUNK_BYTES])
        # An empty text message is the end of file.
        stream.send("")
    except ConnectionClosed:
        # The command ended without reading all of it; its exit code tells the rest.
        return
