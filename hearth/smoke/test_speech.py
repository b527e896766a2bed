"""Speech starts at once, through the front door, and whoever leaves leaves no work behind."""

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from websockets.exceptions import InvalidStatus

from hearth.catalogue.house import Service
from hearth.clients.edge import Edge
from hearth.clients.texts import LONG_CHARACTERS, Texts
from hearth.clients.tts import VOICE, TtsClient, timed_json
from hearth.clients.websocket import WebSocket, opened
from hearth.smoke.criteria import judge_first_sound
from hearth.smoke.plugin import Notes

pytestmark = pytest.mark.home

TEN = 10
# Streamed and joined are the same pieces; real weights give them lengths that differ a little.
LENGTHS_AGREE = 0.05
# More than sockets and proxies hold: a server that never looks whether anybody listens is seen.
LONG = LONG_CHARACTERS
# It stops within 100 ms; a machine that does something else besides may take a while to say so.
FREE_S = 5.0
ASK_S = 5.0
WEBSOCKET_S = 60.0


@pytest.fixture
def line(speech_server: Service, edge: Edge, key: str) -> TtsClient:
    """The way to a speech server that a device of the household takes."""
    return TtsClient(f"https://{edge.address}", speech_server.publish[0].fqdn, key, edge.trust())


def test_speech_starts_early(speech_server: Service, line: TtsClient, notes: Notes) -> None:
    texts, about = Texts(), speech_server.name
    phrases = [texts.phrase() for _ in range(TEN)]
    with line.open() as client:
        # Whatever is paid once, by a connection or by a voice, is no part of a figure.
        line.speak(client, texts.phrase(), until_sound=True)
        settled(speech_server)
        fresh = [line.speak(client, phrase) for phrase in phrases]
        whole = [said.last_s for said in fresh]
        notes.figure(f"whole phrase of {about}", "ms", [1000 * s for s in whole])
        rtf = [said.last_s / said.audio_s for said in fresh]
        notes.figure(f"real-time factor of {about}", "", rtf, "seconds of work for one of sound")
        first = [said.first_sound.at_s for said in fresh]
        notes.figure(f"first sound of {about}", "ms", [1000 * s for s in first], "fresh phrases")
        _hold(about, "fresh phrases", whole, first, notes)
        again = []
        for phrase in phrases:
            again.append(line.speak(client, phrase, until_sound=True).first_sound.at_s)
            settled(speech_server)
    notes.figure(f"first sound of {about} again", "ms", [1000 * s for s in again], "repeated")
    _hold(about, "repeated phrases", whole, again, notes)


def _hold(
    about: str, what: str, whole: Sequence[float], first: Sequence[float], notes: Notes
) -> None:
    """Hold the first sound to the rule; what is slow is remarked upon."""
    verdict = judge_first_sound(statistics.median(whole), statistics.median(first))
    if verdict.grade == "slow":
        notes.remark(f"{about}, {what}: {verdict.line}")
    assert verdict.grade != "failed", f"{what}: {verdict.line}"


def settled(service: Service) -> None:
    """Return when nobody is being spoken to, so that the next one is alone."""
    deadline = time.monotonic() + FREE_S
    while (now := _busy(service)) > 0:
        assert time.monotonic() < deadline, (
            f"{service.name} still works for {now} after {FREE_S:g} s, and everybody has left"
        )
        time.sleep(0.05)


def _busy(service: Service) -> int:
    said, _ = timed_json(service.url, "/status", ASK_S)
    return int(said["active"]) + int(said["waiting"])


def test_streamed_and_whole_speech_are_equally_long(line: TtsClient) -> None:
    phrase = Texts().phrase()
    with line.open() as client:
        lengths = [line.speak(client, phrase, streamed=on).audio_s for on in (True, False)]
    assert abs(lengths[0] - lengths[1]) <= LENGTHS_AGREE * lengths[1], (
        f"streamed {lengths[0]:.2f} s of sound, joined {lengths[1]:.2f} s"
    )


