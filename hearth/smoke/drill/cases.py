"""The cases of a drill: what is broken, what is asked then, and what has to come."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.smoke.drill.faults import CUT, DRIP, HANG, REFUSED, WELL
from hearth.smoke.drill.heard import Heard, heard
from hearth.smoke.drill.plan import Target

# Tells the room what to do, and returns what came of each step.
Tell = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
PATHS = {
    "chat": "/v1/chat/completions",
    "embed": "/v1/embeddings",
    "transcribe": "/v1/audio/transcriptions",
}
PLAIN, STREAMED = "plain", "streamed"
SLOW = (HANG, DRIP)
# What a failure of the first member may add to the next one's own time.
QUICK_S, LATE_S = 2.0, 1.0
_BOUNDARY = "hearth-drill"
NOBODY = "an error"


@dataclass(frozen=True, slots=True)
class Row:
    """What a drill found of one alias with one fault; seconds are until an answer began."""

    alias: str
    broken: str
    fault: str
    answered_by: str
    plain_s: float | None
    streamed_s: float | None
    problems: Sequence[str]


def modes(target: Target) -> tuple[str, ...]:
    """Return how an alias can be asked: numbers come in one piece only."""
    return (PLAIN,) if target.kind == "embed" else (PLAIN, STREAMED)


def ask(name: str, kind: str, mode: str, within_s: float) -> dict[str, Any]:
    """Return one small question to `name`, as the room asks it."""
    asked = {"method": "POST", "path": PATHS[kind], "within_s": within_s}
    if kind == "transcribe":
        fields = {"model": name, "stream": "true" if mode == STREAMED else "false"}
        parts = [f'name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
        parts.append('name="file"; filename="drill.wav"\r\n\r\nsound\r\n')
        head = f"--{_BOUNDARY}\r\ncontent-disposition: form-data; "
        text = "".join(head + part for part in parts) + f"--{_BOUNDARY}--\r\n"
        return {**asked, "type": f"multipart/form-data; boundary={_BOUNDARY}", "body": text}
    body: dict[str, Any] = {"model": name}
    if kind == "embed":
        body["input"] = ["bread and butter"]
    else:
        body |= {"messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 4}
        body["stream"] = mode == STREAMED
    return {**asked, "type": "application/json", "body": json.dumps(body)}


def first_is_broken(target: Target, fault: str, tell: Tell) -> Row:
    """Break the first member; the next one answers, soon, and goes on while the first one rests."""
    problems: list[str] = []
    began: dict[str, float] = {}
    by = ""
    limit_s = target.first_token_timeout_s + LATE_S if fault in SLOW else QUICK_S
    for together in _rounds(target, fault):
        first, again, *_ = tell(_broken_twice(target, fault, together))
        for number, mode in enumerate(together):
            answer = heard(first["answers"][number])
            cut = _breaks_off(fault, mode)
            wrong = _cut_off(answer) if cut else _next(target, answer)
            wrong += _late(answer, limit_s + _own_s(target, first, mode))
            wrong += _rested(heard(again["answers"][number]), _own_s(target, again, mode))
            problems += [f"{mode}: {text}" for text in wrong]
            began[mode] = answer.began_s
            by = by or answer.member
        many = len(together)
        wanted = {target.first: 0 if fault == REFUSED else many}
        if not _breaks_off(fault, *together):
            wanted[target.members[1]] = many
        problems += _called(first["calls"], wanted)
        resting = _called(again["calls"], {target.members[1]: many})
        problems += [f"while it rests: {text}" for text in resting]
    return _row(target, target.first, fault, by, began, problems)


def all_are_broken(target: Target, fault: str, tell: Tell) -> Row:
    """Break every member; one error says whose names were asked, in time."""
    problems: list[str] = []
    began: dict[str, float] = {}
    for together in _rounds(target, fault):
        asks = [ask(target.name, target.kind, mode, target.timeout_s + 5) for mode in together]
        step = {"faults": dict.fromkeys(target.members, fault), "asks": asks}
        done, *_ = tell([step, *_well(target, target.members)])
        for mode, raw in zip(together, done["answers"], strict=True):
            answer = heard(raw)
            cut = _breaks_off(fault, mode)
            wrong = _cut_off(answer) if cut else _one_error(target, answer)
            wrong += _late(answer, target.timeout_s + LATE_S, whole=True)
            problems += [f"{mode}: {text}" for text in wrong]
            began[mode] = answer.total_s
        # A stream that was begun is nobody else's any more.
        reached = target.members[:1] if _breaks_off(fault, *together) else target.members
        many = 0 if fault == REFUSED else len(together)
        problems += _called(done["calls"], dict.fromkeys(reached, many))
    return _row(target, "all", fault, NOBODY, began, problems)


def _rounds(target: Target, fault: str) -> list[tuple[str, ...]]:
    """Return which ways of asking are tried at once.

    Whoever waits may wait together; of the others, the first one's failure would change the order
    in which the second one asks.
    """
    own = modes(target)
    return [own] if fault in SLOW else [(mode,) for mode in own]


def _breaks_off(fault: str, *asked: str) -> bool:
    """Whether words have come before the fault: then nobody else can have the word."""
    return fault == CUT and asked == (STREAMED,)


def _broken_twice(target: Target, fault: str, together: Sequence[str]) -> list[dict[str, Any]]:
    """Ask twice with a broken first member, and let it be well again at last."""
    asks = [ask(target.name, target.kind, mode, target.timeout_s + 5) for mode in together]
    return [{"faults": {target.first: fault}, "asks": asks}] * 2 + _well(target, [target.first])


def _well(target: Target, members: Sequence[str]) -> list[dict[str, Any]]:
    """Let members answer by their own names: whoever has answered rests no longer."""
    asks = [ask(member, target.kind, PLAIN, target.timeout_s) for member in members]
    return [{"faults": dict.fromkeys(members, WELL), "asks": asks}]


def _next(target: Target, answer: Heard) -> list[str]:
    following = target.members[1]
    wrong = [] if answer.good else [f"no answer, but {answer}"]
    if answer.good and {answer.member, *answer.models} != {following}:
        wrong.append(f"{answer.member} answered, said to be {', '.join(answer.models)}")
    return wrong


def _cut_off(answer: Heard) -> list[str]:
    wrong = [] if answer.error else [f"it ends in no error, but {answer}"]
    if answer.finish or answer.done:
        wrong.append(f"half an answer ends in {answer.finish or '[DONE]'}, as if it were whole")
    return wrong


def _own_s(target: Target, step: Mapping[str, Any], mode: str) -> float:
    """Return what of an answer's time the next member took itself, as slow as it may be."""
    first_s, whole_s = step["took_s"][target.members[1]]
    return float(whole_s if mode == PLAIN else first_s)


