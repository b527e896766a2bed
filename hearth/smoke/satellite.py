"""Ask a port that speaks Wyoming as a voice satellite does: who are you, and what did I say?

Home Assistant's own library is not among the controller's; the protocol is lines of JSON and sound.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

_FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
# As Home Assistant cuts it: 64 ms.
_CHUNK_BYTES = 2048
# No event of a server is longer; whoever sends more is no satellite's server.
_MOST_BYTES = 1024 * 1024


class SatelliteError(Exception):
    """One line for a person: which port, and what came instead of an answer."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the protocol."""

    type: str
    data: dict[str, Any]


@dataclass(slots=True)
class Satellite:
    """An open connection; everything together has until `deadline`."""

    where: str
    plug: socket.socket
    stream: BinaryIO
    deadline: float

    def describe(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        self._tell("describe", {})
        return self._until("info")[-1].data

    def transcribe(self, pcm: bytes, language: str = "en") -> list[Event]:
        """Speak 16-bit mono at 16 kHz, and return all that was answered up to the text's end."""
        self._tell("transcribe", {"language": language})
        self._tell("audio-start", _FORMAT)
        for at in range(0, len(pcm), _CHUNK_BYTES):
            self._tell("audio-chunk", _FORMAT, pcm[at : at + _CHUNK_BYTES])
        self._tell("audio-stop", {})
        return self._until("transcript-stop")

    def _tell(self, kind: str, data: dict[str, Any], payload: bytes = b"") -> None:
        head = {"type": kind, "data": data, "payload_length": len(payload)}
        self._in_time()
        try:
            self.plug.sendall(json.dumps(head).encode() + b"\n" + payload)
        except OSError as error:
            raise self._broken(error) from error

    def _until(self, kind: str) -> list[Event]:
        heard = [self._hear()]
        while heard[-1].type != kind:
            if heard[-1].type == "error":
                raise SatelliteError(f"{self.where}: {heard[-1].data.get('text')}")
            heard.append(self._hear())
        return heard

    def _hear(self) -> Event:
        self._in_time()
        try:
            head = json.loads(self.stream.readline(_MOST_BYTES))
            data = head.get("data") or {}
            if size := head.get("data_length"):
                data |= json.loads(self.stream.read(min(size, _MOST_BYTES)))
            if size := head.get("payload_length"):
                self.stream.read(min(size, _MOST_BYTES))
            return Event(head["type"], data)
        except OSError as error:
            raise self._broken(error) from error
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SatelliteError(f"{self.where}: it hung up, or speaks no Wyoming") from None

    def _in_time(self) -> None:
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise SatelliteError(f"{self.where}: no whole answer in time")
        self.plug.settimeout(left_s)

    def _broken(self, error: OSError) -> SatelliteError:
        return SatelliteError(f"{self.where}: {error or type(error).__name__}")


@contextmanager
def satellite(address: str, port: int, within_s: float) -> Iterator[Satellite]:
    """Connect as a satellite does; what is said in all may take `within_s` seconds.

    Raises:
        SatelliteError: nobody answers there.
    """
    where = f"{address} port {port}"
    try:
        plug = socket.create_connection((address, port), timeout=within_s)
    except OSError as error:
        raise SatelliteError(f"{where}: {error}") from error
    with plug, plug.makefile("rb") as stream:
        yield Satellite(where, plug, stream, time.monotonic() + within_s)
