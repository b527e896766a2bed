"""The data folders of a house, each read and written inside its instance as its own owner."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from hearth.backup import BackupError, inside
from hearth.catalogue.house import House
from hearth.machine import engine
from hearth.machine.engine import CHUNK_BYTES, SOCKET, STREAMS

# A large database is copied and checked before its first byte arrives.
SILENT_S = 3600
_STOP_S = 120
_ANSWER_BYTES = 2**16
_ERROR_BYTES = 4096
_PYTHON = ("/usr/bin/python3", "-I", "-c")
_ENVIRONMENT = {"HOME": "/", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


class Child:
    """A program that Incus started, by the websockets of its streams."""

    def __init__(
        self, instance: str, streams: dict[str, ClientConnection], ended: Callable[[], Any]
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
        for thread in self._threads:
            thread.join(SILENT_S)
        answer = self._ended[0] if self._ended else {}
        code = (answer.get("metadata") or {}).get("return")
        if code != 0:
            lines = self._errors.decode(errors="replace").strip().splitlines()
            raise BackupError(f"{self._instance}: {lines[-1] if lines else f'exit code {code}'}")

    def _collect_errors(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while isinstance(message := self._streams[STREAMS[2]].recv(), bytes):
                self._errors = (self._errors + message)[-_ERROR_BYTES:]


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder that is backed up; `from_folder` when it is a folder of the machine."""

    service: str
    instance: str
    unit: str
    path: str
    copy_as: str
    volume_name: str
    from_folder: str | None

    def has_data(self) -> bool:
        """Whether data lie where an instance that is not there would find them."""
        if self.from_folder is not None:
            folder = Path(self.from_folder)
            return folder.is_dir() and any(folder.iterdir())
        return engine.has_volume(self.volume_name)

    def is_built(self) -> bool:
        """Whether its instance runs."""
        with contextlib.suppress(engine.EngineError):
            return engine.is_running(self.instance)
        return False

    def stop(self) -> None:
        """Stop the service that owns it."""
        argv = ["/usr/bin/systemctl", "stop", self.unit]
        done = engine.execute(self.instance, argv, timeout=_STOP_S)
        if done.returncode:
            raise BackupError(f"{self.instance}: {self.unit} does not stop: {done.stderr.strip()}")

    @contextlib.contextmanager
    def run(self, argv: Sequence[str]) -> Iterator[Child]:
        """Run a program in its instance; leaving early breaks its streams.

        Raises:
            EngineError: the instance or Incus is not there.
        """
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
        DataFolder(it.name, it.instance, it.unit, data.path, data.copy, data.name, data.from_folder)
        for it in house.services.values()
        if it.runtime == "incus"
        for data in it.volumes
        if data.copy != "none"
    ]
