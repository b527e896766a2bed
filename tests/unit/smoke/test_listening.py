"""The promises of a live stream are held to every event, and a form is one."""

from __future__ import annotations

from email import message_from_bytes, policy
from typing import Any

import pytest

from hearth.smoke.listening import form, violations

Events = list[dict[str, Any]]


def stream() -> Events:
    """Return what a good server says of two utterances in ten seconds."""
    return [
        {"type": "ready"},
        {"type": "speech_started", "utterance": 1, "at_s": 0.5},
        {"type": "partial", "utterance": 1, "text": "one", "stable": "", "start_s": 0.5,
         "end_s": 1.0},
        {"type": "partial", "utterance": 1, "text": "one two", "stable": "one", "start_s": 0.5,
         "end_s": 1.5},
        {"type": "speech_ended", "utterance": 1, "at_s": 2.0},
        {"type": "speech_started", "utterance": 2, "at_s": 4.0},
        {"type": "final", "utterance": 1, "text": "one two", "start_s": 0.5, "end_s": 2.0,
         "words": [{"start_s": 0.5, "end_s": 1.0, "text": "one"}]},
        {"type": "speech_ended", "utterance": 2, "at_s": 5.0},
        {"type": "final", "utterance": 2, "text": "", "start_s": 4.0, "end_s": 5.0, "words": []},
        {"type": "done"},
    ]  # fmt: skip


def test_a_good_stream_has_no_lapses() -> None:
    assert violations(stream(), 10) == []


def test_silence_is_a_good_stream() -> None:
    assert violations([{"type": "ready"}, {"type": "done"}], 3) == []


def broken(number: int, **changes: Any) -> Events:
    events = stream()
    events[number] = {**events[number], **changes}
    return events


@pytest.mark.parametrize(
    ("events", "violation"),
    [
        (stream()[1:], "not from ready to done"),
        (stream()[:-1], "not from ready to done"),
        ([], "not from ready to done"),
        ([*stream()[:-1], {"type": "error", "error": {"message": "no"}}, {"type": "done"}], "no"),
        ([e for e in stream() if e["type"] != "speech_started"], "utterance 1: it does not begin"),
        ([*stream()[:2], *stream()[1:]], "utterance 1: it does not begin once"),
        ([*stream()[:6], *stream()[7:]], "utterance 1: 0 finals"),
        ([*stream()[:7], *stream()[6:]], "utterance 1: 2 finals"),
        ([*stream()[:3], *stream()[4:7], stream()[3], *stream()[7:]], "a partial after its final"),
        (broken(6, utterance=3), "utterance 1: 0 finals"),
        ([*stream()[:6], stream()[8], stream()[6], stream()[9]], "the finals come as [2, 1]"),
        ([*stream()[:4], *stream()[5:]], "utterance 1: it does not end once"),
        ([*stream()[:5], *stream()[4:]], "utterance 1: it does not end once"),
        (
            [*stream()[:4], stream()[6], stream()[4], stream()[5], *stream()[7:]],
            "utterance 1: its final comes before its end",
        ),
        (broken(8, start_s=0.4), "the finals begin at [0.5, 0.4] s"),
        (broken(3, text="won too", stable="won"), ""),
        (broken(3, stable="two"), "its stable part is no beginning"),
        (broken(4, at_s=10.5), "speech_ended: 10.5 to 10.5 s of 10.00 s"),
        (broken(4, at_s=-0.1), "speech_ended: -0.1"),
        (broken(6, start_s=3.0), "final: 3 to 2 s"),
        (broken(6, end_s=None), "final has no times"),
        (broken(6, words=[{"start_s": 0.5, "end_s": 11.0}]), "final: 0.5 to 11 s of 10.00 s"),
    ],
)
def test_each_broken_promise_is_named(events: Events, violation: str) -> None:
    found = "; ".join(violations(events, 10))
    assert violation in found
    assert bool(found) == bool(violation)


def test_what_was_stable_is_not_taken_back() -> None:
    events = stream()
    events.insert(4, {**events[3], "text": "won", "stable": ""})
    assert violations(events, 10) == ["utterance 1: what was called stable is taken back"]


def test_a_form_holds_the_file_and_the_fields() -> None:
    body, headers = form("speech.wav", b"RIFF\0\xff\r\n", model="whisper-1", stream="true")
    kind = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
    message = message_from_bytes(kind + body, policy=policy.HTTP)
    parts = {
        str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)
        for part in message.iter_parts()
    }
    assert parts == {"model": b"whisper-1", "stream": b"true", "file": b"RIFF\0\xff\r\n"}
