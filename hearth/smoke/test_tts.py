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
from hearth.smoke.criteria import judge_first_sound
from hearth.smoke.plugin import Notes

pytestmark = pytest.mark.home

# Three are enough for a median, and a fast machine measures more; `hearth bench tts` takes longer.
LEAST_PHRASES, MOST_PHRASES, PHRASES_S = 3, 10, 5.0
HEALTH_CHECKS = 5
# Streamed and whole speech have the same pieces; real weights vary their lengths a little.
LENGTHS_AGREE = 0.05
# A server stops within 100 ms; on a busy machine it may take longer to report that.
FREE_S = 5.0
ASK_S = 5.0
WEBSOCKET_S = 60.0


@pytest.fixture
def client(speech_server: Service, edge: Edge, key: str) -> TtsClient:
    """A client that reaches the speech server as a device does."""
    return TtsClient(edge.endpoint(speech_server.sites[0].fqdn, key, call_s=60))


def test_speech_starts_early(speech_server: Service, client: TtsClient, notes: Notes) -> None:
    texts, about = Texts(), speech_server.name
    phrases, fresh, again = list[str](), list[Speech](), list[float]()
    with client.open() as connection:
        # The first phrase pays for connection and voice, which belong to no figure.
        client.speak(connection, texts.phrase(), until_sound=True)
        wait_until_idle(speech_server)
        deadline = time.monotonic() + PHRASES_S
        while len(fresh) < LEAST_PHRASES or (
            len(fresh) < MOST_PHRASES and time.monotonic() < deadline
        ):
            phrases.append(texts.phrase())
            fresh.append(client.speak(connection, phrases[-1]))
        for phrase in phrases:
            again.append(client.speak(connection, phrase, until_sound=True).first_sound.at_s)
            wait_until_idle(speech_server)
    whole, first = [one.last_s for one in fresh], [one.first_sound.at_s for one in fresh]
    rtf = [one.last_s / one.audio_s for one in fresh]
    notes.figure(f"whole phrase of {about}", "ms", [1000 * s for s in whole])
    notes.figure(f"real-time factor of {about}", "", rtf, "seconds of work per second of sound")
    notes.figure(f"first sound of {about}", "ms", [1000 * s for s in first], "fresh phrases")
    notes.figure(f"first sound of {about} again", "ms", [1000 * s for s in again], "repeated")
    for what, times in (("fresh phrases", first), ("repeated phrases", again)):
        grade, line = judge_first_sound(statistics.median(whole), statistics.median(times))
        if grade == "slow":
            notes.remark(f"{about}, {what}: {line}")
        assert grade != "failed", f"{about}, {what}: {line}"


def wait_until_idle(service: Service) -> None:
    """Return when the server has no request, so that the next one is alone."""
    deadline = time.monotonic() + FREE_S
    while (now := _requests(service)) > 0:
        assert time.monotonic() < deadline, (
            f"{service.name} still works on {now} requests {FREE_S:g} s after all clients left"
        )
        time.sleep(0.05)


def _requests(service: Service) -> int:
    status = get_json(f"{service.url}/status", ASK_S)
    return int(status["active"]) + int(status["waiting"])


def _left(service: Service) -> int:
    return int(get_json(f"{service.url}/status", ASK_S)["requests"]["left"])


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


def test_two_requests_at_once_both_start_before_either_ends(
    speech_server: Service, client: TtsClient, notes: Notes
) -> None:
    texts = Texts()
    both = client.speak_together([texts.phrase(), texts.phrase()])
    first = [one.first_sound.at_s for one in both]
    about = f"first sound of {speech_server.name}, two at once"
    notes.figure(about, "ms", [1000 * s for s in first])
    ended = min(one.last_s for one in both)
    assert max(first) < ended, (
        f"one started after {max(first):.2f} s, when the other had ended ({ended:.2f} s)"
    )


def test_the_server_is_healthy_while_it_speaks(
    speech_server: Service, client: TtsClient, notes: Notes
) -> None:
    waits, text = [], Texts().long(LONG_CHARACTERS)
    with client.open() as connection, client.stream(connection, text) as chunks:
        # The pause is shorter than a chunk's sound, so the server never waits for this reader.
        for _ in islice(chunks, HEALTH_CHECKS):
            time.sleep(0.1)
            result = health.check(speech_server)
            assert result.healthy, result.reason
            waits.append(1000 * result.seconds)
        assert _requests(speech_server) > 0, "the speech ended before the last health check"
    notes.figure(f"health of {speech_server.name} while it speaks", "ms", waits)


def test_a_client_that_leaves_frees_its_work(
    speech_server: Service, client: TtsClient, notes: Notes
) -> None:
    wait_until_idle(speech_server)
    before = _left(speech_server)
    with client.open() as connection:
        # Longer than what sockets and proxies hold, so that the server must notice.
        client.speak(connection, Texts().long(LONG_CHARACTERS), until_sound=True)
    left = time.perf_counter()
    wait_until_idle(speech_server)
    notes.figure(f"work of {speech_server.name} freed", "ms", [1000 * (time.perf_counter() - left)])
    gone = _left(speech_server) - before
    assert gone == 1, f"{gone} requests are counted as left, not 1: was it spoken to the end?"


def test_a_websocket_speaks_while_text_arrives(
    speech_server: Service, edge: Edge, key: str
) -> None:
    kinds: list[str] = []
    sound_bytes = 0
    with _open(speech_server, edge, key) as socket:
        for word in ("This ", "is ", "said ", "while ", "it ", "is ", "written."):
            socket.send(json.dumps({"type": "text", "text": word}))
        socket.send(json.dumps({"type": "end"}))
        deadline = time.monotonic() + WEBSOCKET_S
        while not kinds or kinds[-1] not in ("done", "error"):
            assert time.monotonic() < deadline, f"no end after {WEBSOCKET_S:g} s: {kinds}"
            message = socket.recv(timeout=WEBSOCKET_S)
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
    return opened(edge.endpoint(service.sites[0].fqdn, key), path, WEBSOCKET_S)
