"""A program in an instance whose input and output are streams, of any length in little memory."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from hearth.backup import BackupError
from hearth.machine.engine import CHUNK_BYTES, SOCKET, STREAMS, open_stream

# A large database is copied and checked before its first byte comes.
SILENT_S = 3600
_TOLD_BYTES = 4096
_ENVIRONMENT = {"HOME": "/", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


class Child(Protocol):
    """A running program: what it reads and what it writes."""

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes of its output; none at the end."""
        ...

    def write(self, data: bytes) -> int:
        """Give it input."""
        ...

    def close(self) -> None:
        """End its input."""
        ...

    def wait(self) -> None:
        """Return when it has ended well; BackupError with its last words otherwise."""
        ...


# Where a program runs, its words, and as whom.
Runner = Callable[[str, Sequence[str], int, int], AbstractContextManager[Child]]


class InstanceChild:
    """A program that Incus started, by the websockets of its streams."""

    def __init__(
        self, instance: str, streams: dict[str, ClientConnection], ended: Callable[[], Any]
    ) -> None:
        """Begin to listen for its errors and for its end."""
        self._instance, self._streams = instance, streams
        self._rest, self._told = b"", b""
        self._ended: list[Any] = []
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._listen, lambda: self._ended.append(ended()))
        ]
        for thread in self._threads:
            thread.start()

    def read(self, size: int = -1) -> bytes:
        """Return some of its output; the connection holds few messages, so nothing piles up."""
        if not self._rest:
            self._rest = self._receive()
        size = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def _receive(self) -> bytes:
        try:
            message = self._streams[STREAMS[1]].recv(timeout=SILENT_S)
        except TimeoutError:
            raise BackupError(f"{self._instance}: nothing came for {SILENT_S} s") from None
        except ConnectionClosed as error:
            # Without a closing frame the rest may be missing.
            if error.rcvd is None:
                raise BackupError(f"{self._instance}: its output broke off") from None
            return b""
        # An empty text message is the end of the output.
        return message if isinstance(message, bytes) else b""

    def write(self, data: bytes) -> int:
        """Give it input; what it does not want any more, its exit code explains."""
        with contextlib.suppress(ConnectionClosed):
            for start in range(0, len(data), CHUNK_BYTES):
                self._streams[STREAMS[0]].send(data[start : start + CHUNK_BYTES])
        return len(data)

    def close(self) -> None:
        """End its input."""
        with contextlib.suppress(ConnectionClosed):
            self._streams[STREAMS[0]].send("")

    def wait(self) -> None:
        """Return when it has ended well; BackupError with its last words otherwise."""
        for thread in self._threads:
            thread.join(SILENT_S)
        answer = self._ended[0] if self._ended else {}
        code = (answer.get("metadata") or {}).get("return")
        if code != 0:
            words = self._told.decode(errors="replace").strip().splitlines()
            raise BackupError(f"{self._instance}: {words[-1] if words else f'exit code {code}'}")

    def _listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while isinstance(message := self._streams[STREAMS[2]].recv(), bytes):
                self._told = (self._told + message)[-_TOLD_BYTES:]


@contextlib.contextmanager
def in_instance(
    instance: str, argv: Sequence[str], user: int, group: int
) -> Iterator[InstanceChild]:
    """Run a program in an instance as one of its users; leaving early breaks its streams.

    Raises:
        BackupError: the instance or Incus is not there.
    """
    import pylxd
    import pylxd.exceptions
    import requests

    try:
        client = pylxd.Client(endpoint=SOCKET)
        asked = client.api.instances[instance].exec.post(
            json={
                "command": list(argv),
                "environment": _ENVIRONMENT,
                "user": user,
                "group": group,
                "cwd": "/",
                "wait-for-websocket": True,
                "interactive": False,
            }
        )
    except pylxd.exceptions.LXDAPIException as error:
        raise BackupError(f"{instance}: {error}: run `hearth up` first") from None
    except (pylxd.exceptions.ClientConnectionFailed, requests.ConnectionError, OSError):
        raise BackupError(
            f"{instance}: Incus does not answer on {SOCKET}: run this on the house, as root"
        ) from None
    operation = asked.json()["metadata"]

    def ended() -> Any:
        return client.api.operations[operation["id"]].wait.get().json()["metadata"]

    with contextlib.ExitStack() as opened:
        streams = {
            name: opened.enter_context(open_stream(SOCKET, operation["id"], secret))
            for name, secret in operation["metadata"]["fds"].items()
            if name in STREAMS
        }
        yield InstanceChild(instance, streams, ended)
