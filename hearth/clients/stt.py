"""Talk to a house's live socket as a microphone does: by name, over HTTPS, in real time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from hearth.clients.edge import Edge
from hearth.clients.pace import CHUNK_S, room
from hearth.clients.recordings import BYTES, RATE
from hearth.clients.stt_stream import Event
from hearth.clients.websocket import WebSocket, opened

PATH = "/v1/audio/transcriptions/stream"
_SIZE = round(CHUNK_S * RATE) * BYTES


class TalkError(Exception):
    """One line for a person: why nothing came of it."""


@dataclass(frozen=True, slots=True)
class Talk:
    """What came of a talk; `began` is when its first sound was spoken, on `perf_counter`."""

    began: float
    heard_s: float
    events: list[Event]

    @property
    def said(self) -> list[dict[str, object]]:
        """What the server said, without the times."""
        return [event.said for event in self.events]

    def of(self, kind: str) -> list[Event]:
        """Return the events of one type."""
        return [event for event in self.events if event.kind == kind]


@contextmanager
def dialled(edge: Edge, fqdn: str, key: str | None, within_s: float) -> Iterator[WebSocket]:
    """Open a site's live socket.

    Raises:
        TalkError: it is refused, or nobody answers.
    """
    url = f"wss://{fqdn}{PATH}"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with ExitStack() as stack:
        try:
            door = opened(
                url, (edge.address, 443), edge.trust(), within_s, additional_headers=headers
            )
            call = stack.enter_context(door)
        except InvalidStatus as error:
            raise TalkError(f"wss://{fqdn}: HTTP {error.response.status_code}") from error
        except (OSError, InvalidHandshake) as error:
            raise TalkError(f"wss://{fqdn}: {error or type(error).__name__}") from error
        yield call


def talk(
    call: WebSocket, pcm: bytes, within_s: float, *, after_s: float = 1.5, paced: bool = True
) -> Talk:
    """Say something, 16-bit mono at 16 kHz, and then as much of a quiet room; return what came.

    Without `paced` it is sent as fast as it is taken.

    Raises:
        TalkError: the server hung up, or was not done within `within_s` seconds.
    """
    sound = pcm + room(after_s)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_read, call, time.perf_counter() + within_s)
        began = time.perf_counter()
        try:
            for at in range(0, len(sound), _SIZE):
                chunk = sound[at : at + _SIZE]
                due = began + (at + len(chunk)) / BYTES / RATE
                # A microphone hands a chunk over when its last sample was heard.
                if paced and (early := due - time.perf_counter()) > 0:
                    time.sleep(early)
                call.send(chunk)
            call.send(json.dumps({"type": "end"}))
        except ConnectionClosed:
            pass  # whoever reads knows more
        return Talk(began, len(sound) / BYTES / RATE, reading.result())


def _read(call: WebSocket, deadline: float) -> list[Event]:
    events: list[Event] = []
    while not events or events[-1].kind != "done":
        try:
            message = call.recv(timeout=max(0.0, deadline - time.perf_counter()))
        except TimeoutError:
            raise TalkError(f"no `done`, only {[event.kind for event in events]}") from None
        except ConnectionClosed as error:
            raise TalkError(f"it hung up: {error}") from error
        events.append(Event(time.perf_counter(), json.loads(message)))
    return events
