"""The server: TLS on the lab's link, the registry, and a control port on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import uvicorn
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.mock_upstreams import (
    MockUpstreamsError,
    certificates,
    hosts,
    kokoro,
    kokoro_fastapi,
    ollama_archive,
    registry,
    whisper,
)
from tests.mock_upstreams.faults import Asked, Fault, Memory, Pace
from tests.mock_upstreams.scripted import server as scripted

STOP_S = 2


@dataclass(frozen=True, slots=True)
class Options:
    """Where to listen and how fast to be; port 0 takes a free one, None has none."""

    cache: Path
    address: str
    port: int = 443
    control_port: int | None = None
    scripted_port: int | None = None
    rate_bytes_per_s: int = 0


KOKORO = ("thewh1teagle/kokoro-onnx", "model-files-v1.0")
KOKORO_FILES = (
    "kokoro-v1.0.onnx",
    "kokoro-v1.0.fp16.onnx",
    "kokoro-v1.0.int8.onnx",
    "voices-v1.0.bin",
)
KOKORO_TORCH = ("hexgrad/Kokoro-82M", "f3ff3571791e39611d31c381e3a41a3af07b4987")
KOKORO_TORCH_FILES = ("kokoro-v1_0.pth", "config.json")
# Repository and revision of each STT model that a lab's house may use.
WHISPER = {
    "tiny": ("Systran/faster-whisper-tiny", "d90ca5fe260221311c53c58e660288d3deb8d356"),
    "tiny.en": ("Systran/faster-whisper-tiny.en", "0d3d19a32d3338f10357c0889762bd8d64bbdeba"),
    "small": ("Systran/faster-whisper-small", "536b0662742c02347bc0e980a01041f333bce120"),
}


def hugging_face(cache: Path, speech: Path) -> dict[tuple[str, str, str], Path]:
    """Return the files of Hugging Face by (repository, revision, name)."""
    listening = {name: whisper.prepare(cache, name) for name in WHISPER}
    return {(*KOKORO_TORCH, name): speech / name for name in KOKORO_TORCH_FILES} | {
        (*WHISPER[model], name): folder / name
        for model, folder in listening.items()
        for name in whisper.FILES[model]
    }


def tags(cache: Path) -> dict[tuple[str, str], Path]:
    """Return the archives of tags by (repository, tag)."""
    upstream = (kokoro_fastapi.REPOSITORY, kokoro_fastapi.TAG)
    return {upstream: kokoro_fastapi.prepare(cache)}


def releases(cache: Path, speech: Path) -> dict[tuple[str, str, str], Path]:
    """Return the release files by (repository, tag, name).

    `speech` is the folder of the made-up weights of a speech model.
    """
    archive = ollama_archive.archive_path(cache)
    tag = f"v{ollama_archive.VERSION}"
    together = (archive, archive.with_name(ollama_archive.SUMS_NAME))
    spoken = {(*KOKORO, name): speech / name for name in KOKORO_FILES}
    return {("ollama/ollama", tag, path.name): path for path in together} | spoken


def check_filled(cache: Path) -> None:
    """Raise if the cache was never prepared."""
    archive = ollama_archive.archive_path(cache)
    if not archive.exists() or not registry.storage_path(cache).exists():
        raise MockUpstreamsError(
            f"{cache} is not filled: python -m tests.mock_upstreams prepare --cache {cache}"
        )


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT, then leave nothing running."""
    check_filled(options.cache)
    memory = Memory(Pace(options.rate_bytes_per_s))
    speech = kokoro.prepare(options.cache)
    found = releases(options.cache, speech)
    storage = registry.storage_path(options.cache)
    now = datetime.datetime.now(datetime.UTC)
    certificate, key = certificates.prepare(options.cache, now)
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(listening(options.address, options.port))
        address = stack.enter_context(registry.running(registry.program(options.cache), storage))
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=hosts.REGISTRY_S))
        models = hugging_face(options.cache, speech)
        shelf = hosts.Shelf(found, storage, address, models, tags(options.cache))
        played = hosts.application(shelf, memory, client)
        servers = [(_server(Recorder(played, memory), certificate, key), listener)]
        if options.control_port is not None:
            loopback = stack.enter_context(listening("127.0.0.1", options.control_port))
            servers.append((_server(control(memory)), loopback))
        if options.scripted_port is not None:
            model = stack.enter_context(listening(options.address, options.scripted_port))
            servers.append((_server(scripted.application()), model))
        await _run(servers)


class QuietServer(uvicorn.Server):
    """A server that handles no signals, because several run here, and reports when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        """Take the same configuration as any uvicorn server."""
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as usual, then set `ready`."""
        await super().startup(sockets)
        self.ready.set()


async def _run(servers: list[tuple[QuietServer, socket.socket]]) -> None:
    """Run the servers together, print when all are ready, and end all on the first signal."""

    def end() -> None:
        for server, _ in servers:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    async with asyncio.TaskGroup() as group:
        for server, at in servers:
            group.create_task(server.serve(sockets=[at]))
        for server, _ in servers:
            await server.ready.wait()
        print(*("ready {}:{}".format(*at.getsockname()[:2]) for _, at in servers), flush=True)


def _server(app: ASGIApp, certificate: Path | None = None, key: Path | None = None) -> QuietServer:
    """Return a server for this application, with TLS if a certificate is given."""
    config = uvicorn.Config(
        app,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        # A cut connection is an injected fault, so it is not logged.
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=STOP_S,
        server_header=False,
    )
    return QuietServer(config)


@contextlib.contextmanager
def listening(address: str, port: int) -> Iterator[socket.socket]:
    """Open a listening socket; raise a one-line error if the address is unavailable."""
    try:
        at = socket.create_server((address, port))
    except OSError as error:
        # Only some versions of Python put the address into the error's text.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror
        raise MockUpstreamsError(f"cannot listen on {address}:{port}: {why}") from error
    with at:
        yield at


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records requests, and responds with an error if a fault requires it."""

    app: ASGIApp
    memory: Memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request and record it with its status."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        host, path = request.headers.get("host", "").partition(":")[0], request.url.path

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                part = request.headers.get("range", "")
                asked = Asked(request.method, host, path, part, message["status"])
                self.memory.asked.append(asked)
            await send(message)

        fault = self.memory.take(host, path, "status")
        app = PlainTextResponse("on purpose", status_code=fault.status) if fault else self.app
        # uvicorn closes the connection when an exception ends a body: this implements a cut.
        await app(scope, receive, noting)


def control(memory: Memory) -> Starlette:
    """Return the control application: active faults and received requests."""

    async def faults(request: Request) -> Response:
        if request.method == "POST":
            try:
                memory.faults.append(Fault.model_validate_json(await request.body()))
            except ValidationError as error:
                return PlainTextResponse(str(error), status_code=422)
        elif request.method == "DELETE":
            memory.faults.clear()
        return JSONResponse([fault.model_dump() for fault in memory.faults])

    async def requests(request: Request) -> Response:
        answer = JSONResponse([asdict(asked) for asked in memory.asked])
        if request.method == "DELETE":
            memory.asked.clear()
        return answer

    return Starlette(
        routes=[
            Route("/faults", faults, methods=["GET", "POST", "DELETE"]),
            Route("/requests", requests, methods=["GET", "DELETE"]),
        ]
    )
