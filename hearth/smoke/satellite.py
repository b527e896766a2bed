"""Use a Wyoming port as a voice satellite of Home Assistant does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from hearth.clients import ClientError, reason

# Not wyoming.audio: importing it warns about audioop, and warnings are errors in the tests.
_FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
# 64 ms, the chunk size of Home Assistant.
_CHUNK_BYTES = 2048


DESCRIBE = [Event("describe")]


def speech(pcm: bytes, language: str = "en") -> list[Event]:
    """Return the request to transcribe 16-bit mono at 16 kHz."""
    chunks = (pcm[at : at + _CHUNK_BYTES] for at in range(0, len(pcm), _CHUNK_BYTES))
    return [
        Event("transcribe", {"language": language}),
        Event("audio-start", _FORMAT),
        *(Event("audio-chunk", _FORMAT, chunk) for chunk in chunks),
        Event("audio-stop"),
    ]


def converse(
    address: str, port: int, requests: Sequence[Sequence[Event]], until: str, within_s: float
) -> list[tuple[list[Event], float]]:
    """Send requests over one connection; each is answered up to an event of type `until`.

    Return the events of each answer, and the seconds until the last of them.

    Raises:
        ClientError: the port is closed, the server reports an error or does not speak Wyoming,
            or not everything was answered `within_s` seconds.
    """

    async def exchange() -> list[tuple[list[Event], float]]:
        async with asyncio.timeout(within_s), AsyncTcpClient(address, port) as client:
            return [await _request(client, request, until) for request in requests]

    try:
        return asyncio.run(exchange())
    except TimeoutError:
        text = f"no complete answer in {within_s:g} s"
    except (ClientError, OSError) as error:
        text = reason(error)
    except (EOFError, ValueError, KeyError, TypeError, AttributeError):
        text = "it hung up, or does not speak Wyoming"
    raise ClientError(f"{address} port {port}: {text}")


async def _request(
    client: AsyncTcpClient, request: Sequence[Event], until: str
) -> tuple[list[Event], float]:
    start, events = time.perf_counter(), list[Event]()
    for event in request:
        await client.write_event(event)
    while not events or events[-1].type != until:
        received = await client.read_event()
        if received is None:
            raise EOFError
        if received.type == "error":
            raise ClientError(str(received.data.get("text")))
        events.append(received)
    return events, time.perf_counter() - start
