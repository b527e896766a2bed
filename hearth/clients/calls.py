"""A client of the voice server: asks a recorded question in real time, and times the answer."""

import asyncio
import base64
import json
import time
import wave
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus, WebSocketException

from hearth.catalogue.house import House, Site
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, one_line
from hearth.clients.websocket import connection

PATH = "/v1/realtime"
RATE = 24_000
"""Samples per second in both directions: 16 bit, mono."""
_STEP = RATE // 50
_EVENT_BYTES = 2**20
_SESSION = {"type": "realtime", "audio": {"input": {"transcription": {"model": "whisper-1"}}}}
# Longer recordings are no questions.
_LONGEST_S = 60


@dataclass(slots=True)
class Turn:
    """A question and its answer."""

    question: str = ""
    answer: str = ""
    sound: bytearray = field(default_factory=bytearray)
    stages: dict[str, Any] = field(default_factory=dict)
    """The server's own times in milliseconds from the end of the question: start and end."""
    is_early: bool = False
    """Whether the answer was started before the question was known to be over."""

    @property
    def waits_ms(self) -> float:
        """From the end of the question to the first sound of the answer."""
        start, end = self.stages["total"]
        return float(end - start)

    @property
    def lengths_ms(self) -> dict[str, float]:
        """How long each stage took by itself."""
        return {name: pair[1] - pair[0] for name, pair in self.stages.items() if name != "total"}


def site_for_calls(house: House) -> Site:
    """Return the name under which programs call; ClientError where no service answers calls."""
    for service in house.offering("calls"):
        for site in service.sites:
            if site.auth == "key":
                return site
    raise ClientError(
        "nobody answers calls in this house: write `voice: {enabled: true}` under `services:` of "
        "inventory/local/services.yml, then run `hearth up`"
    )


def read_wav(path: Path) -> bytes:
    """Return a recording as 16-bit mono PCM at 24 kHz; ClientError for any other kind of file."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            samples = array("h", file.readframes(_LONGEST_S * rate)) if width == 2 else array("h")
    except (OSError, EOFError, wave.Error, ValueError) as error:
        raise ClientError(f"{path}: cannot be read as a WAV file: {one_line(error)}") from None
    if not samples:
        raise ClientError(f"{path}: has no 16-bit sound; record it with: arecord -f S16_LE {path}")
    return at_24_khz(samples[::channels], rate)


def at_24_khz(samples: Sequence[int], rate: int) -> bytes:
    """Return samples at another rate, by linear interpolation."""
    if not samples:
        return b""
    result = array("h")
    for index in range(len(samples) * RATE // rate):
        at, part = divmod(index * rate, RATE)
        after = samples[min(at + 1, len(samples) - 1)]
        result.append(round(samples[at] + (after - samples[at]) * part / RATE))
    return result.tobytes()


def ask(endpoint: Endpoint, sound: bytes, within_s: float) -> Turn:
    """Speak a question (16-bit mono PCM at 24 kHz) and return its answer; raises ClientError."""
    return asyncio.run(_ask(endpoint, sound, within_s))


async def _ask(endpoint: Endpoint, sound: bytes, within_s: float) -> Turn:
    turn = Turn()
    try:
        async with (
            asyncio.timeout(within_s),
            connection(
                endpoint, f"{PATH}?model=voice&figures=true", max_size=_EVENT_BYTES
            ) as socket,
        ):
            await socket.send(json.dumps({"type": "session.update", "session": _SESSION}))
            talking = asyncio.create_task(_talk(socket, sound))
            try:
                await _listen(socket, turn)
            finally:
                talking.cancel()
                await asyncio.gather(talking, return_exceptions=True)
    except InvalidStatus as error:
        raise ClientError(f"{endpoint.name}{PATH}: HTTP {error.response.status_code}") from error
    except TimeoutError as error:
        raise ClientError(f"{endpoint.name}: no answer within {within_s:g} s") from error
    except (WebSocketException, OSError) as error:
        raise ClientError(f"the call broke off: {type(error).__name__}") from error
    return turn


async def _talk(socket: ClientConnection, sound: bytes) -> None:
    """Speak, and be silent afterwards for as long as the call lasts."""
    started, at = time.monotonic(), 0
    while True:
        part = sound[2 * at : 2 * (at + _STEP)].ljust(2 * _STEP, b"\0")
        audio = base64.b64encode(part).decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        at += _STEP
        await asyncio.sleep(started + at / RATE - time.monotonic())


async def _listen(socket: ClientConnection, turn: Turn) -> None:
    async for message in socket:
        event = json.loads(message)
        match event["type"]:
            case "conversation.item.input_audio_transcription.completed":
                turn.question = event["transcript"]
                if not turn.question:
                    raise ClientError("no words were recognised in the question")
            case "response.output_audio_transcript.delta":
                turn.answer += event["delta"]
            case "response.output_audio.delta":
                turn.sound += base64.b64decode(event["delta"])
            case "hearth.turn":
                turn.stages, turn.is_early = event["stages"], event["speculated"]
                return
            case "response.done" if event["response"]["status"] == "failed":
                error = event["response"]["status_details"]["error"]
                raise ClientError(one_line(error["message"]))
            case "error":
                raise ClientError(one_line(event["error"]["message"]))
    raise ClientError(f"the call ended without an answer ({socket.close_code})")
