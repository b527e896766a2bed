"""The criteria of the smoke tests accept what is right and name each thing that is not."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.smoke.criteria import (
    advice_on_speed,
    judge_first_sound,
    policy_violations,
    smaller_model,
    stream_violations,
)


@pytest.mark.parametrize(
    ("whole_s", "ttfa_s", "word"),
    [
        (1.4, 0.3, "fine"),
        (1.4, 0.71, "failed"),
        (0.1, 0.15, "fine"),
        (0.1, 0.16, "failed"),
        (3.0, 0.71, "slow"),
        (1.4, 1.4, "failed"),
    ],
)
def test_speech_must_start_early(whole_s: float, ttfa_s: float, word: str) -> None:
    assert judge_first_sound(whole_s, ttfa_s)[0] == word


KNOWN = ("tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "distil-medium.en")


@pytest.mark.parametrize("rtf", [0.0, 0.3, 0.5])
def test_half_of_real_time_keeps_up(rtf: float) -> None:
    assert advice_on_speed(rtf, "small", KNOWN) == ""


def test_the_advice_for_a_slow_model_is_one_line_with_the_setting() -> None:
    assert advice_on_speed(0.61, "distil-medium.en", KNOWN) == (
        "distil-medium.en takes 0.61 s per second of speech; above 0.5 people notice "
        "a wait: write `transcribe: {members: [base.en]}` into inventory/local/aliases.yml"
    )


def test_the_advice_names_a_missing_smaller_model() -> None:
    assert "models.yml has no smaller model" in advice_on_speed(0.9, "tiny", KNOWN)


@pytest.mark.parametrize(
    ("model", "rtf", "smaller"),
    [
        # The best that would keep up.
        ("medium", 1.0, "small"),
        ("medium", 1.2, "base"),
        ("medium", 5.0, "tiny"),
        # None would: the fastest.
        ("medium", 50.0, "tiny"),
        # Of English alone there is another of English alone.
        ("small.en", 0.6, "distil-medium.en"),
        ("small.en", 2.0, "tiny.en"),
        # It was not measured beside the others.
        ("my-own", 2.0, None),
        ("tiny.en", 2.0, None),
    ],
)
def test_the_smaller_model(model: str, rtf: float, smaller: str | None) -> None:
    assert smaller_model(model, rtf, KNOWN) == smaller


Events = list[dict[str, Any]]


def stream() -> Events:
    """Return the events of a good server for two utterances in ten seconds."""
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
    assert stream_violations(stream(), 10) == []


def test_silence_is_a_good_stream() -> None:
    assert stream_violations([{"type": "ready"}, {"type": "done"}], 3) == []


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
        (
            [e for e in stream() if e["type"] != "speech_started"],
            "utterance 1: its events are `partial partial speech_ended final`",
        ),
        (
            [*stream()[:2], *stream()[1:]],
            "utterance 1: its events are `speech_started speech_started partial",
        ),
        (
            [*stream()[:6], *stream()[7:]],
            "utterance 1: its events are `speech_started partial partial speech_ended`",
        ),
        ([*stream()[:7], *stream()[6:]], "speech_ended final final`"),
        ([*stream()[:3], *stream()[4:7], stream()[3], *stream()[7:]], "final partial`"),
        (broken(6, utterance=3), "utterance 3: its events are `final`"),
        ([*stream()[:6], stream()[8], stream()[6], stream()[9]], "the finals come as [2, 1]"),
        ([*stream()[:4], *stream()[5:]], "partial partial final`"),
        ([*stream()[:5], *stream()[4:]], "partial speech_ended speech_ended final`"),
        (
            [*stream()[:4], stream()[6], stream()[4], stream()[5], *stream()[7:]],
            "partial partial final speech_ended`",
        ),
        (broken(8, start_s=0.4), "the finals start at [0.5, 0.4] s"),
        (broken(3, text="won too", stable="won"), ""),
        (broken(3, stable="two"), "its text does not start with its stable part"),
        (broken(4, at_s=10.5), "speech_ended: 10.5 to 10.5 s of 10.00 s"),
        (broken(4, at_s=-0.1), "speech_ended: -0.1"),
        (broken(6, start_s=3.0), "final: 3 to 2 s"),
        (broken(6, end_s=None), "final has no times"),
        (broken(6, words=[{"start_s": 0.5, "end_s": 11.0}]), "final: 0.5 to 11 s of 10.00 s"),
    ],
)
def test_each_broken_promise_is_named(events: Events, violation: str) -> None:
    found = "; ".join(stream_violations(events, 10))
    assert violation in found
    assert bool(found) == bool(violation)


def test_a_stable_text_must_stay() -> None:
    events = stream()
    events.insert(4, {**events[3], "text": "won", "stable": ""})
    assert stream_violations(events, 10) == ["utterance 1: a stable text is taken back"]


GOOD = (
    "default-src 'self'; img-src 'self' data: blob:; connect-src 'self' wss://chat.lan; "
    "script-src 'self' 'sha256-x' 'wasm-unsafe-eval'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)

EVAL = "allows eval"
INLINE = "allows inline scripts"
TEXT = "allows a script made from text"


def test_a_strict_policy_passes() -> None:
    assert policy_violations(GOOD, "chat.lan") == []
    # A worker is made by a script that the page has.
    assert policy_violations(GOOD + "; worker-src 'self' blob:", "chat.lan") == []
    assert (
        policy_violations(GOOD.replace("'sha256-x'", "'sha256-x' 'unsafe-inline'"), "chat.lan")
        == []
    )
    assert policy_violations(GOOD.upper().replace("CHAT.LAN", "chat.lan") + ";", "chat.lan") == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("default-src 'self'; ", "", "default-src is missing"),
        ("; frame-ancestors 'none'", "", "frame-ancestors is missing"),
        ("base-uri 'none'; ", "", "base-uri is missing"),
        ("form-action 'self'", "", "form-action is missing"),
        ("img-src 'self'", "img-src *", "img-src allows *"),
        ("img-src 'self'", "img-src https:", "img-src allows https:"),
        ("wss://chat.lan", "wss:", "connect-src allows wss:"),
        ("wss://chat.lan", "https://x.example", "connect-src allows https://x.example"),
        ("wss://chat.lan", "http://chat.lan", "connect-src allows http://chat.lan"),
        ("'sha256-x'", "'unsafe-eval'", f"script-src {EVAL}"),
        ("'sha256-x'", "'unsafe-inline'", f"script-src {INLINE}"),
        ("'sha256-x'", "data:", f"script-src {TEXT}: data:"),
        ("'sha256-x'", "Blob:", f"script-src {TEXT}: blob:"),
        # It lets a script of the page load others from anywhere.
        ("'sha256-x'", "'sha256-x' 'strict-dynamic'", "script-src allows 'strict-dynamic'"),
        ("base-uri", "script-src-elem 'unsafe-inline'; base-uri", f"script-src-elem {INLINE}"),
        ("base-uri", "script-src-attr 'unsafe-inline'; base-uri", f"script-src-attr {INLINE}"),
        ("base-uri", "worker-src 'self' data:; base-uri", f"worker-src {TEXT}: data:"),
    ],
)
def test_each_hole_is_named(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    assert policy_violations(GOOD.replace(old, new), "chat.lan") == [problem]


def test_no_policy_is_all_holes() -> None:
    assert len(policy_violations("", "chat.lan")) == 4
    assert policy_violations("default-src 'unsafe-eval'", "a")[-1] == f"default-src {EVAL}"
    assert policy_violations("default-src data:", "a")[-1] == f"default-src {TEXT}: data:"
