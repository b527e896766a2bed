"""One small interface to Incus, Podman and Docker: look at instances, and start and stop them.

Incus is reached by pylxd, and the two others by Docker's SDK, whose API Podman answers as well. An
instance is a container of any of them. Every call has a deadline, and fails in one line.
"""

import contextlib
import functools
import io
import os
import shutil
import socket as sockets
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hearth.machine import engine
from hearth.machine.engine import CHUNK_BYTES, READ_S, EngineError, Output, OutputLost

T = TypeVar("T")
PODMAN_SOCKET = "/run/podman/podman.sock"
DOCKER_SOCKET = "/run/docker.sock"
_CHANGE_S = 60
# What a stopping program gets before it is killed.
_STOP_S = 10
_STDOUT, _STDERR, _FRAME_BYTES = 1, 2, 8


@dataclass(frozen=True, slots=True)
class Found:
    """One instance as its engine describes it; `address` is its IPv4 address, empty for none."""

    name: str
    running: bool
    image: str
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)  # path inside to the machine's folder


@dataclass(frozen=True, slots=True)
class Stats:
    """What an instance uses: bytes of memory, seconds of processor time, number of processes.

    A machine without control groups for one of them has 0.
    """

    memory_bytes: int
    cpu_s: float
    tasks: int


class PathMissing(EngineError):
    """An instance has no file or folder of this name."""


class Engine(Protocol):
    """What carries instances; each function raises EngineError with one line for a person."""

    name: str

    def instances(self) -> Sequence[Found]:
        """Return all instances, running or not."""

    def inspect(self, name: str) -> Found:
        """Return one instance."""

    def logs(self, name: str, lines: int) -> Sequence[str]:
        """Return the last lines that its programs wrote, oldest first."""

    def stats(self, name: str) -> Stats:
        """Return what it uses now."""

    def start(self, name: str) -> None:
        """Start it; one that runs is left alone."""

    def stop(self, name: str) -> None:
        """Stop it; one that is stopped is left alone."""

    def restart(self, name: str) -> None:
        """Restart it."""

    def execute(
        self, name: str, argv: Sequence[str], *, timeout: float, stdin: bytes = b""
    ) -> Output:
        """Run a command in it as root, without a shell, for at most `timeout` seconds."""

    def pull(self, name: str, path: str) -> bytes:
        """Return a file or folder of an instance, running or not, as a tar file.

        Podman says that all belongs to root, and Incus names a link's target by its whole path.

        Raises:
            PathMissing: it has no such path.
        """

    def push(self, name: str, folder: str, archive: bytes) -> None:
        """Unpack a tar file below a folder of an instance, with owners and modes.

        Podman gives everything to the container's own user.
        """

    def snapshot(self, name: str, tag: str) -> None:
        """Keep its system as it is now under a tag; its data are not part of it."""

    def forget(self, name: str, tag: str) -> None:
        """Remove what `snapshot` kept."""


