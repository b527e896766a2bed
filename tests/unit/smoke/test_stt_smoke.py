"""The STT smoke tests pass for a server that works, and fail for each flaw."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.sync.server import ServerConnection, serve

from hearth.clients.endpoints import Edge, Endpoint
from hearth.clients.recordings import BYTES, RATE, Utterance
from hearth.clients.stt import Stream, transcribe
from hearth.smoke import test_stt as smoke
from hearth.smoke.plugin import Notes

NO_SOUND = "test_a_file_without_sound_is_rejected_as_openai_does"
LANGUAGES = "test_other_languages_than_english_are_accepted"
LEAVES = "test_a_client_that_leaves_frees_its_work"
TEXT = "Put the kettle on."
LOUD = b"\x00\x40\x00\xc0" * (RATE // 2)  # 1 s
LOUDER_THAN = 1000


@dataclass
class Scripted:
    """A server that returns TEXT for loud sound; each flaw is one that real servers have."""

    text: str = TEXT
    of_silence: str = ""
    takes_pictures: bool = False
    rtf: float = 0.01
    backwards: bool = False
    keeps_working: bool = False
    answered_by: str = "tiny"
    multilingual: bool = True
    language: str = "german"
    languages_status: int = 400
    live_flaw: str = ""
    active: int = 0
    live: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def describe(self) -> dict[str, Any]:
        files = {"active": self.active, "waiting": 0}
        about = {"multilingual": self.multilingual, "choice_reason": "the only one"}
        return {"model": "small", "files": files, "live": self.live, **about}

    def answer(self, form: dict[str, bytes]) -> tuple[int, dict[str, Any]]:
        if form["file"][:4] != b"RIFF":
            picture = {"error": {"message": "there is no sound in this file"}}
            return (200, {"text": ""}) if self.takes_pictures else (400, picture)
        if "language" in form and not self.multilingual:
            error = {"code": "unsupported_language", "message": "it supports English only"}
            return self.languages_status, {"error": error}
        pcm = read_audio(form["file"])
        seconds = len(pcm) / BYTES / RATE
        time.sleep(self.rtf * seconds)
        times = [(0.0, seconds / 2), (seconds / 2, seconds)]
        parts = [{"start": a, "end": b} for a, b in times]
        text = self.text if is_loud(pcm) else self.of_silence
        segments = parts[::-1] if self.backwards else parts
        return 200, {
            "text": text,
            "duration": seconds,
            "segments": segments,
            "language": self.language,
        }

    def listen(self, call: ServerConnection) -> None:
        self.live += 1
        try:
            self._listen(call)
        finally:
            self.live -= 1

    def _listen(self, call: ServerConnection) -> None:
        def tell(kind: str, **more: Any) -> None:
            call.send(json.dumps({"type": kind, **more}))

        tell("ready")
        assert json.loads(call.recv())["type"] == "start"
        pcm = b""
        while isinstance(message := call.recv(), bytes):
            pcm += message
        if is_loud(pcm) or self.of_silence:
            times = {"start_s": 0.1, "end_s": 99.0 if self.live_flaw == "late" else 0.5}
            tell("speech_started", utterance=1, at_s=0.1)
            if self.live_flaw != "endless":
                tell("speech_ended", utterance=1, at_s=0.5)
            for _ in range(2 if self.live_flaw == "twice" else 1):
                tell("final", utterance=1, text=self.text, words=[], **times)
        tell("done")


def read_audio(file: bytes) -> bytes:
    with wave.open(io.BytesIO(file)) as opened:
        return bytes(opened.readframes(opened.getnframes()))


def is_loud(pcm: bytes) -> bool:
    return any(abs(sample) > LOUDER_THAN for sample in memoryview(pcm).cast("h"))


@dataclass
class PlainEdge:
    """The reverse proxy, without TLS: plain HTTP."""

    url: str
    live_url: str

    def endpoint(self, fqdn: str, key: str | None) -> Endpoint:
        return Endpoint(fqdn, self.live_url, key=key)

    def request(self, fqdn: str, path: str, **more: Any) -> Any:
        return Edge.request(self, fqdn, path, **more)  # type: ignore[arg-type]

    @contextmanager
    def stream(
        self, fqdn: str, path: str, within_s: float, key: Any, send: bytes, headers: dict[str, str]
    ) -> Iterator[Any]:
        import httpx

        with (
            httpx.Client(trust_env=False, timeout=within_s) as client,
            client.stream("POST", self.url + path, content=send, headers=headers) as response,
        ):
            yield response, response.iter_bytes()


@dataclass
class Run:
    """A running server, as the smoke tests know it."""

    service: Any
    edge: Any


@contextmanager
def running(scripted: Scripted) -> Iterator[Run]:
    """Serve it on loopback, files and live."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200, {"status": "ok"} if self.path == "/health" else scripted.describe())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            message = message_from_bytes(head + body, policy=policy.HTTP)
            form: dict[str, Any] = {
                str(part.get_param("name", header="content-disposition")): part.get_payload(
                    decode=True
                )
                for part in message.iter_parts()
            }
            with contextlib.suppress(OSError):
                if "stream" in form:
                    self.drip()
                else:
                    self.reply(*scripted.answer(form))

        def drip(self) -> None:
            scripted.active += 1
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                # Until the client leaves: that ends in an OSError.
                while not over.is_set():
                    self.wfile.write(b'data: {"type": "transcript.text.delta"}\n\n')
                    time.sleep(0.01)
            finally:
                if scripted.keeps_working:
                    over.wait()
                scripted.active -= 1

        def reply(self, status: int, payload: dict[str, Any]) -> None:
            body = json.dumps(payload).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Hearth-Model", scripted.answered_by)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    files = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    files.daemon_threads = True
    with serve(scripted.listen, "127.0.0.1", 0) as live:
        threads = [
            threading.Thread(target=files.serve_forever, kwargs={"poll_interval": 0.02}),
            threading.Thread(target=live.serve_forever),
        ]
        for thread in threads:
            thread.start()
        url = f"http://127.0.0.1:{files.server_port}"
        port = live.socket.getsockname()[1]
        health = SimpleNamespace(path="/health", contains='"ok"', within_s=2.0)
        site = (SimpleNamespace(fqdn="whisper.lan"),)
        service = SimpleNamespace(name="scripted", url=url, health=health, sites=site)

        try:
            yield Run(service, PlainEdge(url, f"http://127.0.0.1:{port}"))
        finally:
            over.set()
            files.shutdown()
            live.shutdown()
            for thread in threads:
                thread.join()
            files.server_close()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send short recordings, and as fast as the server takes them."""
    monkeypatch.setattr(smoke, "utterances", lambda kind_s: (Utterance(TEXT, LOUD),))
    monkeypatch.setattr(smoke, "QUIET_S", 1)

    def at_once(endpoint: Endpoint, pcm: bytes, within_s: float, **_: Any) -> Stream:
        return transcribe(endpoint, pcm, within_s, after_s=0, real_time=False)

    monkeypatch.setattr(smoke, "transcribe", at_once)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Notes]:
    """Run one smoke test against a server, and return what it noted."""

    def run(name: str, scripted: Scripted, **more: Any) -> Notes:
        notes = Notes()
        with running(scripted) as opened:
            if scripted.keeps_working:
                # The live client has left as well, and may be counted for a moment longer.
                monkeypatch.setattr(smoke, "FREE_S", 2)
            known = {"listener": opened.service, "edge": opened.edge, "key": "k", "notes": notes}
            test = getattr(smoke, name)
            wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
            test(**{arg: value for arg, value in (known | more).items() if arg in wanted})
        return notes

    return run


Passes = Callable[..., Notes]
MODELS = {n: SimpleNamespace(name=n, service="scripted") for n in ("tiny", "base", "small")}
HOUSE = SimpleNamespace(models=MODELS)
ALIAS = SimpleNamespace(name="transcribe", members=("tiny",))


def test_a_good_server_passes(passes: Passes) -> None:
    good = Scripted()
    notes = passes("test_a_file_of_speech_becomes_text", good)
    assert (notes.figures[0].median, notes.remarks) == (0, [])
    assert passes("test_a_live_stream_becomes_text", good).figures[0].unit == "ms"
    passes("test_silence_yields_no_text", good)
    passes(NO_SOUND, good)
    passes(LANGUAGES, good)
    passes(LANGUAGES, Scripted(multilingual=False))
    passes(LEAVES, good)
    passes("test_the_gateway_transcribes_speech", good, transcriber=ALIAS, gateway="llm.lan")


def test_a_house_that_is_used_meanwhile_passes(passes: Passes) -> None:
    passes(LEAVES, Scripted(active=1, live=2))


def test_a_late_text_is_remarked_upon_with_the_choice(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smoke, "SOON_MS", -1e6)
    (remark,) = passes("test_a_live_stream_becomes_text", Scripted()).remarks
    assert remark.endswith("this model was chosen as the only one")


def test_a_fast_machine_is_not_remarked_upon(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough that also a busy machine is fast.
    long = Utterance(TEXT, LOUD * 10)
    monkeypatch.setattr(smoke, "utterances", lambda _: (long,))
    notes = passes("test_it_keeps_up_with_speech_and_stays_healthy", Scripted(), house=HOUSE)
    assert [figure.name for figure in notes.figures] == [
        "real-time factor of scripted",
        "health of scripted while it listens",
    ]
    assert notes.remarks == []


def test_a_slow_machine_gets_advice_on_its_model(passes: Passes) -> None:
    slow = Scripted(rtf=0.6)
    notes = passes("test_it_keeps_up_with_speech_and_stays_healthy", slow, house=HOUSE)
    (remark,) = notes.remarks
    assert remark.startswith("scripted: small takes ")
    # Which of them depends on how busy this machine is.
    assert "members: [base]" in remark or "members: [tiny]" in remark


def test_made_up_weights_are_a_remark_and_no_failure(passes: Passes) -> None:
    notes = passes("test_a_file_of_speech_becomes_text", Scripted(text="xyzzy plugh"))
    assert notes.figures[0].median == 100
    assert "hardly a word" in notes.remarks[0]


@pytest.mark.parametrize(
    ("name", "flaw", "problem"),
    [
        ("test_a_file_of_speech_becomes_text", {"text": " "}, "the text is empty"),
        ("test_a_file_of_speech_becomes_text", {"backwards": True}, "not in order"),
        ("test_a_live_stream_becomes_text", {"text": ""}, "all finals are empty"),
        ("test_a_live_stream_becomes_text", {"live_flaw": "late"}, "0.1 to 99 s of"),
        ("test_a_live_stream_becomes_text", {"live_flaw": "twice"}, "speech_ended final final"),
        ("test_a_live_stream_becomes_text", {"live_flaw": "endless"}, "speech_started final"),
        (
            "test_silence_yields_no_text",
            {"of_silence": "Thank you."},
            "silence became 10 characters",
        ),
        (
            "test_a_file_without_sound_is_rejected_as_openai_does",
            {"takes_pictures": True},
            "HTTP 200",
        ),
        (
            LEAVES,
            {"keeps_working": True},
            "it works on 1 requests more 2 s after",
        ),
        (LANGUAGES, {"language": "english"}, "english"),
        (LANGUAGES, {"text": ""}, "the text is empty"),
        (LANGUAGES, {"multilingual": False, "languages_status": 200}, "HTTP 200"),
        ("test_the_gateway_transcribes_speech", {"answered_by": "gpt"}, "gpt"),
        ("test_the_gateway_transcribes_speech", {"text": ""}, "the text is empty"),
    ],
)
def test_each_flaw_is_seen(passes: Passes, name: str, flaw: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        passes(name, Scripted(**flaw), transcriber=ALIAS, gateway="llm.lan")


def test_a_form_holds_the_file_and_the_fields() -> None:
    body, headers = smoke.form("speech.wav", b"RIFF\0\xff\r\n", model="whisper-1", stream="true")
    kind = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
    message = message_from_bytes(kind + body, policy=policy.HTTP)
    parts = {
        str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
        for part in message.iter_parts()
    }
    assert parts == {"model": b"whisper-1", "stream": b"true", "file": b"RIFF\0\xff\r\n"}
