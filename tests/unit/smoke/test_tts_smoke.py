"""The smoke tests of speech pass for a server that streams, and fail for one that buffers."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from hearth.clients import ClientError
from hearth.clients.endpoints import Answer, Endpoint
from hearth.clients.tts import TtsClient
from hearth.smoke import test_tts as smoke
from hearth.smoke.plugin import Notes, NotMeasured

FIRST_S, REST_S = 0.02, 0.4
LOUD = b"\x00\x40\x00\xc0" * 2400  # 0.2 s
PIECES = 5
# Spoken until the listener leaves, however late a busy machine does that.
ENDLESS = 10_000
RUNS = smoke.LEAST_PHRASES


@dataclass
class Scripted:
    """A server whose first piece is there after FIRST_S, all of them after FIRST_S + REST_S."""

    buffers: bool = False
    first_s: float = FIRST_S
    rest_s: float = REST_S
    held_s: float = 0.0
    keeps_working: bool = False
    status: int = 200
    sound: bytes = LOUD
    streamed: int = PIECES
    joined: int = PIECES
    active: int = 0
    left: int = 0
    done: int = 0
    remembers: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def pieces(self, streamed: bool) -> Iterator[bytes]:
        """Yield the pieces as they are made."""
        for number in range(self.streamed if streamed else self.joined):
            time.sleep(self.first_s if number == 0 else self.rest_s / (PIECES - 1))
            yield self.sound

    def describe(self) -> dict[str, Any]:
        with self.lock:
            requests = {"left": self.left, "done": self.done}
            caches: dict[str, Any] = {"first_pieces": {}} if self.remembers else {}
            return {"active": self.active, "waiting": 0, "requests": requests, "caches": caches}

    def speak(self, write: Callable[[bytes], object], streamed: bool) -> None:
        with self.lock:
            self.active += 1
        try:
            if self.buffers or not streamed:
                write(b"".join(self.pieces(streamed)))
                return
            for piece in self.pieces(streamed):
                write(piece)
            with self.lock:
                self.done += 1
        except OSError:
            with self.lock:
                self.left += 1
            if self.keeps_working:
                self.over.wait()
        finally:
            with self.lock:
                self.active -= 1


@contextlib.contextmanager
def running(scripted: Scripted) -> Iterator[tuple[Any, TtsClient]]:
    """Serve it on loopback; yields the service and the client of the smoke tests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            payload = {"status": "ok"} if self.path == "/health" else scripted.describe()
            body = json.dumps(payload).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(scripted.status)
            self.send_header("Transfer-Encoding", "chunked")
            if scripted.held_s:
                time.sleep(scripted.held_s)
                self.send_header("X-Hearth-Held-Ms", str(round(1000 * scripted.held_s)))
            self.end_headers()
            with contextlib.suppress(OSError):
                scripted.speak(
                    lambda data: self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data)),
                    request["stream"],
                )
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    health = SimpleNamespace(path="/health", contains='"ok"', within_s=2.0)
    service = SimpleNamespace(name="scripted", url=url, health=health, sites=())
    try:
        yield service, TtsClient(Endpoint("scripted", url, key="key", call_s=10))
    finally:
        scripted.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "PHRASES_S", 0)


def test_a_server_that_streams_passes_and_its_figures_are_noted() -> None:
    notes = Notes()
    with running(Scripted()) as (service, client):
        smoke.test_speech_starts_early(service, client, notes)
    figures = {figure.name: figure for figure in notes.figures}
    first = figures["first sound of scripted"]
    assert (first.n, first.unit) == (RUNS, "ms")
    assert first.median < figures["whole phrase of scripted"].median
    assert "first sound of scripted again" in figures
    assert notes.remarks == []


def test_a_server_that_buffers_fails() -> None:
    with (
        running(Scripted(buffers=True)) as (service, client),
        pytest.raises(pytest.fail.Exception, match="does the server or a proxy buffer"),
    ):
        smoke.test_speech_starts_early(service, client, Notes())


