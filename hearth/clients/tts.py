"""Ask a speech server as a device does, and note when its sound came."""

import ssl
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from hearth.clients.sound import Chunk, Heard, first_sound, seconds
from hearth.clients.speech_request import PATH, Ask


class SpeechCallError(Exception):
    """One line for a person: what was asked of which server, and what came instead of sound."""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: its sound with the times at which it came, in seconds from the request."""

    chunks: Sequence[Chunk]

    @property
    def last_s(self) -> float:
        """When the last of it was there."""
        return self.chunks[-1].at_s if self.chunks else 0.0

    @property
    def heard(self) -> Heard:
        """Return the first sound above silence; raises SpeechCallError when there is none."""
        found = first_sound(self.chunks)
        if found is None:
            raise SpeechCallError("it answered with silence")
        return found

    @property
    def audio_s(self) -> float:
        """How long the sound lasts."""
        return seconds(self.chunks)


@dataclass(frozen=True, slots=True)
class Line:
    """The way to one server: an address that is dialled, and the name that is asked for."""

    url: str
    fqdn: str
    key: str = field(default="", repr=False)
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    within_s: float = 60

    @contextmanager
    def open(self) -> Iterator[httpx.Client]:
        """Hold a connection, as a device that speaks often does."""
        headers = {"Host": self.fqdn, "Authorization": f"Bearer {self.key}"}
        with httpx.Client(
            base_url=self.url,
            headers=headers,
            verify=self.trust or True,
            trust_env=False,
            timeout=self.within_s,
        ) as client:
            yield client

    @contextmanager
    def reading(
        self, client: httpx.Client, text: str, *, stream: bool = True
    ) -> Iterator[Iterator[Chunk]]:
        """Have a text spoken as 24 kHz PCM and hand out its sound as it comes.

        Raises:
            SpeechCallError: no speech, or not within `within_s` in all.
        """
        body = Ask(text, streamed=stream).body()
        start = time.perf_counter()

        def chunks(answer: httpx.Response) -> Iterator[Chunk]:
            for data in answer.iter_raw():
                at_s = time.perf_counter() - start
                yield Chunk(at_s, data)
                # httpx bounds each read only; who drips would never end.
                if at_s > self.within_s:
                    raise SpeechCallError(f"{self.fqdn}: no end within {self.within_s:g} s")

        name = {"sni_hostname": self.fqdn}
        try:
            with client.stream("POST", PATH, json=body, extensions=name) as answer:
                if not answer.is_success:
                    said = " ".join(answer.read().decode(errors="replace").split())
                    raise SpeechCallError(f"{self.fqdn}: HTTP {answer.status_code}: {said[:200]}")
                yield chunks(answer)
        except httpx.HTTPError as error:
            words = str(error) or type(error).__name__
            raise SpeechCallError(f"{self.fqdn}{PATH}: {words}") from error

    def say(
        self, client: httpx.Client, text: str, *, stream: bool = True, until_heard: bool = False
    ) -> Said:
        """Have a text spoken to its end; `until_heard` leaves at the first sound."""
        found: list[Chunk] = []
        with self.reading(client, text, stream=stream) as chunks:
            for chunk in chunks:
                found.append(chunk)
                if until_heard and first_sound(found):
                    break
        return Said(found)

    def together(self, texts: Sequence[str]) -> list[Said]:
        """Have several texts spoken at the same time, each over a connection of its own."""

        def one(text: str) -> Said:
            with self.open() as client:
                return self.say(client, text)

        with ThreadPoolExecutor(len(texts)) as pool:
            return list(pool.map(one, texts))


def ask_inside(url: str, path: str, within_s: float) -> tuple[Any, float]:
    """Return the JSON that a server answers to the machine itself, and the seconds it took."""
    start = time.perf_counter()
    try:
        answer = httpx.get(url + path, timeout=within_s, trust_env=False)
        return answer.raise_for_status().json(), time.perf_counter() - start
    except (httpx.HTTPError, ValueError) as error:
        raise SpeechCallError(f"{url}{path}: {error or type(error).__name__}") from error
