"""Check what a browser played: that it was sound, in time, and complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOUD = 0.01
# After a stall the page waits until it has this much again.
RESUME_MS = 300
# Within this margin, the clocks do not show whether a piece came in time.
CLOSE_MS = 60


def plays(found: Any, path: str = "worklet") -> None:
    """Check a speech that was played to its end: it was audible, and the page reports it."""
    assert found["display"]["state"] == "done", found["display"]
    assert [shown for _, shown in found["paths"] if shown] == [path]
    assert found["heard"]["peak"] > LOUD, found["heard"]
    assert found["lost_s"] == 0


def share(found: Any) -> float:
    """Return after which share of the time to the response's last byte the first sound came."""
    (answer,) = found["answers"]
    first = found["heard"]["first"] - found["pressed"]
    return float(first / (answer["last_byte"] - found["pressed"]))


def streams(found: Any, most: float) -> float:
    """Check that it was played whole, without a gap of its own, before the last byte came.

    The first sound came within `most` of the time to the last byte. Returns the milliseconds for
    any player would have been silent, because the server was late.
    """
    plays(found)
    (answer,) = found["answers"]
    heard, sent = found["heard"], answer["sound"]
    assert share(found) <= most, f"heard after {share(found):.2f} of the answer"
    waits = [piece.wait_ms for piece in due(found)]
    # The played length is what was sent plus what the player had to wait for: nothing was left
    # out, and no silence was added.
    added = (heard["last"] - heard["first"]) - (sent["last"] - sent["first"])
    stalls = int(found["display"]["stalls"])
    assert -100 < added - sum(waits) < 100 + RESUME_MS * stalls, (added, waits)
    # The page counts the same stalls.
    sure = sum(wait > CLOSE_MS for wait in waits)
    assert sure <= stalls <= sure + sum(piece.close for piece in due(found)), (stalls, waits)
    return sum(waits)


@dataclass(frozen=True, slots=True)
class Due:
    """One piece of a speech: when it should be played, and how long the player waited for it."""

    at: float
    text: str
    wait_ms: float
    close: bool


def due(found: Any) -> list[Due]:
    """Return when each piece is due in a player that plays without faults what came."""
    (answer,) = found["answers"]
    pieces = []
    # The first piece may start with some silence.
    clock, played = found["heard"]["first"] - answer["sound"]["first"], 0.0
    for piece in answer["pieces"]:
        clock, played = clock + piece["offset_ms"] - played, piece["offset_ms"]
        wait = max(0.0, piece["at"] - clock) if played else 0.0
        close = bool(played) and abs(piece["at"] - clock) < CLOSE_MS
        clock += wait
        pieces.append(Due(clock, piece["text"].strip(), wait, close))
    return pieces


def quiet(found: Any) -> None:
    """Check that the browser logged nothing: no error, nothing refused by the CSP."""
    assert found["complaints"] == []
    assert found.get("refusals", []) == []
