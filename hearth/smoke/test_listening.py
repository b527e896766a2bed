"""What is said becomes text: by file, by socket, by satellite, through the gateway; silence none.

Made-up weights write words that nobody said, so what must hold for any model fails the house, and
how many words were understood is a figure. The recordings are the benchmarks' (hearth/bench/stt).
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from hearth.catalogue.house import Alias, House, Service
from hearth.clients import ClientError
from hearth.clients.edge import Answer, Edge, sse
from hearth.clients.recordings import BYTES, RATE, utterances, wav
from hearth.clients.stt import Transcript, background_noise, open_stream, transcribe
from hearth.clients.tts import timed_json
from hearth.clients.word_error_rate import NOT_UNDERSTOOD, error_rate
from hearth.smoke import hosts
from hearth.smoke.criteria import advice_on_speed, stream_violations
from hearth.smoke.plugin import Notes, NotMeasured
from hearth.smoke.satellite import DESCRIBE, converse, speech

pytestmark = pytest.mark.home

PATH = "/v1/audio/transcriptions"
WITHIN_S = 120.0
ASK_S = 5.0
FREE_S = 10.0
NOBODY = 65534
# A picture's first bytes, under a name that promises sound.
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(2000)
QUIET_S = 4
LEAD_S = 0.5


@pytest.fixture
def port(listener: Service) -> int:
    """The port that satellites call; it is published, though to nobody as shipped."""
    if not listener.publish_tcp:
        raise NotMeasured(f"{listener.name} has no port for satellites")
    return next(iter(listener.publish_tcp))


def form(name: str, sound: bytes, **fields: str) -> tuple[bytes, dict[str, str]]:
    """Return a multipart form with a file, and the headers that describe it."""
    # httpx only encodes the form; nothing is sent.
    request = httpx.Request("POST", "http://form/", data=fields, files={"file": (name, sound)})
    return request.read(), {"Content-Type": request.headers["content-type"]}


def write_down(
    edge: Edge, fqdn: str, key: str | None, sound: bytes, name: str = "speech.wav", **fields: str
) -> Answer:
    """Send a file to a site."""
    asked = {"model": "whisper-1"} | fields
    body, kind = form(name, sound, **asked)
    return edge.request(fqdn, PATH, key=key, send=body, headers=kind, within_s=WITHIN_S)


def status_of(service: Service) -> dict[str, object]:
    said, _ = timed_json(service.url, "/status", ASK_S)
    return dict(said)


def test_a_spoken_file_becomes_text(listener: Service, edge: Edge, key: str, notes: Notes) -> None:
    texts: list[tuple[str, str]] = []
    for spoken in utterances(10):
        answer = write_down(
            edge, listener.publish[0].fqdn, key, wav(spoken.pcm), response_format="verbose_json"
        )
        assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:200]}"
        said = answer.json()
        assert said["text"].strip(), "the text is empty"
        assert said["duration"] == pytest.approx(spoken.seconds, abs=0.1)
        times = [time for part in said["segments"] for time in (part["start"], part["end"])]
        assert times == sorted(times), f"the segments are not in order: {times}"
        assert 0 <= times[0] <= times[-1] <= said["duration"] + 0.01
        texts.append((spoken.text, said["text"]))
    note_words(listener.name, texts, notes)


def note_words(about: str, texts: list[tuple[str, str]], notes: Notes) -> None:
    """Write down how many words were wrong; a model that understands none is remarked upon."""
    rate = error_rate(texts)
    assert rate is not None
    notes.figure(f"words that {about} got wrong", "%", [100 * rate])
    if rate > NOT_UNDERSTOOD:
        notes.remark(
            f"{about} understood hardly a word of clear speech: its weights are made up, or no "
            "model for English"
        )


def test_it_keeps_up_with_speech_and_answers_meanwhile(
    listener: Service, edge: Edge, key: str, house: House, notes: Notes
) -> None:
    (spoken,) = utterances(30)
    fqdn, sound = listener.publish[0].fqdn, wav(spoken.pcm)
    # Whatever is paid once, by a model that rested, is no part of a figure.
    write_down(edge, fqdn, key, wav(utterances(1)[0].pcm))
    rtf, waited = [], []
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            began = time.perf_counter()
            writing = pool.submit(write_down, edge, fqdn, key, sound)
            while not writing.done():
                health = listener.health
                said, took_s = timed_json(listener.url, health.path, health.within_s)
                assert said["status"] == "ok", said
                waited.append(1000 * took_s)
                time.sleep(0.05)
            assert writing.result().status == 200, writing.result().text[:200]
            rtf.append((time.perf_counter() - began) / spoken.seconds)
    model = str(status_of(listener)["model"])
    about = f"real-time factor of {listener.name}"
    notes.figure(about, "", rtf, f"{model}: seconds of work for one of speech")
    notes.figure(f"health of {listener.name} while it listens", "ms", waited)
    known = [m.name for m in house.models.values() if m.service == listener.name]
    if advice := advice_on_speed(min(rtf), model, known):
        notes.remark(f"{listener.name}: {advice}")


def test_a_talker_is_heard_while_speaking(
    listener: Service, edge: Edge, key: str, notes: Notes
) -> None:
    waits: list[float] = []
    for spoken in utterances(3):
        with open_stream(edge, listener.publish[0].fqdn, key, ASK_S) as call:
            came = transcribe(call, background_noise(LEAD_S) + spoken.pcm, WITHIN_S)
        kept(came)
        finals = came.of("final")
        assert finals, "nothing was heard"
        assert any(str(event.payload["text"]).strip() for event in finals), "all finals are empty"
        waits.append(1000 * (finals[-1].at_s - came.started - LEAD_S - spoken.seconds))
    notes.figure(
        f"end of speech to text of {listener.name}",
        "ms",
        waits,
        "half a second of it is the wait for more; 3 s of speech",
    )


def kept(came: Transcript) -> None:
    """Hold a talk to what its protocol promises."""
    found = stream_violations(came.payloads, came.audio_s)
    assert not found, "; ".join(found)


def test_silence_is_no_text(listener: Service, edge: Edge, key: str) -> None:
    fqdn = listener.publish[0].fqdn
    for quiet in (bytes(QUIET_S * RATE * BYTES), background_noise(QUIET_S)):
        said = write_down(edge, fqdn, key, wav(quiet)).json()
        assert said["text"] == "", f"of silence it wrote {len(said['text'])} characters"
        with open_stream(edge, fqdn, key, ASK_S) as call:
            came = transcribe(call, quiet, WITHIN_S, after_s=0, real_time=False)
        assert [event.kind for event in came.events] == ["ready", "done"]


def test_what_is_no_sound_is_refused_in_openais_shape(
    listener: Service, edge: Edge, key: str
) -> None:
    for sound in (PICTURE, b""):
        answer = write_down(edge, listener.publish[0].fqdn, key, sound)
        assert answer.status == 400, f"HTTP {answer.status}: {answer.text[:200]}"
        assert answer.json()["error"]["message"]


def test_nobody_is_heard_without_a_key(listener: Service, edge: Edge) -> None:
    fqdn = listener.publish[0].fqdn
    for wrong in (None, "sk-wrong"):
        answer = write_down(edge, fqdn, wrong, wav(b""))
        assert answer.status == 401, f"HTTP {answer.status}"
        with pytest.raises(ClientError, match="HTTP 401"), open_stream(edge, fqdn, wrong, ASK_S):
            pass


def test_who_leaves_frees_the_work(listener: Service, edge: Edge, key: str, notes: Notes) -> None:
    fqdn = listener.publish[0].fqdn
    body, kind = form("long.wav", wav(utterances(30)[0].pcm * 8), model="whisper-1", stream="true")
    # In a house that is used, others may be listened to as well.
    files, live = served(listener)
    with edge.stream(fqdn, PATH, WITHIN_S, key, body, kind) as (answer, chunks):
        assert answer.status_code == 200, b"".join(chunks)[:200]
        assert next(sse(chunks), None), "it ended before its first words"
        busy, _ = served(listener)
    left = time.perf_counter()
    assert busy > files, "it was written down already"
    with open_stream(edge, fqdn, key, ASK_S) as call:
        call.recv(timeout=ASK_S)
        assert served(listener)[1] > live, "a talker is not counted"
    settled(listener, files + live)
    notes.figure(f"work of {listener.name} freed", "ms", [1000 * (time.perf_counter() - left)])


def served(service: Service) -> tuple[int, int]:
    """Return how many files are read or wait for it, and how many talk."""
    said: dict[str, Any] = status_of(service)
    return said["files"]["active"] + said["files"]["waiting"], said["live"]


def settled(service: Service, before: int) -> None:
    """Return when nobody more is listened to than before."""
    deadline = time.monotonic() + FREE_S
    while (busy := sum(served(service))) > before:
        late = f"{busy} are served {FREE_S:g} s after all have left, {before} were before"
        assert time.monotonic() < deadline, late
        time.sleep(0.05)


def test_a_satellite_gets_a_description_of_the_model(listener: Service, port: int) -> None:
    # From the machine itself, whose root may connect to every instance.
    (info,) = converse(listener.address or "", port, [DESCRIBE], "info", WITHIN_S)
    (program,) = info.events[-1].data["asr"]
    (model,) = program["models"]
    assert model["name"] == status_of(listener)["model"]
    assert model["installed"]
    assert "en" in model["languages"]


def test_a_satellite_gets_the_text_of_speech(listener: Service, port: int, notes: Notes) -> None:
    # A satellite sends on until it notices that nobody speaks any more.
    requests = [
        speech(background_noise(LEAD_S) + utterances(3)[0].pcm + background_noise(0.7)),
        speech(background_noise(QUIET_S)),
    ]
    spoken, quiet = converse(listener.address or "", port, requests, "transcript-stop", WITHIN_S)
    about = "3 s of speech, sent at once"
    notes.figure(f"text of {listener.name} for a satellite", "ms", [1000 * spoken.seconds], about)
    assert [event.type for event in spoken.events][-2:] == ["transcript", "transcript-stop"]
    assert spoken.events[-2].data["text"].strip(), "the text is empty"
    assert quiet.events[-2].data["text"] == ""


def test_nobody_else_on_the_machine_reaches_the_satellites_port(
    listener: Service, port: int
) -> None:
    (tried,) = hosts.connections(None, [(listener.address or "", port)], user=NOBODY)
    assert tried.outcome == "rejected", str(tried)


def test_the_gateway_has_speech_written_down(
    transcriber: Alias, gateway: str, edge: Edge, key: str
) -> None:
    spoken = utterances(3)[0]
    answer = write_down(edge, gateway, key, wav(spoken.pcm), model=transcriber.name)
    assert answer.status == 200, f"HTTP {answer.status}: {answer.text[:200]}"
    assert answer.json()["text"].strip(), "the text is empty"
    assert answer.headers.get("x-hearth-model") in transcriber.members
