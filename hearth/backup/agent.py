"""The data folders of a house, each read and written inside its instance as its own owner."""

import contextlib
import json
import select
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from hearth.backup import BackupError, inside
from hearth.catalogue.house import House, Service, Volume
from hearth.machine import engine, podman
from hearth.machine.engine import CHUNK_BYTES, SOCKET, STREAMS
from hearth.machine.engines import PODMAN_SOCKET
from hearth.render import quadlets

# A large database is copied and checked before its first byte arrives.
SILENT_S = 3600
_STOP_S, _END_S = 120, 20
_ANSWER_BYTES = 2**16
_ERROR_BYTES = 4096
_PYTHON = ("/usr/bin/python3", "-I", "-c")
_ENVIRONMENT = {"HOME": "/", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


class Pipe:
    """One stream of a program that this machine started, used like a websocket of Incus."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe

    def recv(self, timeout: float | None = None) -> str | bytes:
        """Return some output, or the empty text at its end; TimeoutError without any."""
        ready, _, _ = select.select([self._pipe], [], [], timeout)
        if not ready:
            raise TimeoutError
        return self._pipe.read1(CHUNK_BYTES) or ""

    def send(self, message: str | bytes) -> None:
        """Write to it; the empty text is its end, and one that reads no more takes nothing."""
        with contextlib.suppress(BrokenPipeError, ValueError):
            if isinstance(message, bytes):
                self._pipe.write(message)
            else:
                self._pipe.close()


Stream = ClientConnection | Pipe


class Child:
    """A running program, by its streams: websockets of Incus, or pipes."""

    def __init__(
        self, instance: str, streams: Mapping[str, Stream], ended: Callable[[], Any]
    ) -> None:
        self._instance, self._streams = instance, streams
        self._rest, self._errors = b"", b""
        self._ended: list[Any] = []
        self._threads = [
            threading.Thread(target=work, daemon=True)
            for work in (self._collect_errors, lambda: self._ended.append(ended()))
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
            raise BackupError(f"{self._instance}: no output for {SILENT_S} s") from None
        except ConnectionClosed as error:
            # Without a closing frame the rest may be missing.
            if error.rcvd is None:
                raise BackupError(f"{self._instance}: its output broke off") from None
            return b""
        # An empty text message is the end of the output.
        return message if isinstance(message, bytes) else b""

    def write(self, data: bytes) -> int:
        """Write to its input; when it no longer reads, its exit code gives the reason."""
        with contextlib.suppress(ConnectionClosed):
            for start in range(0, len(data), CHUNK_BYTES):
                self._streams[STREAMS[0]].send(data[start : start + CHUNK_BYTES])
        return len(data)

    def close(self) -> None:
        """Close its input."""
        with contextlib.suppress(ConnectionClosed):
            self._streams[STREAMS[0]].send("")

    def wait(self) -> None:
        """Return when it has succeeded; BackupError with its last error line otherwise."""
        self.join()
        answer = self._ended[0] if self._ended else {}
        code = (answer.get("metadata") or {}).get("return")
        if code != 0:
            lines = self._errors.decode(errors="replace").strip().splitlines()
            raise BackupError(f"{self._instance}: {lines[-1] if lines else f'exit code {code}'}")

    def join(self) -> None:
        """Wait until it has ended and its errors are read."""
        for thread in self._threads:
            thread.join(SILENT_S)

    def _collect_errors(self) -> None:
        # A pipe may be closed meanwhile, as a connection may.
        with contextlib.suppress(ConnectionClosed, ValueError, OSError):
            while isinstance(message := self._streams[STREAMS[2]].recv(), bytes):
                self._errors = (self._errors + message)[-_ERROR_BYTES:]


@contextlib.contextmanager
def started_here(name: str, argv: Sequence[str]) -> Iterator[Child]:
    """Run a program of this machine; leaving early ends it."""
    process = subprocess.Popen(  # noqa: S603 - our own words, and no shell
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    pipes = (process.stdin, process.stdout, process.stderr)
    streams = {number: Pipe(pipe) for number, pipe in zip(STREAMS, pipes, strict=True)}
    child = Child(name, streams, lambda: {"metadata": {"return": process.wait()}})
    try:
        yield child
    finally:
        # Podman passes this on to the container; SIGKILL would leave that running.
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
        child.join()
        for pipe in pipes:
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder that is backed up; `from_folder` when it is a folder of the machine.

    The folder of a container has `first_id`, the machine's id of the container's root, and its
    volume is one of Podman; None is an instance of Incus.
    """

    service: str
    instance: str
    unit: str
    path: str
    copy_as: str
    volume_name: str
    from_folder: str | None
    first_id: int | None = None

    def has_data(self) -> bool:
        """Whether data lie where an instance that is not there would find them."""
        if self.from_folder is not None:
            folder = Path(self.from_folder)
            return folder.is_dir() and any(folder.iterdir())
        if self.first_id is not None:
            return podman.has_volume(self.volume_name)
        return engine.has_volume(self.volume_name)

    def is_built(self) -> bool:
        """Whether its instance runs, or the machine has its container, running or not."""
        if self.first_id is not None:
            return engine.contained(self.instance)
        with contextlib.suppress(engine.EngineError):
            return engine.is_running(self.instance)
        return False

    def stop(self) -> None:
        """Stop the service that owns it."""
        argv = ["/usr/bin/systemctl", "stop", self.unit]
        system = self.instance if self.first_id is None else None
        done = engine.execute(system, argv, timeout=_STOP_S)
        if done.returncode:
            raise BackupError(f"{self.instance}: {self.unit} does not stop: {done.stderr.strip()}")

    @contextlib.contextmanager
    def run(self, argv: Sequence[str]) -> Iterator[Child]:
        """Run a program in its instance; leaving early breaks its streams.

        Raises:
            EngineError: the instance or Incus is not there.
        """
        if self.first_id is not None:
            with started_here(self.instance, self._beside_container(argv)) as child:
                yield child
            return
        with contextlib.ExitStack() as opened:
            from pylxd import Client

            try:
                client = Client(endpoint=SOCKET)
                running = engine.started(
                    client, self.instance, argv, environment=_ENVIRONMENT, cwd="/"
                )
                streams, ended = opened.enter_context(running)
            except Exception as error:
                raise engine.explained(self.instance, error) from None
            yield Child(self.instance, streams, ended)

    def _beside_container(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs one in a container of its own, with the same folder.

        The service's own container ends with its program, and root may not become another user
        there. Podman's service starts it: the unit of the nightly backup may do less than that.
        """
        remote = ("--remote", f"--url=unix://{PODMAN_SOCKET}")
        # Podman would make an empty one, whose backup would look good.
        if not self.from_folder:
            known = podman.call(*remote, "volume", "ls", "--quiet").split()
            if self.volume_name not in known:
                raise BackupError(
                    f"{self.service}: Podman has no volume {self.volume_name}: "
                    "run `hearth up` first"
                )
        source = f"{self.from_folder or self.volume_name}:{self.path}"
        ids = f"0:{self.first_id}:{quadlets.IDS}"
        return [
            *(podman.PROGRAM, *remote, "run"),
            *("--rm", "--interactive", "--init", "--pull=never", "--log-driver=none"),
            f"--label={quadlets.LABEL}={self.service}",
            *("--network=none", "--pids-limit=0", "--http-proxy=false", "--workdir=/"),
            *(f"--uidmap={ids}", f"--gidmap={ids}"),
            *(f"--env={key}={value}" for key, value in _ENVIRONMENT.items()),
            f"--volume={source}:idmap" if self.from_folder else f"--volume={source}",
            podman.image_of(self.instance),
            *argv,
        ]

    @contextlib.contextmanager
    def program(self, *words: str) -> Iterator[Child]:
        """Run `inside.py` in its instance, which takes the rights of its owner."""
        text = Path(inside.__file__).read_text(encoding="utf-8")
        with self.run([*_PYTHON, text, self.path, *words]) as child:
            yield child

    def change(self, *words: str) -> bytes:
        """Run one step that needs no input; return what it prints."""
        with self.program(*words) as child:
            child.close()
            text = b""
            while (piece := child.read(_ANSWER_BYTES)) and len(text) < _ANSWER_BYTES:
                text += piece
            child.wait()
        return text

    def status(self) -> dict[str, Any]:
        """Return the status that the program prints."""
        return json.loads(self.change("status"))  # type: ignore[no-any-return]


def data_folders(house: House) -> list[DataFolder]:
    """Return every data folder of enabled services except those with `copy: none`."""
    return [
        _data_folder(it, data)
        for it in house.services.values()
        if it.runtime != "external"
        for data in it.volumes
        if data.copy != "none"
    ]


def _data_folder(it: Service, data: Volume) -> DataFolder:
    name, first = data.name, None
    if it.runtime == "podman":
        name, first = quadlets.volume_name(it, data.path), quadlets.first_id(it)
    return DataFolder(
        it.name, it.instance, it.unit, data.path, data.copy, name, data.from_folder, first
    )
