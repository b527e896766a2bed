"""What must hold of listening whatever the model: a form that is understood, a stream in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx

PATH = "/v1/audio/transcriptions"
Form = tuple[bytes, dict[str, str]]
"""A body, and the headers that say what it is."""
Said = Mapping[str, Any]
"""One event of a live stream, as docs/listening.md tells them."""

_ABOUT_ONE = ("speech_started", "partial", "final", "speech_ended")


def form(name: str, sound: bytes, **fields: str) -> Form:
    """Return a file and the fields beside it, as browsers and programs send them."""
    # Nothing is asked here: httpx only writes the form.
    asked = httpx.Request("POST", "http://form/", data=fields, files={"file": (name, sound)})
    return asked.read(), {"Content-Type": asked.headers["content-type"]}


def violations(events: Sequence[Said], heard_s: float) -> list[str]:
    """Return what a live stream promised and did not keep, one line each.

    It begins with `ready` and ends with `done`; each utterance begins once, has its partials, of
    which nothing stable is taken back, ends once, and then has exactly one final; finals come in
    order, also by their times; every time lies inside the `heard_s` seconds of sound.
    """
    kinds = [str(event.get("type")) for event in events]
    found = [f"an error: {event.get('error')}" for event in events if event.get("type") == "error"]
    if not kinds or kinds[0] != "ready" or kinds[-1] != "done":
        found.append(f"it runs from {kinds[:1]} to {kinds[-1:]}, not from ready to done")
    finals = [event for event in events if event.get("type") == "final"]
    numbers = [event["utterance"] for event in finals]
    if numbers != sorted(set(numbers)):
        found.append(f"the finals come as {numbers}, not once each and in order")
    starts = [start for event in finals if isinstance(start := event.get("start_s"), int | float)]
    if starts != sorted(starts):
        found.append(f"the finals begin at {starts} s, not one after the other")
    about = [event for event in events if event.get("type") in _ABOUT_ONE]
    for number in dict.fromkeys(event.get("utterance") for event in about):
        of_it = [event for event in about if event.get("utterance") == number]
        found += (f"utterance {number}: {violation}" for violation in _violations_of_one(of_it))
    return found + list(_outside(about, heard_s))


def _violations_of_one(events: Sequence[Said]) -> Iterator[str]:
    kinds = [event["type"] for event in events]
    if kinds[0] != "speech_started" or kinds.count("speech_started") != 1:
        yield f"it does not begin once: {kinds}"
    if kinds.count("speech_ended") != 1:
        yield f"it does not end once: {kinds}"
    elif "final" in kinds[: kinds.index("speech_ended")]:
        yield "its final comes before its end"
    if kinds.count("final") != 1:
        yield f"{kinds.count('final')} finals"
    elif "partial" in kinds[kinds.index("final") :]:
        yield "a partial after its final"
    stable = ""
    for event in events:
        if event["type"] != "partial":
            continue
        if not str(event["text"]).startswith(stable):
            yield "what was called stable is taken back"
        stable = str(event.get("stable") or "")
        if not str(event["text"]).startswith(stable):
            yield "its stable part is no beginning of its text"


def _outside(events: Iterable[Said], heard_s: float) -> Iterator[str]:
    for event in events:
        for said in (event, *event.get("words", ())):
            start, end = said.get("start_s", said.get("at_s")), said.get("end_s", said.get("at_s"))
            if not (isinstance(start, int | float) and isinstance(end, int | float)):
                yield f"{event['type']} has no times"
            elif not 0 <= start <= end <= heard_s:
                yield f"{event['type']}: {start:g} to {end:g} s of {heard_s:.2f} s"
