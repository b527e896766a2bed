"""Pass or fail criteria that need nothing but the measured values and Python itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

MOST_OF_PHRASE, LEAST_LIMIT_S, SLOW_S = 0.5, 0.150, 0.700
MOST_RTF = 0.5
"""Seconds of work per second of speech. Above it, a speaker waits longer than for a person."""
# The cost of each size relative to the others: published real-time factors on one processor.
_COST = {
    "tiny": 0.05,
    "base": 0.15,
    "distil-medium": 0.25,
    "small": 0.35,
    "medium": 0.80,
    "large-v3": 3.2,
}
_ENGLISH = ".en"

# Sources that the page brings along or makes itself, and keywords that let it run its own content;
# scripts are judged separately.
_OWN = frozenset(
    {"'self'", "'none'", "blob:", "data:"}
    | {"'unsafe-inline'", "'wasm-unsafe-eval'", "'report-sample'", "'unsafe-eval'"}
)
# script-src is the fallback of the other two.
_SCRIPTS = ("script-src", "script-src-elem", "script-src-attr")
# Sources that let a page run a script which its own server never sent.
_HOLES = {
    "blob:": "a script made from text: blob:",
    "data:": "a script made from text: data:",
    "'unsafe-eval'": "eval",
    "'unsafe-inline'": "inline scripts",
}
_DIGESTS = ("'sha256-", "'sha384-", "'sha512-", "'nonce-")
# These have no fallback: left out, everything is allowed.
_WITHOUT_FALLBACK = ("base-uri", "form-action", "frame-ancestors")

_OF_UTTERANCE = ("speech_started", "partial", "final", "speech_ended")
_UTTERANCE = re.compile("speech_started( partial)* speech_ended( partial)* final")
StreamEvent = Mapping[str, Any]
"""One event of a live stream, as docs/speech-to-text.md defines it."""


def judge_first_sound(
    phrase_s: float, ttfa_s: float
) -> tuple[Literal["fine", "slow", "failed"], str]:
    """Grade the time to first audio by the machine's own time for the whole phrase, and explain.

    It fails above half of `phrase_s` or 150 ms, whichever is longer: a server that buffers sends
    its first sound with its last, on any machine. Above 700 ms it is slow, which is no failure.
    """
    limit_s = max(MOST_OF_PHRASE * phrase_s, LEAST_LIMIT_S)
    measured = f"the first sound came after {ttfa_s * 1000:.0f} ms"
    if ttfa_s > limit_s:
        return (
            "failed",
            f"{measured}; the limit is {limit_s * 1000:.0f} ms where the whole phrase takes "
            f"{phrase_s * 1000:.0f} ms: does the server or a proxy buffer?",
        )
    if ttfa_s > SLOW_S:
        return "slow", f"{measured}: people notice a wait above {SLOW_S * 1000:.0f} ms"
    return "fine", measured


def advice_on_speed(rtf: float, model: str, known: Iterable[str]) -> str:
    """Return what to do about a model with this real-time factor; empty when it keeps up.

    `known` are the models that the house could use instead.
    """
    if rtf <= MOST_RTF:
        return ""
    line = (
        f"{model} takes {rtf:.2f} s per second of speech; above {MOST_RTF:g} people notice a wait"
    )
    smaller = smaller_model(model, rtf, known)
    if smaller is None:
        return f"{line}; models.yml has no smaller model that would keep up"
    setting = f"transcribe: {{members: [{smaller}]}}"
    return f"{line}: write `{setting}` into inventory/local/aliases.yml"


def smaller_model(model: str, rtf: float, known: Iterable[str]) -> str | None:
    """Return the best model that would keep up here, else the fastest; None without a faster one.

    An English-only model is replaced by another English-only model, and by no other.
    """
    costs = {
        name: _COST[size]
        for name in (model, *known)
        if (size := name.removesuffix(_ENGLISH)) in _COST
        and name.endswith(_ENGLISH) == model.endswith(_ENGLISH)
    }
    own = costs.get(model, 0.0)
    faster = [name for name, cost in costs.items() if cost < own]
    enough = [name for name in faster if rtf * costs[name] / own <= MOST_RTF]
    if enough:
        return max(enough, key=costs.__getitem__)
    return min(faster, key=costs.__getitem__, default=None)


def stream_violations(events: Sequence[StreamEvent], sound_s: float) -> list[str]:
    """Return which promises of its protocol a live transcription broke, one line each.

    It starts with `ready` and ends with `done`. Each utterance starts once, has partials whose
    stable part only grows, ends once, and then has exactly one final. Finals come in order, also
    by their times, and every time lies within the `sound_s` seconds of sound.
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
        found.append(f"the finals start at {starts} s, not one after the other")
    about = [event for event in events if event.get("type") in _OF_UTTERANCE]
    for number in dict.fromkeys(event.get("utterance") for event in about):
        of_it = [event for event in about if event.get("utterance") == number]
        found += (f"utterance {number}: {violation}" for violation in _of_utterance(of_it))
    return found + list(_times_outside(about, sound_s))


def _of_utterance(events: Sequence[StreamEvent]) -> Iterator[str]:
    kinds = " ".join(event["type"] for event in events)
    if not _UTTERANCE.fullmatch(kinds):
        yield f"its events are `{kinds}`: one start, partials, one end and one final are due"
    stable = ""
    for event in events:
        if event["type"] != "partial":
            continue
        if not str(event["text"]).startswith(stable):
            yield "a stable text is taken back"
        stable = str(event.get("stable") or "")
        if not str(event["text"]).startswith(stable):
            yield "its text does not start with its stable part"


def _times_outside(events: Iterable[StreamEvent], sound_s: float) -> Iterator[str]:
    for event in events:
        for part in (event, *event.get("words", ())):
            start, end = part.get("start_s", part.get("at_s")), part.get("end_s", part.get("at_s"))
            if not (isinstance(start, int | float) and isinstance(end, int | float)):
                yield f"{event['type']} has no times"
            elif not 0 <= start <= end <= sound_s:
                yield f"{event['type']}: {start:g} to {end:g} s of {sound_s:.2f} s"


def policy_violations(policy: str, fqdn: str) -> list[str]:
    """Return how a Content-Security-Policy lets a page of `fqdn` reach others, one line each."""
    rules: dict[str, list[str]] = {}
    for name, *sources in filter(None, (rule.lower().split() for rule in policy.split(";"))):
        rules[name] = sources
    wanted = ("default-src", *_WITHOUT_FALLBACK)
    found = [f"{name} is missing" for name in wanted if name not in rules]
    allowed = _OWN | {f"https://{fqdn}", f"wss://{fqdn}"}
    for name, sources in rules.items():
        others = (one for one in sources if one not in allowed and not one.startswith(_DIGESTS))
        found += [f"{name} allows {source}" for source in others]
    for name in _SCRIPTS if "script-src" in rules else (*_SCRIPTS, "default-src"):
        sources = rules.get(name, [])
        # A browser that knows digests ignores 'unsafe-inline' beside one.
        digest = any(source.startswith(_DIGESTS) for source in sources)
        found += [
            f"{name} allows {hole}"
            for source, hole in _HOLES.items()
            if source in sources and not (source == "'unsafe-inline'" and digest)
        ]
    # The scripts of a page make workers from what they have: those are blobs.
    if "data:" in rules.get("worker-src", []):
        found.append("worker-src allows a script made from text: data:")
    return found
