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

import uvicorn
from starlette.applications import Starlette

from hearth_serving.answers import unforeseen
from hearth_serving.application import Fail
from hearth_serving.door import Door
from hearth_serving.errors import ServiceError
from hearth_serving.limits import Limits
from hearth_serving.line import Wire, line_of

log = logging.getLogger(__name__)

T = TypeVar("T")


def run(
    door: Door,
    host: str,
    port: int,
    app_of: Callable[[Fail], Starlette],
    is_ready: Callable[[], bool],
) -> None:
    """Serve until told to stop; raises ServiceError when it cannot, or can no longer."""
    listener = listen(host, port, door.limits)
    failures: list[ServiceError] = []

    def fail(error: BaseException) -> None:
        known = isinstance(error, ServiceError)
        failures.append(error if known else unforeseen(error))  # type: ignore[arg-type]
        server.should_exit = True

    server = make_server(app_of(fail), door)

    def end(*_: object) -> None:
        server.should_exit = True

    # Before uvicorn listens to signals, and when it raises them again after a good end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    where = f"[{host}]" if ":" in host else host
    with_key = "with a key" if door.key else "open"
    log.info("listens on http://%s:%d (%s)", where, listener.getsockname()[1], with_key)
    with listener:
        asyncio.run(server.serve(sockets=[listener]))
    if failures:
        raise failures[0]
    if not is_ready():
        # A thread may be deep in native code, which a plain exit would pull from under it.
        logging.shutdown()
        os._exit(0)


async def in_daemon(work: Callable[[], T]) -> T:
    """Do `work` in a thread that nobody waits for: SIGTERM may come in the middle of a load."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(lambda: None if done.done() else settled())

    def begin() -> None:
        try:
            found = work()
        except Exception as error:
            failure = error
            settle(lambda: done.set_exception(failure))
        else:
            settle(lambda: done.set_result(found))

    threading.Thread(target=begin, name="load", daemon=True).start()
    return await done


def listen(host: str, port: int, limits: Limits) -> socket.socket:
    """Return a listening socket, before anything slow is begun."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, number)
    except (OSError, OverflowError) as error:
        raise _not_listening(host, port, error) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Also once an answer is wholly written, somebody who never reads it is not waited for.
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


def make_server(app: Starlette, door: Door) -> uvicorn.Server:
    """Return what serves `app`; its door then knows how many sockets are open."""
    server = uvicorn.Server(config_of(app, door.limits))
    door.sockets = lambda: len(server.server_state.connections)
    return server


def config_of(app: Starlette, limits: Limits) -> uvicorn.Config:
    """Return how uvicorn serves `app`."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # queries and who asked are nobody's business; our own lines say enough
        server_header=False,
        proxy_headers=False,
        http=line_of(limits),
        h11_max_incomplete_event_size=16 * 1024,
        ws=Wire,
        ws_max_size=limits.message_bytes,
        # Sound does not shrink, and what a stranger compressed may grow without end.
        ws_per_message_deflate=False,
        # A client's pong stands in line behind what it sent, while that is being worked on.
        ws_ping_timeout=120,
        # Longer than proxies keep an idle connection: they, who may ask again, close first.
        timeout_keep_alive=130,
        timeout_graceful_shutdown=limits.stop_s,
    )
