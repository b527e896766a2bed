"""Speech starts early, also through the reverse proxy, and a client that leaves frees its work."""

import json
import statistics
import time
from contextlib import AbstractContextManager
from itertools import islice

import pytest

from hearth.catalogue.house import Service
from hearth.clients import ClientError, health
from hearth.clients.endpoints import Edge, get_json
from hearth.clients.texts import LONG_CHARACTERS, Texts
from hearth.clients.tts import VOICE, Speech, TtsClient
from hearth.clients.websocket import WebSocket, opened
from hearth.smoke.criteria import LEAST_LIMIT_S, judge_first_sound
from hearth.smoke.hosts import ask
from hearth.smoke.plugin import Notes, NotMeasured, twice

pytestmark = pytest.mark.home

# Three are enough for a median, and a fast machine measures more; `hearth bench tts` takes longer.
LEAST_PHRASES, MOST_PHRASES, PHRASES_S = 3, 10, 5.0
HEALTH_CHECKS = 5
# Streamed and whole speech have the same pieces; real weights vary their lengths a little.
LENGTHS_AGREE = 0.05
# A server stops within 100 ms; on a busy machine it may take longer to report that.
FREE_S = 5.0
ASK_S = 5.0
SPEECH_S = 60.0
FILE_S = 120.0
# Japanese and Mandarin are only looked up: once spoken, their dictionaries stay in memory.
YES = {
    "en-us": "Yes.",
    "en-gb": "Yes.",
    "es": "Sí.",
    "fr-fr": "Oui.",
    "hi": "हाँ।",
    "it": "Sì.",
    "pt-br": "Sim.",
}
LOOKED_UP = {"ja", "zh"}
# The house's own tests have it, and are not counted.
MARK = {"X-Hearth-Canary": "1"}
PCM_BYTES_PER_S = 48_000


@pytest.fixture
def client(speech_server: Service, edge: Edge, key: str) -> TtsClient:
    """A client that reaches the speech server as a device does."""
    return TtsClient(edge.endpoint(speech_server.sites[0].fqdn, key, call_s=60))


def test_speech_starts_early(speech_server: Service, client: TtsClient, notes: Notes) -> None:
    texts, about = Texts(), speech_server.name
    phrases, fresh, again = list[str](), list[Speech](), list[Speech]()
    with client.open() as connection:
        # The first phrase pays for connection and voice, which belong to no figure.
        client.speak(connection, texts.phrase(), until_sound=True)
        wait_until_idle(speech_server)
        before = _ended(speech_server)
        deadline = time.monotonic() + PHRASES_S
        while len(fresh) < LEAST_PHRASES or (
            len(fresh) < MOST_PHRASES and time.monotonic() < deadline
        ):
            phrases.append(texts.phrase())
            fresh.append(client.speak(connection, phrases[-1]))
        for phrase in phrases:
            again.append(client.speak(connection, phrase, until_sound=True))
            wait_until_idle(speech_server)
    whole = [one.last_s for one in fresh]
    first, repeated = ([one.first_sound.at_s for one in each] for each in (fresh, again))
    rtf = [one.last_s / one.audio_s for one in fresh]
    notes.figure(f"whole phrase of {about}", "ms", [1000 * s for s in whole])
    notes.figure(f"real-time factor of {about}", "", rtf, "seconds of work per second of sound")
    notes.figure(f"first sound of {about}", "ms", [1000 * s for s in first], "fresh phrases")
    notes.figure(f"first sound of {about} again", "ms", [1000 * s for s in repeated], "repeated")
    held = [1000 * one.held_s for one in (*fresh, *again)]
    if any(held):
        what = f"first sound of {about} held back so that it does not stall"
        notes.figure(what, "ms", held, "fresh and repeated phrases")
    problems = []
    # A slow machine waits on purpose; only buffering is a failure.
    fresh_s, again_s = (
        statistics.median(one.first_sound.at_s - one.held_s for one in each)
        for each in (fresh, again)
    )
    for what, first_s in (("fresh phrases", fresh_s), ("repeated phrases", again_s)):
        grade, line = judge_first_sound(statistics.median(whole), first_s)
        if grade == "slow":
            notes.remark(f"{about}, {what}: {line}")
        problems += [f"{about}, {what}: {line}"] if grade == "failed" else []
    quick_s = max(LEAST_LIMIT_S, fresh_s / 2)
    if _remembers(speech_server) and again_s > quick_s:
        problems.append(
            f"{about}: a repeated phrase starts after {1000 * again_s:.0f} ms, and a cached "
            f"phrase within {1000 * quick_s:.0f} ms: is the cache lost?"
        )
    if problems:
        unless_busy(speech_server, before, len(fresh) + len(again))
        pytest.fail("; ".join(problems), pytrace=False)


