"""Speech becomes text: from files, streams and satellites, through the gateway; silence does not.

Made-up weights return words at random. What must hold for any model fails the house, and how many
words were right is a figure.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from hearth.catalogue.house import Alias, House, Service
from hearth.clients import ClientError, health
from hearth.clients.endpoints import Answer, Edge, Endpoint, get_json, sse
from hearth.clients.recordings import BYTES, RATE, utterances, wav
from hearth.clients.stats import NOT_UNDERSTOOD, error_rate
from hearth.clients.stt import StreamOptions, background_noise, connected, transcribe
from hearth.smoke.criteria import advice_on_speed, stream_violations
from hearth.smoke.hosts import ask, connections
from hearth.smoke.plugin import Notes, NotMeasured, twice

pytestmark = pytest.mark.home

PATH = "/v1/audio/transcriptions"
WITHIN_S = 120.0
ASK_S = 5.0
FREE_S = 10.0
UNPRIVILEGED = 65534
# A picture's first bytes, in a file that is named like a sound.
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(2000)
QUIET_S = 4
LEAD_S = 0.5
# What the server's choice of a model aims at.
SOON_MS = 1500
# Not wyoming.audio: importing it warns about audioop, and warnings are errors in the tests.
WYOMING_FORMAT = {"rate": 16_000, "width": 2, "channels": 1}
# 64 ms, the chunk size of Home Assistant.
WYOMING_CHUNK_BYTES = 2048
DESCRIBE = [Event("describe")]


@pytest.fixture
def port(listener: Service) -> int:
    """The port for satellites; as shipped, no address may use it."""
    if not listener.publish_tcp:
        raise NotMeasured(f"{listener.name} has no port for satellites")
    return next(iter(listener.publish_tcp))


def form(name: str, sound: bytes, **fields: str) -> tuple[bytes, dict[str, str]]:
    """Return a multipart form with a file, and the headers that describe it."""
    # httpx only encodes the form; nothing is sent.
    request = httpx.Request("POST", "http://form/", data=fields, files={"file": (name, sound)})
    return request.read(), {"Content-Type": request.headers["content-type"]}


def upload(
    edge: Edge, fqdn: str, key: str | None, sound: bytes, *wanted: int, **fields: str
) -> Answer:
    """Send a file for transcription, and fail unless the status is a wanted one."""
    body, headers = form("speech.wav", sound, **({"model": "whisper-1"} | fields))
    return ask(edge, fqdn, PATH, *wanted, key=key, send=body, headers=headers, within_s=WITHIN_S)


def under(listener: Service, test: str) -> str:
    """Return the conditions of a figure: the model, and what it was given."""
    return f"{status_of(listener)['model']}, {test}"


def status_of(service: Service) -> dict[str, Any]:
    return dict(get_json(f"{service.url}/status", ASK_S))


def test_a_file_of_speech_becomes_text(
    listener: Service, edge: Edge, key: str, notes: Notes
) -> None:
    texts: list[tuple[str, str]] = []
    fqdn, kind = listener.sites[0].fqdn, "verbose_json"
    for spoken in utterances(10):
        result = upload(edge, fqdn, key, wav(spoken.pcm), response_format=kind).json()
        assert result["text"].strip(), "the text is empty"
        assert result["duration"] == pytest.approx(spoken.seconds, abs=0.1)
        times = [time for part in result["segments"] for time in (part["start"], part["end"])]
        assert times == sorted(times), f"the segments are not in order: {times}"
        assert 0 <= times[0] <= times[-1] <= result["duration"] + 0.01
        texts.append((spoken.text, result["text"]))
    rate = error_rate(texts)
    assert rate is not None
    conditions = under(listener, "10 s of speech")
    notes.figure(f"word error rate of {listener.name}", "%", [100 * rate], conditions=conditions)
    if rate > NOT_UNDERSTOOD:
        notes.remark(
            f"{listener.name} understood hardly a word of clear speech: its weights are made up, "
            "or its model is not for English"
        )


def test_other_languages_than_english_are_accepted(listener: Service, edge: Edge, key: str) -> None:
    fqdn, sound = listener.sites[0].fqdn, wav(utterances(3)[0].pcm)
    if status_of(listener)["multilingual"]:
        fields = {"language": "de", "response_format": "verbose_json"}
        result = upload(edge, fqdn, key, sound, **fields).json()
        assert result["language"] == "german"
        assert result["text"].strip(), "the text is empty"
    else:
        error = upload(edge, fqdn, key, sound, 400, language="de").json()["error"]
        assert error["code"] == "unsupported_language"


def test_it_keeps_up_with_speech_and_stays_healthy(
    listener: Service, edge: Edge, key: str, house: House, notes: Notes
) -> None:
    (spoken,) = utterances(30)
    fqdn, sound = listener.sites[0].fqdn, wav(spoken.pcm)
    # The first request may have to load the model, which belongs to no figure.
    upload(edge, fqdn, key, wav(utterances(1)[0].pcm))
    waits = []
    with ThreadPoolExecutor(1) as pool:
        start = time.perf_counter()
        uploading = pool.submit(upload, edge, fqdn, key, sound)
        while not uploading.done():
            result = health.check(listener)
            assert result.healthy, result.reason
            waits.append(1000 * result.seconds)
            time.sleep(0.05)
        uploading.result()
        rtf = (time.perf_counter() - start) / spoken.seconds
    model = str(status_of(listener)["model"])
    about = f"{model}: seconds of work per second of speech"
    conditions = under(listener, "30 s of speech")
    notes.figure(f"real-time factor of {listener.name}", "", [rtf], about, conditions)
    notes.figure(f"health of {listener.name} while it listens", "ms", waits)
    known = [m.name for m in house.models.values() if m.service == listener.name]
    if advice := advice_on_speed(rtf, model, known):
        notes.remark(f"{listener.name}: {advice}")


def test_a_live_stream_becomes_text(listener: Service, edge: Edge, key: str, notes: Notes) -> None:
    waits: list[float] = []
    for spoken in utterances(3):
        endpoint = edge.endpoint(listener.sites[0].fqdn, key)
        result = transcribe(endpoint, background_noise(LEAD_S) + spoken.pcm, WITHIN_S)
        found = stream_violations([event.payload for event in result.events], result.audio_s)
        assert not found, "; ".join(found)
        finals = result.of("final")
        assert finals, "there is no final text"
        assert any(str(event.payload["text"]).strip() for event in finals), "all finals are empty"
        waits.append(1000 * (finals[-1].at_s - result.started - LEAD_S - spoken.seconds))
    about = "with the half second of silence that ends it; 3 s of speech"
    conditions = under(listener, "3 s of speech")
    notes.figure(f"end of speech to text of {listener.name}", "ms", waits, about, conditions)
    if min(waits) > SOON_MS:
        reason = status_of(listener)["choice_reason"]
        notes.remark(
            f"{listener.name}: text came {min(waits) / 1000:.1f} s after 3 s of speech, and "
            f"{SOON_MS / 1000:g} s is the aim; this model was chosen as {reason}"
        )


def test_silence_yields_no_text(listener: Service, edge: Edge, key: str) -> None:
    fqdn = listener.sites[0].fqdn
    for quiet in (bytes(QUIET_S * RATE * BYTES), background_noise(QUIET_S)):
        text = upload(edge, fqdn, key, wav(quiet)).json()["text"]
        assert text == "", f"silence became {len(text)} characters"
        endpoint = edge.endpoint(fqdn, key)
        result = transcribe(endpoint, quiet, WITHIN_S, after_s=0, real_time=False)
        assert [event.kind for event in result.events] == ["ready", "done"]


def test_a_file_without_sound_is_rejected_as_openai_does(
    listener: Service, edge: Edge, key: str
) -> None:
    for content in (PICTURE, b""):
        answer = upload(edge, listener.sites[0].fqdn, key, content, 400)
        assert answer.json()["error"]["message"]


def test_transcription_without_a_key_is_rejected(listener: Service, edge: Edge) -> None:
    fqdn = listener.sites[0].fqdn
    for wrong in (None, "sk-wrong"):
        upload(edge, fqdn, wrong, wav(b""), 401)
        with pytest.raises(ClientError, match="HTTP 401"):
            transcribe(edge.endpoint(fqdn, wrong), b"", ASK_S)


def test_a_client_that_leaves_frees_its_work(
    listener: Service, edge: Edge, key: str, notes: Notes
) -> None:
    fqdn, sound = listener.sites[0].fqdn, wav(utterances(30)[0].pcm * 8)
    body, headers = form("long.wav", sound, model="whisper-1", stream="true")

    def attempt() -> None:
        # The house may have other clients meanwhile.
        files, live = load_of(listener)
        with edge.stream(fqdn, PATH, WITHIN_S, key, body, headers) as (answer, chunks):
            assert answer.status_code == 200, b"".join(chunks)[:200]
            assert next(sse(chunks), None), "it ended before its first words"
            busy, _ = load_of(listener)
        left = time.perf_counter()
        assert busy > files, "the file was transcribed already"
        assert asyncio.run(live_streams(listener, edge.endpoint(fqdn, key))) > live, (
            "the stream is not counted"
        )
        deadline = time.monotonic() + FREE_S
        while (now := sum(load_of(listener))) > files + live:
            late = f"it works on {now - files - live} requests more {FREE_S:g} s after one has left"
            assert time.monotonic() < deadline, late
            time.sleep(0.05)
        notes.figure(f"work of {listener.name} freed", "ms", [1000 * (time.perf_counter() - left)])

    twice(attempt)


async def live_streams(service: Service, endpoint: Endpoint) -> int:
    """Return how many streams are open while this one is, too."""
    async with connected(endpoint, StreamOptions(language=None), ASK_S):
        return load_of(service)[1]


def load_of(service: Service) -> tuple[int, int]:
    """Return how many files are transcribed or queued, and how many streams are open."""
    status = status_of(service)
    return status["files"]["active"] + status["files"]["waiting"], status["live"]


def speech(pcm: bytes, language: str = "en") -> list[Event]:
    """Return the request to transcribe 16-bit mono at 16 kHz."""
    chunks = (pcm[at : at + WYOMING_CHUNK_BYTES] for at in range(0, len(pcm), WYOMING_CHUNK_BYTES))
    return [
        Event("transcribe", {"language": language}),
        Event("audio-start", WYOMING_FORMAT),
        *(Event("audio-chunk", WYOMING_FORMAT, chunk) for chunk in chunks),
        Event("audio-stop"),
    ]


def converse(
    address: str, port: int, requests: Sequence[Sequence[Event]], until: str, within_s: float
) -> list[tuple[list[Event], float]]:
    """Send requests over one connection; each is answered up to an event of type `until`.

    Return the events of each answer, and the seconds until the last of them.

    Raises:
        ClientError: the port is closed, the server reports an error or does not speak Wyoming,
            or not everything was answered `within_s` seconds.
    """

    async def exchange() -> list[tuple[list[Event], float]]:
        async with asyncio.timeout(within_s), AsyncTcpClient(address, port) as client:
            return [await _request(client, request, until) for request in requests]

    try:
        return asyncio.run(exchange())
    except TimeoutError:
        text = f"no complete answer in {within_s:g} s"
    except (ClientError, OSError) as error:
        text = str(error) or type(error).__name__
    except (EOFError, ValueError, KeyError, TypeError, AttributeError):
        text = "it closed the connection, or does not speak Wyoming"
    raise ClientError(f"{address} port {port}: {text}")


async def _request(
    client: AsyncTcpClient, request: Sequence[Event], until: str
) -> tuple[list[Event], float]:
    start, events = time.perf_counter(), list[Event]()
    for event in request:
        await client.write_event(event)
    while not events or events[-1].type != until:
        received = await client.read_event()
        if received is None:
            raise EOFError
        if received.type == "error":
            raise ClientError(str(received.data.get("text")))
        events.append(received)
    return events, time.perf_counter() - start


def test_a_satellite_gets_a_description_of_the_model(listener: Service, port: int) -> None:
    # From the machine itself, whose root may connect to every instance.
    ((events, _),) = converse(listener.address or "", port, [DESCRIBE], "info", WITHIN_S)
    (program,) = events[-1].data["asr"]
    (model,) = program["models"]
    assert model["name"] == status_of(listener)["model"]
    assert model["installed"]
    assert "en" in model["languages"]


def test_a_satellite_gets_the_text_of_speech(listener: Service, port: int, notes: Notes) -> None:
    # A satellite continues to send until it notices the end of speech.
    sound = background_noise(LEAD_S) + utterances(3)[0].pcm + background_noise(0.7)
    requests = [speech(sound), speech(background_noise(QUIET_S))]
    answers = converse(listener.address or "", port, requests, "transcript-stop", WITHIN_S)
    (spoken, took_s), (quiet, _) = answers
    about = "3 s of speech, sent at once"
    what, conditions = f"text of {listener.name} for a satellite", under(listener, "3 s of speech")
    notes.figure(what, "ms", [1000 * took_s], about, conditions)
    assert [event.type for event in spoken][-2:] == ["transcript", "transcript-stop"]
    assert spoken[-2].data["text"].strip(), "the text is empty"
    assert quiet[-2].data["text"] == ""


def test_only_root_on_the_machine_reaches_the_satellites_port(listener: Service, port: int) -> None:
    (tried,) = connections(None, [(listener.address or "", port)], user=UNPRIVILEGED)
    assert tried.outcome == "rejected", str(tried)


def test_the_gateway_transcribes_speech(
    transcriber: Alias, gateway: str, edge: Edge, key: str
) -> None:
    answer = upload(edge, gateway, key, wav(utterances(3)[0].pcm), model=transcriber.name)
    assert answer.json()["text"].strip(), "the text is empty"
    assert answer.headers.get("x-hearth-model") in transcriber.members
