"""The invariants of every stream, whatever the model."""

from typing import Any


def check(events: list[dict[str, Any]], sound_s: float) -> list[dict[str, Any]]:
    """Check all events from `ready` to `done`; return the finals."""
    assert events[0]["type"] == "ready"
    assert events[-1]["type"] == "done"
    events = [event for event in events if "utterance" in event]
    numbers = [event["utterance"] for event in events if event["type"] == "speech_started"]
    assert numbers == list(range(1, len(numbers) + 1))
    finals = [event for event in events if event["type"] == "final"]
    assert [final["utterance"] for final in finals] == numbers
    for number in numbers:
        _one([event for event in events if event["utterance"] == number], sound_s)
    times = [t for final in finals for t in (final["start_s"], final["end_s"])]
    assert times == sorted(times)
    return finals


def _one(events: list[dict[str, Any]], sound_s: float) -> None:
    kinds = [event["type"] for event in events]
    marks = [kind for kind in kinds if kind != "partial"]
    assert marks == ["speech_started", "speech_ended", "final"]
    assert kinds[0] == "speech_started"
    assert kinds[-1] == "final"
    stable = ""
    for event in events:
        if event["type"] == "partial":
            assert event["text"].startswith(event["stable"])
            assert event["stable"].startswith(stable)
            stable = event["stable"]
        if "start_s" in event:
            assert 0 <= event["start_s"] <= event["end_s"] <= sound_s
    final = events[-1]
    assert 0 <= final["confidence"] <= 1
    assert final["latency_ms"] >= 0
    assert all(0 <= w["start_s"] <= w["end_s"] <= sound_s for w in final["words"])
