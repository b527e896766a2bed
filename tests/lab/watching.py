"""The outage that a client on the LAN sees while something breaks: how long, with which errors.

Each probe sends requests as a device does, by name and with the house's root, again and again. The
root is a copy from when the house was built, so a house that came back with another would stay red.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from hearth.clients import ClientError
from hearth.clients.endpoints import Edge
from hearth.machine.probe import resolve
from tests import lab_machine as lab
from tests.lab.house import NAME, House

PATIENCE_S = 60
PAUSE_S = 0.2
SEEN_S = 1.0
KNOWN_GOOD_S = 180
WORDS = 160


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one request: when it was sent, how long it took, and the error."""

    at: float
    took: float
    good: bool
    text: str


Probe = Callable[[], object]


def asks(edge: Edge, key: str, host: str, path: str, send: object = None) -> Probe:
    """Return a probe that requests one published name; other results than 200 are an `OSError`."""

    def ask() -> str:
        try:
            answer = edge.request(host, path, within_s=PATIENCE_S, key=key, send=send)
        except ClientError as error:
            raise OSError(str(error.__cause__ or error)) from error
        if answer.status != HTTPStatus.OK:
            text = " ".join(answer.text.split())[:WORDS] or "an empty page"
            raise OSError(f"HTTP {answer.status}: {text}")
        return answer.text

    return ask


def names(edge: Edge, name: str) -> Probe:
    """Return a probe that queries the house's resolver; no address in time is an `OSError`."""

    def ask() -> list[str]:
        code, addresses = resolve(edge.address, name, "A")
        if not addresses:
            raise OSError("no answer" if code < 0 else f"no address, code {code}")
        return addresses

    return ask


def speaks(edge: Edge, key: str, text: str) -> Probe:
    """Return a probe that has a text read aloud."""
    body = {"model": "kokoro", "input": text, "voice": "af_heart", "response_format": "pcm"}
    return asks(edge, key, "kokoro-stream.lan", "/v1/audio/speech", body)


def speaker(house: House, text: str) -> Probe:
    """Return a probe that has a text read aloud from here, as a device does."""
    return speaks(edge_of(house), house.key(), text)


def edge_of(house: House) -> Edge:
    """Return the house's reverse proxy as a client outside its machine reaches it."""
    return Edge(lab.address(NAME), house.folder / "root.crt")


def probes(edge: Edge, key: str) -> dict[str, Probe]:
    """Return the probes by what they use."""
    messages = [{"role": "user", "content": "What is 2 + 2?"}]
    chat = {"model": "fast", "messages": messages, "max_tokens": 4}
    return {
        "names": names(edge, "llm.lan"),
        "models": asks(edge, key, "llm.lan", "/v1/chat/completions", chat),
        "TTS": speaks(edge, key, "Yes."),
        "STT": asks(edge, key, "whisper.lan", "/v1/models"),
        "chat": asks(edge, key, "chat.lan", "/api/config"),
    }


@dataclass(slots=True)
class Watch:
    """All answers of a period, by probe."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def red(self, name: str) -> float:
        """Return the longest time in seconds for which a probe had no good answer."""
        longest, since = 0.0, None
        for answer in self.answers[name]:
            if not answer.good:
                since = answer.at if since is None else since
            elif since is not None:
                longest = max(longest, answer.at + answer.took - since)
                since = None
        ended = self.answers[name][-1]
        return longest if since is None else max(longest, ended.at + ended.took - since)

    def reds(self) -> dict[str, float]:
        """Return the probes that were red, and for how long."""
        found = {name: round(self.red(name), 1) for name in self.answers}
        return {name: seconds for name, seconds in found.items() if seconds}

    def words(self, name: str) -> list[str]:
        """Return the errors that a client got meanwhile, and the longest wait for one."""
        slowest: dict[str, float] = {}
        for answer in self.answers[name]:
            if not answer.good:
                slowest[answer.text] = max(slowest.get(answer.text, 0.0), answer.took)
        return [f"{text} (after {took:.1f} s)" for text, took in slowest.items()]

    def slowest(self, name: str) -> float:
        """Return how long the slowest good answer took."""
        return max((answer.took for answer in self.answers[name] if answer.good), default=0.0)

    def table(self) -> str:
        """Return which probes were red, for how long, and with which errors."""
        lines = []
        for name in self.answers:
            errors = "; ".join(self.words(name))
            lines.append(f"{self.red(name):6.1f} s red  {name:8} {errors}"[:400])
        return "\n".join(lines)


@contextmanager
def watching(house: House, title: str, *only: str) -> Iterator[Watch]:
    """Probe from good answers before the fault to good answers after it; print what was red."""
    edge = edge_of(house)
    chosen = {n: ask for n, ask in probes(edge, house.key()).items() if not only or n in only}
    watch, stop = Watch({name: [] for name in chosen}), threading.Event()

    def look(name: str, ask: Probe) -> None:
        while not stop.is_set():
            at = time.monotonic()
            try:
                ask()
                text, good = "", True
            except OSError as error:
                text, good = f"{error.strerror or error or type(error).__name__}", False
            took = time.monotonic() - at
            watch.answers[name].append(Answer(at - watch.began, took, good, text))
            stop.wait(PAUSE_S)

    threads = [threading.Thread(target=look, args=item, daemon=True) for item in chosen.items()]
    for thread in threads:
        thread.start()
    try:
        _until_good(watch)
        yield watch
        _until_good(watch)
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        print(f"\n{title}\n{watch.table()}", flush=True)


def _until_good(watch: Watch) -> None:
    """Wait until every probe has had one more good answer, to a request sent from now on."""
    since = time.monotonic() - watch.began
    end = time.monotonic() + KNOWN_GOOD_S
    while not all(
        any(answer.good and answer.at >= since for answer in answers)
        for answers in list(watch.answers.values())
    ):
        assert time.monotonic() < end, f"not all well again:\n{watch.table()}"
        time.sleep(SEEN_S / 10)