def _rested(answer: Heard, own_s: float) -> list[str]:
    wrong = [] if answer.good else [f"no answer, but {answer}"]
    wrong += _late(answer, own_s + QUICK_S)
    return [f"asked again: {text}" for text in wrong]


def _late(answer: Heard, limit_s: float, whole: bool = False) -> list[str]:
    took_s = answer.total_s if whole else answer.began_s
    return [f"took {took_s:.1f} s of {limit_s:.1f} s"] if took_s > limit_s else []


def _called(calls: Mapping[str, int], wanted: Mapping[str, int]) -> list[str]:
    """Say who was asked more or less often than wanted; others may not be asked at all."""
    return [
        f"{name} was asked {count} times, not {wanted.get(name, 0)}"
        for name, count in calls.items()
        if count != wanted.get(name, 0)
    ]


def _one_error(target: Target, answer: Heard) -> list[str]:
    if answer.good or not answer.error:
        return [f"no error, but {answer}"]
    wrong = []
    if not (answer.status == 429 or answer.status >= 500):
        wrong.append(f"HTTP {answer.status}")
    if lacking := {"message", "type", "code", "param"} - answer.error.keys():
        wrong.append(f"the error lacks {', '.join(sorted(lacking))}")
    text = str(answer.error.get("message"))
    if unnamed := [name for name in (target.name, *target.members) if not _named(name, text)]:
        wrong.append(f"{text!r} does not name {', '.join(unnamed)}")
    return wrong


def _named(name: str, text: str) -> bool:
    """Whether a text names it, and not only another one that begins or ends like it."""
    return re.search(rf"(?<![\w.:-]){re.escape(name)}(?![\w-]|[.:]\w)", text) is not None


def _row(
    target: Target, broken: str, fault: str, by: str, s: Mapping[str, float], wrong: list[str]
) -> Row:
    began = {mode: round(value, 3) for mode, value in s.items()}
    return Row(target.name, broken, fault, by, began.get(PLAIN), began.get(STREAMED), wrong)