class Incus:
    """The instances of Incus."""

    name = "incus"
    errors, missing = EngineError, PathMissing

    def __init__(self, socket: str = engine.SOCKET) -> None:
        self._socket = socket

    def instances(self) -> list[Found]:
        """Return all instances, running or not."""
        listed = self._call("instances", lambda client: client.instances.all(recursion=2))
        return [_of_incus(one) for one in listed]

    def inspect(self, name: str) -> Found:
        """Return one instance."""
        return _of_incus(self._get(name))

    def mounts(self, name: str) -> Mapping[str, str]:
        """Return the machine's folders in it, by their paths inside."""
        return self.inspect(name).mounts

    def logs(self, name: str, lines: int) -> list[str]:
        """Return the last lines of its journal, oldest first."""
        argv = ["/usr/bin/journalctl", "--no-pager", "--output=cat", f"--lines={lines}"]
        return self.execute(name, argv, timeout=READ_S).stdout.decode().splitlines()

    def stats(self, name: str) -> Stats:
        """Return what it uses now."""
        state = self._call(name, lambda client: client.instances.get(name).state())
        memory, cpu = state.memory or {}, state.cpu or {}
        return Stats(
            max(0, memory.get("usage", 0)),
            max(0, cpu.get("usage", 0)) / 1e9,
            max(0, state.processes or 0),
        )

    def start(self, name: str) -> None:
        """Start it; one that runs is left alone."""
        if not self.inspect(name).running:
            self._call(name, lambda client: client.instances.get(name).start(wait=True))

    def stop(self, name: str) -> None:
        """Stop it; one that is stopped is left alone."""
        if self.inspect(name).running:
            self._call(
                name, lambda client: client.instances.get(name).stop(timeout=_STOP_S, wait=True)
            )

    def restart(self, name: str) -> None:
        """Restart it."""
        self._call(
            name, lambda client: client.instances.get(name).restart(timeout=_STOP_S, wait=True)
        )

    def execute(
        self, name: str, argv: Sequence[str], *, timeout: float, stdin: bytes = b""
    ) -> Output:
        """Run a command in it as root, without a shell, for at most `timeout` seconds."""
        return engine.bounded(
            name,
            lambda: engine.run_inside(self._client(), name, argv, stdin=stdin, socket=self._socket),
            timeout,
        )

    def pull(self, name: str, path: str) -> bytes:
        """Return a file or folder of an instance, running or not, as a tar file."""
        packed = io.BytesIO()

        def add(client: Any, archive: tarfile.TarFile, path: str, within: str) -> None:
            got = client.api.instances[name].files.get(params={"path": path})
            entry = tarfile.TarInfo(within)
            entry.uid, entry.gid = (int(got.headers[f"X-Incus-{one}"]) for one in ("uid", "gid"))
            entry.mode = int(got.headers["X-Incus-mode"], 8) & 0o7777
            if (kind := got.headers["X-Incus-type"]) == "directory":
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
                for child in got.json()["metadata"] or ():
                    add(client, archive, f"{path}/{child}", f"{within}/{child}")
            elif kind == "symlink":
                entry.type, entry.linkname = tarfile.SYMTYPE, got.content.decode().strip()
                archive.addfile(entry)
            else:
                entry.size = len(got.content)
                archive.addfile(entry, io.BytesIO(got.content))

        def all_of_it(client: Any) -> bytes:
            client.instances.get(name)
            try:
                with tarfile.open(fileobj=packed, mode="w") as archive:
                    add(client, archive, path, path.rpartition("/")[2])
            except _not_found() as error:
                raise PathMissing(f"{name}:{path}: no such file or directory") from error
            return packed.getvalue()

        return self._call(name, all_of_it)

    def push(self, name: str, folder: str, archive: bytes) -> None:
        """Unpack a tar file below a folder of an instance, with owners and modes."""

        def put(client: Any) -> None:
            files = client.api.instances[name].files
            kinds = {tarfile.DIRTYPE: "directory", tarfile.SYMTYPE: "symlink"}
            with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
                for entry in packed:
                    head = {"type": kinds.get(entry.type, "file"), "mode": f"{entry.mode:04o}"}
                    head |= {"uid": str(entry.uid), "gid": str(entry.gid)}
                    content = packed.extractfile(entry) if entry.isreg() else None
                    files.post(
                        params={"path": f"{folder}/{entry.name}"},
                        headers={f"X-Incus-{key}": value for key, value in head.items()},
                        data=content.read() if content else entry.linkname.encode(),
                    )

        self._call(name, put)

    def snapshot(self, name: str, tag: str) -> None:
        """Keep its system as it is now under a tag; its data are not part of it."""
        self._call(name, lambda client: client.instances.get(name).snapshots.create(tag, wait=True))

    def forget(self, name: str, tag: str) -> None:
        """Remove what `snapshot` kept."""
        self._call(
            name,
            lambda client: client.instances.get(name).snapshots.get(tag).delete(wait=True),
        )

    def _get(self, name: str) -> Any:
        return self._call(name, lambda client: client.instances.get(name))

    def _call(self, name: str, call: Callable[[Any], T], seconds: float = _CHANGE_S) -> T:
        return engine.bounded(name, lambda: call(self._client()), seconds)

    def _client(self) -> Any:
        if not os.path.exists(self._socket):
            raise FileNotFoundError(self._socket)
        import pylxd

        return pylxd.Client(endpoint=self._socket)


def _not_found() -> type[Exception]:
    from pylxd.exceptions import NotFound

    return NotFound  # type: ignore[no-any-return]


def _of_incus(one: Any) -> Found:
    own = {key: value for key, value in one.config.items() if key.startswith("user.")}
    nics = (device for device in one.expanded_devices.values() if device["type"] == "nic")
    address = next((str(nic.get("ipv4.address", "")) for nic in nics), "")
    image = str(one.config.get("volatile.base_image", ""))
    return Found(one.name, one.status == "Running", image, address, own)