def wait_until_idle(service: Service) -> None:
    """Return when the server has no request, so that the next one is alone."""
    deadline = time.monotonic() + FREE_S
    while (now := _requests(service)) > 0:
        if time.monotonic() > deadline:
            raise NotMeasured(f"the house is busy: {service.name} works on {now} requests")
        time.sleep(0.05)


def unless_busy(service: Service, before: int, ours: int) -> None:
    """Raise `NotMeasured` if others were served as well since `before` requests had ended."""
    others = _ended(service) - before - ours + _requests(service)
    if others > 0:
        raise NotMeasured(f"the house is busy: {service.name} had {others} other requests")


def _requests(service: Service) -> int:
    status = get_json(f"{service.url}/status", ASK_S)
    return int(status["active"]) + int(status["waiting"])


def _ended(service: Service) -> int:
    return sum(get_json(f"{service.url}/status", ASK_S)["requests"].values())


def _left(service: Service) -> int:
    return int(get_json(f"{service.url}/status", ASK_S)["requests"]["left"])


def _remembers(service: Service) -> bool:
    return "first_pieces" in get_json(f"{service.url}/status", ASK_S).get("caches", {})


def test_streamed_and_whole_speech_are_equally_long(client: TtsClient) -> None:
    # One sentence has several pieces, too: the server finds a pause in it.
    phrase = Texts().phrase().partition(".")[0] + "."
    with client.open() as connection:
        streamed, whole = (
            client.speak(connection, phrase, streamed=on).audio_s for on in (True, False)
        )
    assert abs(streamed - whole) <= LENGTHS_AGREE * whole, (
        f"streamed {streamed:.2f} s of sound, whole {whole:.2f} s"
    )


def test_every_language_of_the_voices_is_spoken(
    speech_server: Service, edge: Edge, key: str
) -> None:
    fqdn = speech_server.sites[0].fqdn
    listed = ask(edge, fqdn, "/v1/audio/voices", key=key).json()
    assert listed["unsupported_languages"] == {}
    voices = {voice["language"]: voice["id"] for voice in listed["voices"]}
    assert voices.keys() == YES.keys() | LOOKED_UP
    before, more = _ended(speech_server), {"headers": MARK, "within_s": SPEECH_S}
    for language, text in YES.items():
        body = {"input": text, "voice": voices[language], "response_format": "pcm"}
        answer = ask(edge, fqdn, "/v1/audio/speech", key=key, send=body, **more)
        seconds = len(answer.body) / PCM_BYTES_PER_S
        assert seconds > 0.1, f"{language}: {text!r} is {seconds:.2f} s of sound"
    # A request is counted a moment after its end.
    deadline = time.monotonic() + FREE_S
    while (counted := _ended(speech_server) - before) < len(YES):
        assert time.monotonic() < deadline, (
            f"{len(YES) - counted} of {len(YES)} requests are in no figure: does the reverse "
            "proxy let a device's mark of a test pass?"
        )
        time.sleep(0.05)


def test_two_requests_at_once_both_start_before_either_ends(
    speech_server: Service, client: TtsClient, notes: Notes
) -> None:
    texts, before = Texts(), _ended(speech_server)
    both = client.speak_together([texts.phrase(), texts.phrase()])
    first = [one.first_sound.at_s for one in both]
    about = f"first sound of {speech_server.name}, two at once"
    notes.figure(about, "ms", [1000 * s for s in first])
    ended = min(one.last_s for one in both)
    if max(first) >= ended:
        unless_busy(speech_server, before, len(both))
    assert max(first) < ended, (
        f"one started after {max(first):.2f} s, when the other had ended ({ended:.2f} s)"
    )


