"""One socket, one event loop, one model: from the first connection to SIGTERM."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hearth_serving.application import AppState, Fail
from hearth_serving.errors import ServiceError, error_response, log_unexpected
from hearth_serving.limits import Limits

log = logging.getLogger(__name__)

T = TypeVar("T")

# Pongs that the client does not read are kept until it does, and no other bound holds for them.
_PONG_BYTES = 64 * 1024


def run(
    state: AppState,
    host: str,
    port: int,
    app_of: Callable[[Fail], Starlette],
    is_ready: Callable[[], bool],
) -> None:
    """Serve until SIGTERM; raises ServiceError when it cannot start, or not continue."""
    listener = listen(host, port, state.limits)
    failures: list[ServiceError] = []

    def fail(error: BaseException) -> None:
        known = isinstance(error, ServiceError)
        failures.append(error if known else log_unexpected(error))  # type: ignore[arg-type]
        server.should_exit = True

    server = make_server(app_of(fail), state)

    def stop(*_: object) -> None:
        server.should_exit = True

    # For signals before uvicorn handles them, and those that it raises again after a good end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    where = f"[{host}]" if ":" in host else host
    with_key = "open" if state.is_open else "with a key"
    log.info("listens on http://%s:%d (%s)", where, listener.getsockname()[1], with_key)
    with listener:
        asyncio.run(server.serve(sockets=[listener]))
    if failures:
        raise failures[0]
    if not is_ready():
        # A thread may still load a model in native code; a plain exit would crash it.
        logging.shutdown()
        os._exit(0)


async def run_in_daemon(work: Callable[[], T]) -> T:
    """Run `work` in a thread that does not delay the end: SIGTERM may interrupt a load."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the result is not needed
            loop.call_soon_threadsafe(lambda: None if done.done() else settled())

    def target() -> None:
        try:
            found = work()
        except Exception as error:
            failure = error
            settle(lambda: done.set_exception(failure))
        else:
            settle(lambda: done.set_result(found))

    threading.Thread(target=target, name="load", daemon=True).start()
    return await done


def listen(host: str, port: int, limits: Limits) -> socket.socket:
    """Return a listening socket, before anything slow starts."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, number)
    except (OSError, OverflowError) as error:
        raise _not_listening(host, port, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Ends a connection whose client never reads the rest of a response, once all is written.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            after_ms = int(limits.write_s * 1000)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, after_ms)
        listener.bind(address)
        listener.listen(512)
    except (OSError, OverflowError) as error:
        listener.close()
        raise _not_listening(host, port, error) from None
    return listener


def _not_listening(host: str, port: int, error: Exception) -> ServiceError:
    reason = getattr(error, "strerror", None) or str(error)
    return ServiceError(f"cannot listen on {host} port {port}: {reason}")


def make_server(app: Starlette, state: AppState) -> uvicorn.Server:
    """Return uvicorn's server for `app`, which counts its open sockets for `state`."""
    server = uvicorn.Server(_config(app, state.limits))
    state.sockets = lambda: len(server.server_state.connections)
    return server


def _config(app: Starlette, limits: Limits) -> uvicorn.Config:
    class Protocol(_HttpProtocol):
        _limits = limits

    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # queries and clients' addresses are private; our own log is enough
        server_header=False,
        proxy_headers=False,
        http=Protocol,
        h11_max_incomplete_event_size=16 * 1024,
        ws=_WebSocketProtocol,
        ws_max_size=limits.message_bytes,
        # Audio does not compress, and a client's compressed data may expand without end.
        ws_per_message_deflate=False,
        # A client's pong waits behind the data that it sent before, while that is processed.
        ws_ping_timeout=120,
        # Longer than proxies keep an idle connection: they can retry, so they close first.
        timeout_keep_alive=130,
        timeout_graceful_shutdown=limits.stop_s,
    )


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that is closed when its client requests pongs and does not read them."""

    def handle_ping(self) -> None:
        """Answer a ping while the client reads the answers."""
        if self.transport.get_write_buffer_size() > _PONG_BYTES:
            self.transport.abort()
        else:
            super().handle_ping()


class _HttpProtocol(H11Protocol):
    """Bounds the time for headers, and reports malformed requests in OpenAI's shape."""

    _limits: Limits
    _headers_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer; a flood of sockets is closed before anything is read."""
        super().connection_made(transport)
        if len(self.connections) > 2 * self._limits.connections:
            transport.abort()
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; a part of a request must soon be followed by the rest of its headers."""
        super().data_received(data)
        has_part = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not has_part:
            self._stop_timer()
        elif self._headers_timer is None:
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Report a malformed request; uvicorn's own message is for a person at a terminal."""
        del msg
        self._reject(ServiceError("this is not a valid HTTP request", code="invalid_http"))

    def _start_timer(self) -> None:
        self._headers_timer = self.loop.call_later(self._limits.headers_s, self._time_out)

    def _stop_timer(self) -> None:
        if self._headers_timer:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _time_out(self) -> None:
        message = f"the headers did not arrive within {self._limits.headers_s:g} s"
        self._reject(ServiceError(message, status=408, code="request_timeout"))

    def _reject(self, error: ServiceError) -> None:
        response = error_response(error)
        headers = [*response.raw_headers, (b"connection", b"close")]
        events = (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # an error cannot follow a response that has started
        self.transport.close()