class Containers:
    """The containers of Podman or Docker, by the socket of its API."""

    errors, missing = EngineError, PathMissing

    def __init__(self, name: str, socket: str) -> None:
        self.name = name
        self._socket = socket

    def instances(self) -> list[Found]:
        """Return all containers, running or not."""
        return [
            _of_docker(one.attrs) for one in self._call(lambda api: api.containers.list(all=True))
        ]

    def inspect(self, name: str) -> Found:
        """Return one container."""
        return _of_docker(self._call(lambda api: api.containers.get(name).attrs))

    def mounts(self, name: str) -> Mapping[str, str]:
        """Return the machine's folders in it, by their paths inside."""
        return self.inspect(name).mounts

    def logs(self, name: str, lines: int) -> list[str]:
        """Return the last lines that its programs wrote, oldest first."""
        text = self._call(lambda api: api.containers.get(name).logs(tail=lines))
        return str(text.decode(errors="replace")).splitlines()

    def stats(self, name: str) -> Stats:
        """Return what it uses now."""
        got = self._call(lambda api: api.containers.get(name).stats(stream=False, one_shot=True))
        memory, cpu = got.get("memory_stats") or {}, got.get("cpu_stats") or {}
        usage = (cpu.get("cpu_usage") or {}).get("total_usage", 0)
        tasks = (got.get("pids_stats") or {}).get("current", 0)
        return Stats(int(memory.get("usage") or 0), usage / 1e9, int(tasks or 0))

    def start(self, name: str) -> None:
        """Start it; one that runs is left alone."""
        self._call(lambda api: api.containers.get(name).start())

    def stop(self, name: str) -> None:
        """Stop it; one that is stopped is left alone."""
        self._call(lambda api: api.containers.get(name).stop(timeout=_STOP_S))

    def restart(self, name: str) -> None:
        """Restart it."""
        self._call(lambda api: api.containers.get(name).restart(timeout=_STOP_S))

    def execute(
        self, name: str, argv: Sequence[str], *, timeout: float, stdin: bytes = b""
    ) -> Output:
        """Run a command in it as root, without a shell, for at most `timeout` seconds."""

        def run(api: Any) -> Output:
            # Root of a container without capabilities may not even read its programs' files.
            made = api.api.exec_create(
                name, list(argv), stdin=True, user="0", privileged=True, environment=_WORLD
            )
            reply = api.api.exec_start(made["Id"], socket=True)
            stream = getattr(reply, "_sock", reply)
            # Nobody waits longer; this thread must not either.
            stream.settimeout(timeout)
            try:
                stdout, stderr, whole = _exchange(stream, stdin)
            finally:
                # The SDK keeps the response of which this is the socket; closing the socket alone
                # leaves the response's own reader open.
                getattr(reply, "_response", reply).close()
            code = api.api.exec_inspect(made["Id"])["ExitCode"]
            if code is None:
                raise EngineError(f"{name}: a command ended without an exit code")
            if not whole:
                raise OutputLost(f"{name}: the output of a command broke off", int(code))
            return Output(int(code), stdout, stderr)

        return self._call(run, timeout)

    def pull(self, name: str, path: str) -> bytes:
        """Return a file or folder of an instance, running or not, as a tar file."""
        from docker.errors import NotFound

        def get(api: Any) -> bytes:
            container = api.containers.get(name)
            try:
                return b"".join(container.get_archive(path)[0])
            except NotFound as error:
                raise PathMissing(f"{name}:{path}: no such file or directory") from error

        return self._call(get)

    def push(self, name: str, folder: str, archive: bytes) -> None:
        """Unpack a tar file below a folder of an instance, with owners and modes."""
        self._call(lambda api: api.containers.get(name).put_archive(folder, archive))

    def snapshot(self, name: str, tag: str) -> None:
        """Keep its system as it is now under a tag; its data are not part of it."""
        self._call(lambda api: api.containers.get(name).commit(_SNAPSHOT.format(name), tag))

    def forget(self, name: str, tag: str) -> None:
        """Remove what `snapshot` kept."""
        self._call(lambda api: api.images.remove(f"{_SNAPSHOT.format(name)}:{tag}"))

    def _call(self, call: Callable[[Any], T], seconds: float = _CHANGE_S) -> T:
        import docker
        from docker.errors import DockerException

        def ask() -> T:
            with contextlib.closing(
                docker.DockerClient(base_url=f"unix://{self._socket}", timeout=seconds)
            ) as api:
                return call(api)

        try:
            return engine.bounded(self.name, ask, seconds)
        except EngineError as error:
            cause = error.__cause__
            if isinstance(cause, DockerException | OSError):
                raise EngineError(self._explained(cause)) from cause
            raise

    def _explained(self, error: BaseException) -> str:
        """Return what went wrong, in one line with the remedy."""
        from docker.errors import APIError

        title = self.name.capitalize()
        if isinstance(error, APIError):
            return f"{title}: {error.explanation or error}"
        unit = "podman.socket" if self.name == "podman" else "docker.socket"
        return (
            f"{title} does not answer on {self._socket}: run `systemctl start {unit}` as root "
            "(a rootless one has another socket, and carries none of the house)"
        )