def test_two_at_once_both_begin_before_either_ends(
    speech_server: Service, line: TtsClient, notes: Notes
) -> None:
    texts = Texts()
    both = line.speak_together([texts.phrase(), texts.phrase()])
    first = [said.first_sound.at_s for said in both]
    notes.figure(
        f"first sound of {speech_server.name}, two at once", "ms", [1000 * s for s in first]
    )
    ended = min(said.last_s for said in both)
    assert max(first) < ended, (
        f"one began after {max(first):.2f} s, when the other had ended ({ended:.2f} s)"
    )


def test_health_answers_while_it_speaks(
    speech_server: Service, line: TtsClient, notes: Notes
) -> None:
    health = speech_server.health
    with _speaking(line):
        waited = []
        for _ in range(TEN):
            said, took_s = timed_json(speech_server.url, health.path, health.within_s)
            assert health.contains in json.dumps(said), said
            waited.append(1000 * took_s)
            time.sleep(0.1)
        assert _busy(speech_server) > 0, "the speech was over before its health was asked"
    notes.figure(f"health of {speech_server.name} while it speaks", "ms", waited)


@contextlib.contextmanager
def _speaking(line: TtsClient) -> Iterator[None]:
    """Have a long text spoken meanwhile; it is left at the end."""
    heard, enough = threading.Event(), threading.Event()

    def speak() -> None:
        try:
            with line.open() as client, line.stream(client, Texts().long(LONG)) as chunks:
                for _ in chunks:
                    heard.set()
                    if enough.is_set():
                        break
        finally:
            heard.set()

    with ThreadPoolExecutor(1) as pool:
        speech = pool.submit(speak)
        try:
            heard.wait(line.within_s)
            yield
        finally:
            enough.set()
            speech.result(line.within_s)


def test_a_client_that_leaves_frees_its_work(
    speech_server: Service, line: TtsClient, notes: Notes
) -> None:
    settled(speech_server)
    before, _ = timed_json(speech_server.url, "/status", ASK_S)
    with line.open() as client:
        line.speak(client, Texts().long(LONG), until_sound=True)
    left = time.perf_counter()
    settled(speech_server)
    notes.figure(f"work of {speech_server.name} freed", "ms", [1000 * (time.perf_counter() - left)])
    after, _ = timed_json(speech_server.url, "/status", ASK_S)
    gone = after["requests"]["left"] - before["requests"]["left"]
    assert gone == 1, f"{gone} requests are counted as left, not 1: was it spoken to the end?"


def test_a_websocket_through_the_front_door_speaks(
    speech_server: Service, edge: Edge, key: str
) -> None:
    kinds: list[str] = []
    sound = 0
    with _dial(speech_server, edge, {"Authorization": f"Bearer {key}"}) as call:
        for word in ("This ", "is ", "said ", "while ", "it ", "is ", "written."):
            call.send(json.dumps({"type": "text", "text": word}))
        call.send(json.dumps({"type": "end"}))
        deadline = time.monotonic() + WEBSOCKET_S
        while not kinds or kinds[-1] not in ("done", "error"):
            assert time.monotonic() < deadline, f"no end after {WEBSOCKET_S:g} s: {kinds}"
            said = call.recv(timeout=WEBSOCKET_S)
            if isinstance(said, bytes):
                sound += len(said)
            else:
                kinds.append(json.loads(said)["type"])
    assert kinds[0] == "ready", kinds
    assert kinds[-1] == "done", kinds
    assert "piece" in kinds, kinds
    assert sound > 0, "it said nothing"


def test_a_websocket_without_a_key_is_refused(speech_server: Service, edge: Edge) -> None:
    if speech_server.publish[0].auth != "key":
        pytest.skip(f"{speech_server.name} is open on purpose")
    with pytest.raises(InvalidStatus) as refused, _dial(speech_server, edge, {}):
        pass
    assert refused.value.response.status_code == 401


def _dial(
    service: Service, edge: Edge, headers: dict[str, str]
) -> AbstractContextManager[WebSocket]:
    url = f"wss://{service.publish[0].fqdn}/v1/audio/stream?voice={VOICE}&response_format=pcm"
    at = (edge.address, 443)
    return opened(url, at, edge.trust(), WEBSOCKET_S, additional_headers=headers)
