"""Recordings: members, responses, disconnects, and the memory of the gateway."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .chats import disconnect
from .conftest import Gateway
from .transcription_upstream import SUBTITLES, TranscriptionUpstream
from .upstream import Upstream

PATHS = ("/v1/audio/transcriptions", "/v1/audio/translations")
AUDIO = bytes(range(256)) * 500


@pytest.fixture
def transcriber(upstream: Upstream) -> Iterator[TranscriptionUpstream]:
    upstream.transcription.go_on.set()
    yield upstream.transcription
    upstream.transcription.go_on.set()


def send(client: httpx.Client, model: str, path: str = PATHS[0], **fields: Any) -> httpx.Response:
    files = {"file": ("speech.wav", AUDIO, "audio/wav")}
    return client.post(path, data={"model": model, **fields}, files=files)


@pytest.mark.parametrize("path", PATHS)
def test_a_recording_becomes_text(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream, path: str
) -> None:
    seen = len(gateway.lines())
    answer = send(owner, "hear", path, language="de", prompt="Grüße, Welt")
    assert (answer.status_code, answer.json()) == (200, {"text": "one two"})
    assert answer.headers["x-hearth-model"] == "ear"
    recording = transcriber.recordings[-1]
    assert recording.kind == path.rpartition("/")[2]
    assert recording.fields == {"model": "ear-there", "language": "de", "prompt": "Grüße, Welt"}
    assert recording.sha256 == hashlib.sha256(AUDIO).hexdigest()
    # No key is sent to a server of the house: the network link authenticates the gateway.
    assert "authorization" not in recording.headers
    line = gateway.line_after(seen, "hear", path)
    assert (line["consumer"], line["alias"], line["member"]) == ("owner", '"hear"', "ear")
    assert (line["status"], line["end"], line["path"]) == ("200", "done", path)
    assert 0 < int(line["first_ms"]) <= int(line["total_ms"])


def test_subtitles_are_unchanged(owner: httpx.Client, transcriber: TranscriptionUpstream) -> None:
    answer = send(owner, "hear", response_format="srt")
    assert answer.text == SUBTITLES
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("requested", "named"), [("chosen-ear", "ear"), ("forged-ear", "forged-ear")]
)
def test_the_model_that_the_server_chose_is_named(
    owner: httpx.Client, gateway: Gateway, requested: str, named: str
) -> None:
    seen = len(gateway.lines())
    assert send(owner, requested).headers.get_list("x-hearth-model") == [named]
    assert gateway.line_after(seen, requested)["member"] == named


def test_text_is_streamed(owner: httpx.Client, transcriber: TranscriptionUpstream) -> None:
    transcriber.go_on.clear()
    files = {"file": ("speech.wav", AUDIO, "audio/wav")}
    data = {"model": "hear", "stream": "true"}
    with owner.stream("POST", PATHS[0], data=data, files=files) as answer:
        pieces = answer.iter_lines()
        # The server sends the rest only after this.
        assert json.loads(next(pieces).removeprefix("data: "))["delta"] == "one "
        transcriber.go_on.set()
        rest = [json.loads(line[6:]) for line in pieces if line.startswith("data: ")]
    assert [event.get("text") for event in rest] == [None, "one two"]
    assert answer.headers["x-hearth-model"] == "ear"


# A member rests after a failure, so each case has its own member.
@pytest.mark.parametrize("first", ["unheard", "500-ear", "404-ear", "429-ear"])
def test_the_next_member_is_tried(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream, first: str
) -> None:
    seen, before = len(gateway.lines()), len(transcriber.requests_for(first))
    answer = send(owner, f"by-{first}")
    assert (answer.json(), answer.headers["x-hearth-model"]) == ({"text": "one two"}, "ear")
    assert len(transcriber.requests_for(first)) == before + (first != "unheard")
    assert transcriber.recordings[-1].sha256 == hashlib.sha256(AUDIO).hexdigest()
    assert gateway.line_after(seen, f"by-{first}")["tried"].startswith(f"{first}:")


@pytest.mark.parametrize("fault", ["garbage", "empty", "inside"])
@pytest.mark.parametrize("stream", ["false", "true"])
def test_a_200_without_a_text_is_a_failure(
    owner: httpx.Client, transcriber: TranscriptionUpstream, fault: str, stream: str
) -> None:
    answer = send(owner, f"by-{fault}-ear", stream=stream)
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "ear")
    assert answer.text.count("one two") == 1


def test_a_slow_text_has_the_deadline_of_a_first_token(
    owner: httpx.Client, transcriber: TranscriptionUpstream
) -> None:
    answer = send(owner, "by-drip-ear", stream="true")
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "ear")


def test_a_member_without_the_model_rests(
    owner: httpx.Client, transcriber: TranscriptionUpstream
) -> None:
    send(owner, "by-404-ear")
    before = len(transcriber.requests_for("404-ear"))
    assert send(owner, "by-404-ear").headers["x-hearth-model"] == "ear"
    assert len(transcriber.requests_for("404-ear")) == before


def test_a_400_is_not_retried(owner: httpx.Client, transcriber: TranscriptionUpstream) -> None:
    before = len(transcriber.requests_for("ear"))
    answer = send(owner, "by-400-ear")
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "fault 400")
    assert len(transcriber.requests_for("ear")) == before


def test_retry_after_is_forwarded(owner: httpx.Client, transcriber: TranscriptionUpstream) -> None:
    answer = send(owner, "429-ear")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


def test_a_timeout_tries_another_server_but_not_the_same_one(
    owner: httpx.Client, transcriber: TranscriptionUpstream
) -> None:
    answer = send(owner, "impatient")
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "twin")
    before = len(transcriber.requests_for("ear"))
    answer = send(owner, "patient")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "total_timeout")
    assert len(transcriber.requests_for("ear")) == before


def test_disconnecting_frees_the_server(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream
) -> None:
    transcriber.left.clear()
    files = {"file": ("speech.wav", AUDIO, "audio/wav")}
    seen, before = len(gateway.lines()), len(transcriber.requests_for("mute-ear"))
    request = owner.build_request("POST", PATHS[0], data={"model": "mute-ear"}, files=files)
    disconnect(request, lambda: len(transcriber.requests_for("mute-ear")) > before)
    assert transcriber.was_disconnected("mute-ear")
    line = gateway.line_after(seen, "mute-ear")
    assert (line["status"], line["end"]) == ("499", "left")


def test_disconnecting_during_the_text_frees_the_server(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream
) -> None:
    transcriber.left.clear()
    transcriber.go_on.clear()
    seen = len(gateway.lines())
    files = {"file": ("speech.wav", AUDIO, "audio/wav")}
    data = {"model": "hear", "stream": "true"}
    with owner.stream("POST", PATHS[0], data=data, files=files) as answer:
        next(answer.iter_lines())
    assert transcriber.was_disconnected("ear")
    line = gateway.line_after(seen, "hear")
    assert (line["status"], line["end"]) == ("200", "left")


@pytest.mark.parametrize("model", ["cut-ear", "end-ear"])
def test_an_interrupted_stream_ends_with_an_error(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream, model: str
) -> None:
    seen = len(gateway.lines())
    answer = send(owner, model, stream="true")
    events = [json.loads(e[6:]) for e in answer.text.split("\n\n") if e.startswith("data: ")]
    assert events[0]["delta"] == "one "
    assert events[-1]["error"]["code"] == "broken_off"
    assert gateway.line_after(seen, model)["end"] == "broken_off"


def test_an_error_event_ends_the_stream_as_broken_off(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream
) -> None:
    seen = len(gateway.lines())
    answer = send(owner, "failing-ear", stream="true")
    events = [json.loads(e[6:]) for e in answer.text.split("\n\n") if e.startswith("data: ")]
    # The client gets the same error, once.
    assert [event["type"] for event in events] == ["transcript.text.delta", "error"]
    assert events[-1]["error"]["message"] == "the card is gone"
    line = gateway.line_after(seen, "failing-ear")
    assert (line["status"], line["end"]) == ("200", "broken_off")


def test_keys_limit_the_names_of_transcription_models(
    gateway: Gateway, guest: httpx.Client, transcriber: TranscriptionUpstream
) -> None:
    before = len(transcriber.recordings)
    assert send(guest, "ear").status_code == 403
    assert send(guest, "").status_code == 400
    with httpx.Client(base_url=gateway.url, trust_env=False) as nobody:
        assert send(nobody, "hear").status_code == 401
    assert guest.get(PATHS[0]).status_code == 405
    assert len(transcriber.recordings) == before
    assert send(guest, "hear").status_code == 200
    names = {entry["id"] for entry in guest.get("/v1/models").json()["data"]}
    assert names == {"fast", "hear", "helper"}


def test_chat_and_transcription_models_have_separate_paths(
    owner: httpx.Client, transcriber: TranscriptionUpstream
) -> None:
    before = len(transcriber.recordings)
    answer = send(owner, "fast")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "wrong_path")
    chat = {"model": "hear", "messages": [{"role": "user", "content": "hi"}]}
    answer = owner.post("/v1/chat/completions", json=chat)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "wrong_path")
    assert len(transcriber.recordings) == before


def test_invalid_requests_get_openai_errors(owner: httpx.Client) -> None:
    for answer in (
        owner.post(PATHS[0], json={"model": "hear"}),
        owner.post(PATHS[0], data={"model": "hear"}),
        owner.post(PATHS[0], content=b"sound", headers={"content-type": "audio/wav"}),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"


def _resident(gateway: Gateway) -> int:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_a_long_recording_is_not_held_in_memory(
    owner: httpx.Client, gateway: Gateway, transcriber: TranscriptionUpstream, tmp_path: Path
) -> None:
    size = 200 * 1024 * 1024
    long = tmp_path / "long.wav"
    with long.open("wb") as file:
        file.truncate(size)
    send(owner, "hear")  # the first recording also loads libraries
    before = _resident(gateway)
    with long.open("rb") as file:
        answer = owner.post(
            PATHS[0], data={"model": "hear"}, files={"file": ("long.wav", file)}, timeout=60
        )
    assert answer.status_code == 200
    assert transcriber.recordings[-1].size == size
    assert _resident(gateway) - before < 24 * 1024 * 1024
