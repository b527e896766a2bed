"""The TTS client: requests speech as a device does, and notes when its sound arrived."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, client_errors, one_line
from hearth.clients.sound import Chunk, FirstSound, duration, first_sound

PATH = "/v1/audio/speech"
MODEL = "kokoro"
VOICE = "af_heart"
HELD_HEADER = "x-hearth-held-ms"


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A text and how it is to be spoken."""

    text: str
    voice: str = VOICE
    format: str = "pcm"
    streamed: bool = True
    early: bool = False
    """Whether it starts at once where the server would wait so that it does not stall."""

    def body(self, model: str = MODEL) -> dict[str, Any]:
        """Return the request as OpenAI's endpoint takes it."""
        return {
            "model": model,
            "input": self.text,
            "voice": self.voice,
            "response_format": self.format,
            "stream": self.streamed,
            **({"early": True} if self.early else {}),
        }


@dataclass(frozen=True, slots=True)
class Speech:
    """One answer: its sound with the times of arrival, in seconds from the request."""

    chunks: Sequence[Chunk]
    held_s: float = 0.0
    """For how long the server held its first sound back, so that nothing stalls."""

    @property
    def last_s(self) -> float:
        """When its last chunk arrived."""
        return self.chunks[-1].at_s if self.chunks else 0.0

    @property
    def first_sound(self) -> FirstSound:
        """Return the first sound above silence; raises ClientError when there is none."""
        found = first_sound(self.chunks)
        if found is None:
            raise ClientError("the speech is silent")
        return found

    @property
    def audio_s(self) -> float:
        """How long the sound lasts."""
        return duration(self.chunks)


@dataclass(frozen=True, slots=True)
class ArrivingSpeech:
    """One answer whose sound is still arriving, held back by the server for `held_s`."""

    held_s: float
    chunks: Iterator[Chunk]


def held_ms(response: httpx.Response) -> float:
    """Return for how long a server held its first sound back; 0 where it does not report it."""
    value = response.headers.get(HELD_HEADER, "")
    return float(value) if value.isdecimal() else 0.0


@dataclass(frozen=True, slots=True)
class TtsClient:
    """Calls one TTS server; each answer ends within the endpoint's `call_s`."""

    endpoint: Endpoint

    def open(self) -> httpx.Client:
        """Return a connection, for a block, as a device keeps it that speaks often."""
        return self.endpoint.blocking_client()

    @contextmanager
    def stream(
        self, client: httpx.Client, text: str, *, streamed: bool = True, early: bool = False
    ) -> Iterator[ArrivingSpeech]:
        """Request a text as 24 kHz PCM and yield its sound as it arrives, all within `call_s`."""
        body = SpeechRequest(text, streamed=streamed, early=early).body()
        server = self.endpoint
        start = time.perf_counter()

        def chunks(response: httpx.Response) -> Iterator[Chunk]:
            for data in response.iter_raw():
                at_s = time.perf_counter() - start
                yield Chunk(at_s, data)
                # httpx bounds each read only; a slow stream would never end.
                if at_s > server.call_s:
                    raise ClientError(
                        f"{server.name}: the response did not end within {server.call_s:g} s"
                    )

        with (
            client_errors(f"{server.name}{PATH}", server.call_s),
            client.stream("POST", PATH, json=body) as response,
        ):
            if not response.is_success:
                text = one_line(response.read().decode(errors="replace"))
                raise ClientError(f"{server.name}: HTTP {response.status_code}: {text}")
            yield ArrivingSpeech(held_ms(response) / 1000, chunks(response))

    def speak(
        self,
        client: httpx.Client,
        text: str,
        *,
        streamed: bool = True,
        until_sound: bool = False,
        early: bool = False,
    ) -> Speech:
        """Request a text and read all its speech; `until_sound` leaves at the first sound."""
        found: list[Chunk] = []
        with self.stream(client, text, streamed=streamed, early=early) as arriving:
            for chunk in arriving.chunks:
                found.append(chunk)
                if until_sound and first_sound(found):
                    break
        return Speech(found, arriving.held_s)

    def speak_together(self, texts: Sequence[str]) -> list[Speech]:
        """Request several texts at once, each over a connection of its own, to start early."""

        def one(text: str) -> Speech:
            with self.open() as client:
                return self.speak(client, text, early=True)

        with ThreadPoolExecutor(len(texts)) as pool:
            return list(pool.map(one, texts))
