"""One socket, one event loop, one model: from the first connection to SIGTERM."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import uvicorn
from starlette.applications import Starlette

from hearth_kokoro.engines.choice import Choice, choose
from hearth_kokoro.errors import SpeechError
from hearth_kokoro.phonemes.phonemizer import Phonemizer
from hearth_kokoro.speaking.speaker import Speaker
from hearth_kokoro.voices import Voices
from hearth_kokoro.web.app import Load, make_app
from hearth_kokoro.web.desk import Desk, Loaded
from hearth_kokoro.web.line import Wire, line_of
from hearth_kokoro.web.settings import Limits
from hearth_kokoro.web.speech import unforeseen

log = logging.getLogger("hearth_kokoro")

T = TypeVar("T")


def serve(options: argparse.Namespace, key: str | None, limits: Limits) -> None:
    """Serve until told to stop; raises SpeechError when it cannot."""
    listener = listen(options.host, options.port, limits)
    desk = Desk(limits, key, frozenset(options.origin))
    failures: list[SpeechError] = []

    def fail(error: BaseException) -> None:
        known = isinstance(error, SpeechError)
        failures.append(error if known else unforeseen(error))  # type: ignore[arg-type]
        server.should_exit = True

    async def load() -> Loaded:
        began = time.monotonic()
        loaded = await load_speaker(options)
        engine = loaded.engine
        log.info(
            "ready after %.1f s: %s, %s, %d threads (%s)",
            time.monotonic() - began,
            engine.model,
            engine.provider,
            engine.threads,
            loaded.because,
        )
        desk.metrics.watch_speaker(loaded.speaker)
        return loaded

    server = make_server(desk, load, fail)

    def end(*_: object) -> None:
        server.should_exit = True

    # Before uvicorn listens to signals, and when it raises them again after a good end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    where = f"[{options.host}]" if ":" in options.host else options.host
    log.info("listens on http://%s:%d (%s)", where, listener.getsockname()[1],
             "with a key" if key else "open")  # fmt: skip
    with listener:
        asyncio.run(server.serve(sockets=[listener]))
    if failures:
        raise failures[0]
    if desk.loaded is None:
        # A thread may be deep in native code, which a plain exit would pull from under it.
        logging.shutdown()
        os._exit(0)


async def load_speaker(options: argparse.Namespace) -> Loaded:
    """Load everything off the event loop, and warm it up."""
    voices, choice, phonemizer = await _in_daemon(lambda: _load(options))
    speaker = Speaker(choice.engine, voices, phonemizer)
    await speaker.start()
    return Loaded(speaker, voices, choice.engine, choice.because, phonemizer.languages())


async def _in_daemon(work: Callable[[], T]) -> T:
    """Do `work` in a thread that nobody waits for: SIGTERM may come in the middle of a load."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(lambda: None if done.done() else settled())

    def run() -> None:
        try:
            found = work()
        except Exception as error:
            failure = error
            settle(lambda: done.set_exception(failure))
        else:
            settle(lambda: done.set_result(found))

    threading.Thread(target=run, name="load", daemon=True).start()
    return await done


def _load(options: argparse.Namespace) -> tuple[Voices, Choice, Phonemizer]:
    voices = Voices.load(options.voices)
    measured_by = voices.get(voices.names[0]).styles
    choice = choose(options.model, options.state, voice=measured_by, engine=options.engine)
    return voices, choice, Phonemizer()


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


def _not_listening(host: str, port: int, error: Exception) -> SpeechError:
    reason = getattr(error, "strerror", None) or str(error)
    return SpeechError(f"cannot listen on {host} port {port}: {reason}")


def make_server(desk: Desk, load: Load, fail: Callable[[BaseException], None]) -> uvicorn.Server:
    """Return the server of this desk, which then knows how many sockets are open."""
    server = uvicorn.Server(config_of(make_app(desk, load, fail), desk.limits))
    desk.sockets = lambda: len(server.server_state.connections)
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
        # Longer than proxies keep an idle connection: they, who may ask again, close first.
        timeout_keep_alive=130,
        timeout_graceful_shutdown=limits.stop_s,
    )
