"""Recordings: who turns them into text, what of the answer arrives, and what it may cost here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import Gateway
from .ears import SUBTITLES, Ears
from .talk import leave
from .upstream import Upstream

PATHS = ("/v1/audio/transcriptions", "/v1/audio/translations")
SOUND = bytes(range(256)) * 500


@pytest.fixture
def ears(upstream: Upstream) -> Iterator[Ears]:
    upstream.ears.go_on.set()
    yield upstream.ears
    upstream.ears.go_on.set()


def send(client: httpx.Client, model: str, path: str = PATHS[0], **fields: Any) -> httpx.Response:
    files = {"file": ("said.wav", SOUND, "audio/wav")}
    return client.post(path, data={"model": model, **fields}, files=files)


@pytest.mark.parametrize("path", PATHS)
def test_a_recording_becomes_text(
    owner: httpx.Client, gateway: Gateway, ears: Ears, path: str
) -> None:
    seen = len(gateway.lines())
    answer = send(owner, "hear", path, language="de", prompt="Grüße, Welt")
    assert (answer.status_code, answer.json()) == (200, {"text": "one two"})
    assert answer.headers["x-hearth-model"] == "ear"
    heard = ears.heard[-1]
    assert heard.kind == path.rpartition("/")[2]
    assert heard.fields == {"model": "ear-there", "language": "de", "prompt": "Grüße, Welt"}
    assert heard.sha256 == hashlib.sha256(SOUND).hexdigest()
    # Nobody's key goes to a server of the house: inside the wire is the authentication.
    assert "authorization" not in heard.headers
    line = gateway.line_after(seen, "hear", path)
    assert (line["consumer"], line["alias"], line["member"]) == ("owner", '"hear"', "ear")
    assert (line["status"], line["end"], line["path"]) == ("200", "done", path)
    assert 0 < int(line["first_ms"]) <= int(line["total_ms"])


def test_subtitles_arrive_as_they_were_made(owner: httpx.Client, ears: Ears) -> None:
    answer = send(owner, "hear", response_format="srt")
    assert answer.text == SUBTITLES
    assert answer.headers["content-type"].startswith("text/plain")


def test_text_comes_as_it_is_heard(owner: httpx.Client, ears: Ears) -> None:
    ears.go_on.clear()
    files = {"file": ("said.wav", SOUND, "audio/wav")}
    data = {"model": "hear", "stream": "true"}
    with owner.stream("POST", PATHS[0], data=data, files=files) as answer:
        pieces = answer.iter_lines()
        # The server says the rest only after this.
        assert json.loads(next(pieces).removeprefix("data: "))["delta"] == "one "
        ears.go_on.set()
        rest = [json.loads(line[6:]) for line in pieces if line.startswith("data: ")]
    assert [event.get("text") for event in rest] == [None, "one two"]
    assert answer.headers["x-hearth-model"] == "ear"


# A member rests after it failed, and so each has one test of its own.
@pytest.mark.parametrize("first", ["unheard", "500-ear", "404-ear", "429-ear"])
def test_the_next_member_is_asked(
    owner: httpx.Client, gateway: Gateway, ears: Ears, first: str
) -> None:
    seen, before = len(gateway.lines()), len(ears.asked(first))
    answer = send(owner, f"by-{first}")
    assert (answer.json(), answer.headers["x-hearth-model"]) == ({"text": "one two"}, "ear")
    assert len(ears.asked(first)) == before + (first != "unheard")
    assert ears.heard[-1].sha256 == hashlib.sha256(SOUND).hexdigest()
    assert gateway.line_after(seen, f"by-{first}")["tried"].startswith(f"{first}:")


@pytest.mark.parametrize("fault", ["garbage", "empty", "inside"])
@pytest.mark.parametrize("stream", ["false", "true"])
def test_a_200_without_a_text_is_no_answer(
    owner: httpx.Client, ears: Ears, fault: str, stream: str
) -> None:
    answer = send(owner, f"by-{fault}-ear", stream=stream)
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "ear")
    assert answer.text.count("one two") == 1


def test_a_text_that_drips_is_waited_for_as_long_as_one_that_does_not_come(
    owner: httpx.Client, ears: Ears
) -> None:
    answer = send(owner, "by-drip-ear", stream="true")
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "ear")


def test_a_recording_is_not_sent_again_and_again_to_who_has_not_that_model(
    owner: httpx.Client, ears: Ears
) -> None:
    send(owner, "by-404-ear")
    before = len(ears.asked("404-ear"))
    assert send(owner, "by-404-ear").headers["x-hearth-model"] == "ear"
    assert len(ears.asked("404-ear")) == before


def test_a_bad_recording_is_bad_for_every_member(owner: httpx.Client, ears: Ears) -> None:
    before = len(ears.asked("ear"))
    answer = send(owner, "by-400-ear")
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "fault 400")
    assert len(ears.asked("ear")) == before


def test_who_is_busy_says_until_when(owner: httpx.Client, ears: Ears) -> None:
    answer = send(owner, "429-ear")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


def test_another_server_is_asked_after_member_s_and_the_same_one_is_not(
    owner: httpx.Client, ears: Ears
) -> None:
    answer = send(owner, "impatient")
    assert (answer.status_code, answer.headers["x-hearth-model"]) == (200, "twin")
    before = len(ears.asked("ear"))
    answer = send(owner, "patient")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "total_timeout")
    assert len(ears.asked("ear")) == before


def test_a_caller_who_leaves_frees_the_server(
    owner: httpx.Client, gateway: Gateway, ears: Ears
) -> None:
    ears.left.clear()
    files = {"file": ("said.wav", SOUND, "audio/wav")}
    seen, before = len(gateway.lines()), len(ears.asked("mute-ear"))
    request = owner.build_request("POST", PATHS[0], data={"model": "mute-ear"}, files=files)
    leave(request, lambda: len(ears.asked("mute-ear")) > before)
    assert ears.was_left("mute-ear")
    line = gateway.line_after(seen, "mute-ear")
    assert (line["status"], line["end"]) == ("499", "left")


def test_a_caller_who_leaves_in_the_middle_of_the_text_frees_it_too(
    owner: httpx.Client, gateway: Gateway, ears: Ears
) -> None:
    ears.left.clear()
    ears.go_on.clear()
    seen = len(gateway.lines())
    files = {"file": ("said.wav", SOUND, "audio/wav")}
    data = {"model": "hear", "stream": "true"}
    with owner.stream("POST", PATHS[0], data=data, files=files) as answer:
        next(answer.iter_lines())
    assert ears.was_left("ear")
    line = gateway.line_after(seen, "hear")
    assert (line["status"], line["end"]) == ("200", "left")


@pytest.mark.parametrize("model", ["cut-ear", "end-ear"])
def test_a_stream_that_breaks_off_ends_in_an_error(
    owner: httpx.Client, gateway: Gateway, ears: Ears, model: str
) -> None:
    seen = len(gateway.lines())
    answer = send(owner, model, stream="true")
    events = [json.loads(e[6:]) for e in answer.text.split("\n\n") if e.startswith("data: ")]
    assert events[0]["delta"] == "one "
    assert events[-1]["error"]["code"] == "broken_off"
    assert gateway.line_after(seen, model)["end"] == "broken_off"


def test_a_stream_that_ends_in_its_server_s_error_has_not_ended_well(
    owner: httpx.Client, gateway: Gateway, ears: Ears
) -> None:
    seen = len(gateway.lines())
    answer = send(owner, "failing-ear", stream="true")
    events = [json.loads(e[6:]) for e in answer.text.split("\n\n") if e.startswith("data: ")]
    # Whoever asked reads the same error, once.
    assert [event["type"] for event in events] == ["transcript.text.delta", "error"]
    assert events[-1]["error"]["message"] == "the card is gone"
    line = gateway.line_after(seen, "failing-ear")
    assert (line["status"], line["end"]) == ("200", "broken_off")


def test_keys_open_names_here_as_everywhere(
    gateway: Gateway, guest: httpx.Client, ears: Ears
) -> None:
    before = len(ears.heard)
    assert send(guest, "ear").status_code == 403
    assert send(guest, "").status_code == 400
    with httpx.Client(base_url=gateway.url, trust_env=False) as nobody:
        assert send(nobody, "hear").status_code == 401
    assert guest.get(PATHS[0]).status_code == 405
    assert len(ears.heard) == before
    assert send(guest, "hear").status_code == 200
    names = {entry["id"] for entry in guest.get("/v1/models").json()["data"]}
    assert names == {"fast", "hear"}


def test_words_are_not_heard_and_recordings_are_not_answered(
    owner: httpx.Client, ears: Ears
) -> None:
    before = len(ears.heard)
    answer = send(owner, "fast")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "wrong_path")
    chat = {"model": "hear", "messages": [{"role": "user", "content": "hi"}]}
    answer = owner.post("/v1/chat/completions", json=chat)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "wrong_path")
    assert len(ears.heard) == before


def test_what_is_no_recording_is_refused_in_openais_shape(owner: httpx.Client) -> None:
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


def test_a_long_recording_is_never_in_memory(
    owner: httpx.Client, gateway: Gateway, ears: Ears, tmp_path: Path
) -> None:
    size = 200 * 1024 * 1024
    long = tmp_path / "long.wav"
    with long.open("wb") as file:
        file.truncate(size)
    send(owner, "hear")  # what the first recording brings along counts for no later one
    before = _resident(gateway)
    with long.open("rb") as file:
        answer = owner.post(
            PATHS[0], data={"model": "hear"}, files={"file": ("long.wav", file)}, timeout=60
        )
    assert answer.status_code == 200
    assert ears.heard[-1].size == size
    assert _resident(gateway) - before < 24 * 1024 * 1024