_WORLD = {"HOME": "/root", "LANG": "C.UTF-8"}
_SNAPSHOT = "localhost/snapshot-of-{}"


def _of_docker(attrs: Mapping[str, Any]) -> Found:
    """Return a container from its inspection, or from its row in a list."""
    state, config = attrs.get("State"), attrs.get("Config") or attrs
    running = state == "running" or (isinstance(state, dict) and bool(state.get("Running")))
    name = attrs.get("Name") or (attrs.get("Names") or [""])[0]
    networks = ((attrs.get("NetworkSettings") or {}).get("Networks") or {}).values()
    address = next((one["IPAddress"] for one in networks if one.get("IPAddress")), "")
    labels = {str(key): str(value) for key, value in (config.get("Labels") or {}).items()}
    mounts = {
        str(one["Destination"]): str(one["Source"])
        for one in attrs.get("Mounts") or ()
        if isinstance(one, dict) and one.get("Type") == "bind"
    }
    image = str(attrs.get("Image", ""))
    return Found(str(name).lstrip("/"), running, image, str(address), labels, mounts)


def _exchange(stream: sockets.socket, stdin: bytes) -> tuple[bytes, bytes, bool]:
    """Send all input of a command and collect both of its outputs, until it closes them.

    The last value is false where the engine cut the connection: Podman does so if a command ends
    without reading its input, and what was on its way may be missing.
    """

    def send() -> None:
        # A command may end without reading all of it; its exit code is the result then.
        with contextlib.suppress(OSError):
            for start in range(0, len(stdin), CHUNK_BYTES):
                stream.sendall(stdin[start : start + CHUNK_BYTES])
            stream.shutdown(sockets.SHUT_WR)

    # Beside the reading: a command that answers while it reads would block otherwise.
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    outputs: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: []}
    whole = True
    try:
        while len(head := _exactly(stream, _FRAME_BYTES)) == _FRAME_BYTES:
            # Docker's frames: the number of the stream, three zeros, the length of what follows.
            piece = _exactly(stream, int.from_bytes(head[4:], "big"))
            outputs.setdefault(head[0], []).append(piece)
    except ConnectionResetError:
        whole = False
    # Docker leaves a connection open whose input nobody reads.
    with contextlib.suppress(OSError):
        stream.shutdown(sockets.SHUT_RDWR)
    sender.join()
    return b"".join(outputs[_STDOUT]), b"".join(outputs[_STDERR]), whole


def _exactly(stream: sockets.socket, count: int) -> bytes:
    pieces = []
    while count and (piece := stream.recv(min(count, CHUNK_BYTES))):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


@functools.cache
def podman() -> Containers:
    """Return the machine's own Podman."""
    return Containers("podman", PODMAN_SOCKET)


@functools.cache
def docker() -> Containers:
    """Return the machine's own Docker."""
    return Containers("docker", DOCKER_SOCKET)


def of_this_user(name: str | None = None) -> Iterator[Incus | Containers]:
    """Yield the engines of this machine that are installed; a user's own if this is not root.

    With a `name` only that one, installed or not.
    """
    home = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}"))
    own = os.geteuid() != 0
    places: dict[str, Incus | Containers] = {
        "podman": Containers("podman", str(home / "podman/podman.sock")) if own else podman(),
        "docker": Containers("docker", str(home / "docker.sock"))
        if own and (home / "docker.sock").exists()
        else docker(),
        "incus": Incus(),
    }
    yield from (
        place
        for one, place in places.items()
        if one == (name or one) and (name or shutil.which(one))
    )