def test_a_slow_machine_that_holds_its_sound_back_passes_and_shows_the_price() -> None:
    notes = Notes()
    # Longer than half of the phrase, as buffering would be.
    with running(Scripted(held_s=0.6)) as (service, client):
        smoke.test_speech_starts_early(service, client, notes)
    held = next(one for one in notes.figures if "held back" in one.name)
    assert (held.median, held.n) == (600, 2 * RUNS)
    with running(Scripted()) as (service, client):
        smoke.test_speech_starts_early(service, client, notes := Notes())
    assert not any("held back" in one.name for one in notes.figures)


def test_a_server_that_buffers_lets_one_of_two_wait_for_all() -> None:
    with running(Scripted()) as (service, client):
        smoke.test_two_requests_at_once_both_start_before_either_ends(service, client, Notes())
    with (
        running(Scripted(buffers=True)) as (service, client),
        pytest.raises(AssertionError, match="when the other had ended"),
    ):
        smoke.test_two_requests_at_once_both_start_before_either_ends(service, client, Notes())


def test_lengths_that_differ_are_seen() -> None:
    with running(Scripted()) as (_, client):
        smoke.test_streamed_and_whole_speech_are_equally_long(client)
    with (
        running(Scripted(joined=PIECES - 1)) as (_, client),
        pytest.raises(AssertionError, match=r"streamed 1\.00 s of sound, whole 0\.80 s"),
    ):
        smoke.test_streamed_and_whole_speech_are_equally_long(client)


def test_work_that_continues_without_a_client_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Scripted(streamed=ENDLESS)) as (service, client):
        smoke.test_a_client_that_leaves_frees_its_work(service, client, Notes())
    monkeypatch.setattr(smoke, "FREE_S", 0.5)
    with (
        running(Scripted(streamed=ENDLESS, keeps_working=True)) as (service, client),
        pytest.raises(AssertionError, match=r"still works 0\.5 s after"),
    ):
        smoke.test_a_client_that_leaves_frees_its_work(service, client, Notes())


def test_speech_to_the_end_without_a_client_fails() -> None:
    with (
        running(Scripted(buffers=True)) as (service, client),
        pytest.raises(AssertionError, match="was it spoken to the end"),
    ):
        smoke.test_a_client_that_leaves_frees_its_work(service, client, Notes())


@pytest.mark.parametrize(
    ("scripted", "problem"),
    [(Scripted(sound=bytes(9600)), "silent"), (Scripted(status=500), "HTTP 500")],
)
def test_an_answer_without_speech_is_an_error(scripted: Scripted, problem: str) -> None:
    with (
        running(scripted) as (_, client),
        client.open() as connection,
        pytest.raises(ClientError, match=problem),
    ):
        _ = client.speak(connection, "Hello.").first_sound