def test_the_server_is_healthy_while_it_speaks(
    speech_server: Service, client: TtsClient, notes: Notes
) -> None:
    waits, text = [], Texts().long(LONG_CHARACTERS)
    # Early: a slow machine would hold so long a text back for minutes.
    with client.open() as connection, client.stream(connection, text, early=True) as arriving:
        # The pause is shorter than a chunk's sound, so the server never waits for this reader.
        for _ in islice(arriving.chunks, HEALTH_CHECKS):
            result = health.check(speech_server)
            assert result.healthy, result.reason
            if _requests(speech_server) == 0:
                # A fast card needs less time for all of it than these checks.
                break
            waits.append(1000 * result.seconds)
            time.sleep(0.1)
    if not waits:
        raise NotMeasured(f"{speech_server.name} is healthy, and speaks faster than one check")
    notes.figure(f"health of {speech_server.name} while it speaks", "ms", waits)


def test_a_client_that_leaves_frees_its_work(
    speech_server: Service, client: TtsClient, notes: Notes
) -> None:
    def attempt() -> None:
        # Others may be listening; they may also leave.
        others, before = _requests(speech_server), _left(speech_server)
        with client.open() as connection:
            # Longer than what sockets and proxies hold, so that the server must notice.
            client.speak(connection, Texts().long(LONG_CHARACTERS), until_sound=True, early=True)
        left = time.perf_counter()
        while _requests(speech_server) > others:
            assert time.perf_counter() < left + FREE_S, (
                f"{speech_server.name} still works {FREE_S:g} s after its client left"
            )
            time.sleep(0.05)
        freed_s = time.perf_counter() - left
        assert _left(speech_server) > before, (
            f"{speech_server.name} counts no request as left: was it spoken to the end?"
        )
        notes.figure(f"work of {speech_server.name} freed", "ms", [1000 * freed_s])

    twice(attempt)


def test_a_long_text_becomes_a_file(client: TtsClient) -> None:
    server, path = client.endpoint, "/v1/audio/jobs"
    # A short one proves the path; its length is the unit tests' business.
    made = server.send("POST", path, ASK_S, json={"input": Texts().phrase()})
    assert made.status_code == 202, made.text[:200]
    job = f"{path}/{made.json()['id']}"
    try:
        deadline = time.monotonic() + FILE_S
        while (now := server.send("GET", job, ASK_S).json())["status"] != "done":
            assert now["status"] != "failed", now["error"]
            # While others listen, a file waits.
            assert time.monotonic() < deadline, f"after {FILE_S:g} s it is {now['status']}"
            time.sleep(0.2)
        part = server.send("GET", f"{job}/audio", ASK_S, headers={"Range": "bytes=100-199"})
        assert (part.status_code, len(part.content)) == (206, 100), "a download cannot be continued"
    finally:
        server.send("DELETE", job, ASK_S)


def test_a_websocket_speaks_while_text_arrives(
    speech_server: Service, edge: Edge, key: str
) -> None:
    kinds: list[str] = []
    sound_bytes = 0
    with _open(speech_server, edge, key) as socket:
        for word in ("This ", "is ", "said ", "while ", "it ", "is ", "written."):
            socket.send(json.dumps({"type": "text", "text": word}))
        socket.send(json.dumps({"type": "end"}))
        deadline = time.monotonic() + SPEECH_S
        while not kinds or kinds[-1] not in ("done", "error"):
            assert time.monotonic() < deadline, f"no end after {SPEECH_S:g} s: {kinds}"
            message = socket.recv(timeout=SPEECH_S)
            if isinstance(message, bytes):
                sound_bytes += len(message)
            else:
                kinds.append(json.loads(message)["type"])
    assert (kinds[0], kinds[-1]) == ("ready", "done"), kinds
    assert "piece" in kinds, kinds
    assert sound_bytes > 0, "it sent no sound"


def test_a_websocket_without_a_key_is_rejected(speech_server: Service, edge: Edge) -> None:
    if speech_server.sites[0].auth != "key":
        pytest.skip(f"{speech_server.name} is open on purpose")
    with pytest.raises(ClientError, match="HTTP 401"), _open(speech_server, edge, None):
        pass


def _open(service: Service, edge: Edge, key: str | None) -> AbstractContextManager[WebSocket]:
    path = f"/v1/audio/stream?voice={VOICE}&response_format=pcm"
    return opened(edge.endpoint(service.sites[0].fqdn, key), path, SPEECH_S)