@pytest.mark.parametrize(
    ("missing", "sound", "problem"),
    [
        ({}, bytes(9600), None),
        ({"ja": "not supported by this server without misaki"}, bytes(9600), "misaki"),
        ({}, bytes(960), "en-us: 'Yes.' is 0.02 s of sound"),
    ],
)
def test_every_language_of_the_voices_is_checked(
    monkeypatch: pytest.MonkeyPatch, missing: dict[str, str], sound: bytes, problem: str | None
) -> None:
    letters = zip(
        "abefhijpz", ("en-us", "en-gb", "es", "fr-fr", "hi", "it", "ja", "pt-br", "zh"), strict=True
    )
    voices = [{"id": f"{letter}f_one", "language": language} for letter, language in letters]
    spoken = list[str]()

    def ask(edge: Any, fqdn: str, path: str, **more: Any) -> Answer:
        if path == "/v1/audio/voices":
            listed = {"voices": voices, "unsupported_languages": missing}
            return Answer(200, {}, json.dumps(listed).encode())
        assert more["headers"] == smoke.MARK
        spoken.append(more["send"]["voice"])
        return Answer(200, {}, sound)

    monkeypatch.setattr(smoke, "ask", ask)
    monkeypatch.setattr(smoke, "_ended", lambda _: len(spoken))
    service: Any = SimpleNamespace(sites=(SimpleNamespace(fqdn="kokoro-stream.lan"),))
    edge: Any = None
    if problem:
        with pytest.raises(AssertionError, match=problem):
            smoke.test_every_language_of_the_voices_is_spoken(service, edge, "key")
        return
    smoke.test_every_language_of_the_voices_is_spoken(service, edge, "key")
    assert len(spoken) == 7
    # The mark of the house's own tests reached the server.
    monkeypatch.setattr(smoke, "_ended", lambda _: 5)
    monkeypatch.setattr(smoke, "FREE_S", 0)
    with pytest.raises(AssertionError, match="7 of 7 requests are in no figure"):
        smoke.test_every_language_of_the_voices_is_spoken(service, edge, "key")


def test_remarks_reach_the_receipt() -> None:
    notes = Notes()
    notes.remark("one line")
    assert notes.as_event()["remarks"] == ["one line"]


def test_health_is_measured_while_the_server_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "HEALTH_CHECKS", 2)
    notes = Notes()
    with running(Scripted(streamed=ENDLESS)) as (service, client):
        smoke.test_the_server_is_healthy_while_it_speaks(service, client, notes)
    (figure,) = notes.figures
    assert (figure.n, figure.unit) == (2, "ms")


def test_a_card_that_is_faster_than_the_checks_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    # It has ended after two checks, or before the first.
    for left, checks in (([1, 1, 0], 2), ([0], 0)):
        monkeypatch.setattr(smoke, "_requests", lambda _, left=left: left.pop(0))
        notes = Notes()
        with running(Scripted(streamed=ENDLESS)) as (service, client):
            if checks:
                smoke.test_the_server_is_healthy_while_it_speaks(service, client, notes)
                assert [figure.n for figure in notes.figures] == [checks]
                continue
            with pytest.raises(NotMeasured, match="faster than one check"):
                smoke.test_the_server_is_healthy_while_it_speaks(service, client, notes)


def test_a_repeat_that_is_as_slow_as_a_fresh_phrase_fails_where_it_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smoke, "LEAST_PHRASES", 1)
    # Well before the end of a phrase, so that nothing looks buffered.
    with (
        running(Scripted(first_s=0.3, rest_s=1.0, remembers=True)) as (service, client),
        pytest.raises(pytest.fail.Exception, match="is the cache lost"),
    ):
        smoke.test_speech_starts_early(service, client, Notes())
    with running(Scripted(first_s=0.3, rest_s=1.0)) as (service, client):
        smoke.test_speech_starts_early(service, client, Notes())


def test_somebody_who_listens_meanwhile_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    # A request of another person goes on for as long as the tests take.
    with running(Scripted(streamed=ENDLESS, active=1)) as (service, client):
        smoke.test_a_client_that_leaves_frees_its_work(service, client, Notes())
    monkeypatch.setattr(smoke, "FREE_S", 0.1)
    with (
        running(Scripted(active=1)) as (service, client),
        pytest.raises(NotMeasured, match="the house is busy: scripted works on"),
    ):
        smoke.test_speech_starts_early(service, client, Notes())


def test_what_looks_buffered_while_others_are_served_is_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Two of its own have ended, and one of another person.
    monkeypatch.setattr(smoke, "_ended", lambda _, counts=[7, 10]: counts.pop(0))
    with (
        running(Scripted(buffers=True)) as (service, client),
        pytest.raises(NotMeasured, match="scripted had 1 other requests"),
    ):
        smoke.test_two_requests_at_once_both_start_before_either_ends(service, client, Notes())
