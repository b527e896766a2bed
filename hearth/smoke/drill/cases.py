"""The cases of a drill: what is broken, what is requested then, and which answer is right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.catalogue.house import Alias
from hearth.smoke.drill.agent import CUT, DRIP, HANG, REFUSED, WELL

# Sends orders to the agent, and returns the result of each step.
Order = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
PATHS = {
    "chat": "/v1/chat/completions",
    "embed": "/v1/embeddings",
    "transcribe": "/v1/audio/transcriptions",
}
PLAIN, STREAMED = "plain", "streamed"
SLOW = (HANG, DRIP)
# What a failure of the first member may add to the next member's own time.
QUICK_S, LATE_S = 2.0, 1.0
NO_MEMBER = "an error"
_BOUNDARY = "hearth-drill"
_TRANSCRIPT_END = "transcript.text.done"


@dataclass(frozen=True, slots=True)
class DrillRow:
    """The result of one fault for one alias; seconds are until an answer started."""

    alias: str
    broken: str
    fault: str
    answered_by: str
    plain_s: float | None
    streamed_s: float | None
    problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """One answer of the gateway; `done` is whether a stream has its end mark."""

    status: int
    member: str
    models: frozenset[str]
    finish: str
    done: bool
    error: Mapping[str, Any] | None
    started_s: float
    total_s: float
    trouble: str

    @property
    def good(self) -> bool:
        """Whether it is a whole answer."""
        ended = bool(self.finish) and self.done
        return 200 <= self.status < 300 and ended and not self.error and not self.trouble

    def __str__(self) -> str:
        """The answer in a few words."""
        if self.trouble:
            return self.trouble
        end = f", finished by {self.finish}" if self.finish else ", without an end"
        if self.error:
            end = f": {self.error.get('message')}"
        return f"HTTP {self.status} from {self.member or 'no member'}{end}"


def read_answer(raw: Mapping[str, Any]) -> CaseAnswer:
    """Read an answer as the agent received it."""
    body, done = raw["body"], True
    if str(raw["headers"].get("content-type", "")).startswith("text/event-stream"):
        lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
        events = [event for line in lines for event in _objects(line)]
        done = "[DONE]" in lines or any(event.get("type") == _TRANSCRIPT_END for event in events)
    else:
        events = _objects(body)
    error = next((found for event in events if (found := event.get("error"))), None)
    return CaseAnswer(
        status=raw["status"],
        member=str(raw["headers"].get("x-hearth-model", "")),
        models=frozenset(str(event["model"]) for event in events if event.get("model")),
        finish=next((found for event in events if (found := _finish(event))), ""),
        done=done,
        error=error if error is None or isinstance(error, dict) else {"message": str(error)},
        started_s=raw["first_s"] or raw["total_s"],
        total_s=raw["total_s"],
        trouble=str(raw.get("trouble", "")),
    )


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except ValueError:
        return []
    return [content] if isinstance(content, dict) else []


def _finish(event: Mapping[str, Any]) -> str:
    """Return why an answer ended, in the terms of its endpoint."""
    for choice in event.get("choices") or []:
        if choice.get("finish_reason"):
            return str(choice["finish_reason"])
    if event.get("data") and "error" not in event:
        return "vectors"
    is_text = event.get("type", _TRANSCRIPT_END) == _TRANSCRIPT_END
    return "text" if is_text and ("type" in event or isinstance(event.get("text"), str)) else ""


def small_request(name: str, kind: str, mode: str, within_s: float) -> dict[str, Any]:
    """Return one small request to `name`, as the agent sends it."""
    request = {"method": "POST", "path": PATHS[kind], "within_s": within_s}
    if kind == "transcribe":
        fields = {"model": name, "stream": "true" if mode == STREAMED else "false"}
        parts = [f'name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
        parts.append('name="file"; filename="drill.wav"\r\n\r\nsound\r\n')
        head = f"--{_BOUNDARY}\r\ncontent-disposition: form-data; "
        text = "".join(head + part for part in parts) + f"--{_BOUNDARY}--\r\n"
        return {**request, "type": f"multipart/form-data; boundary={_BOUNDARY}", "body": text}
    body: dict[str, Any] = {"model": name, "input": ["bread and butter"]}
    if kind != "embed":
        messages = [{"role": "user", "content": "Say yes."}]
        body = {"model": name, "messages": messages, "max_tokens": 4, "stream": mode == STREAMED}
    return {**request, "type": "application/json", "body": json.dumps(body)}


def first_is_broken(alias: Alias, fault: str, order: Order) -> DrillRow:
    """Break the first member: the next one answers soon, and alone while the first is cooling down.

    At last the first member is well again and answers by its own name, which ends its cooldown.
    """
    problems: list[str] = []
    started: dict[str, float] = {}
    first_member, second_member = alias.members[:2]
    by = ""
    limit_s = alias.first_token_timeout_s + LATE_S if fault in SLOW else QUICK_S
    for modes in _rounds(alias, fault):
        step = {"faults": {first_member: fault}, "requests": _requests(alias, modes)}
        first, again, *_ = order([step, step, *_heal(alias, [first_member])])
        for number, mode in enumerate(modes):
            answer = read_answer(first["answers"][number])
            second = read_answer(again["answers"][number])
            wrong = _is_cut_off(answer) if _is_cut(fault, mode) else _is_next(alias, answer)
            wrong += _late(answer.started_s, limit_s + _own_s(alias, first, mode))
            later = [] if second.good else [f"no answer, but {second}"]
            later += _late(second.started_s, _own_s(alias, again, mode) + QUICK_S)
            wrong += [f"second request: {text}" for text in later]
            problems += [f"{mode}: {text}" for text in wrong]
            started[mode] = round(answer.started_s, 3)
            by = by or answer.member
        wanted = {first_member: 0 if fault == REFUSED else len(modes)}
        if not _is_cut(fault, *modes):
            wanted[second_member] = len(modes)
        problems += _calls(first["calls"], wanted)
        cooling = _calls(again["calls"], {second_member: len(modes)})
        problems += [f"during its cooldown: {text}" for text in cooling]
    plain_s, streamed_s = started.get(PLAIN), started.get(STREAMED)
    return DrillRow(alias.name, first_member, fault, by, plain_s, streamed_s, problems)


def all_are_broken(alias: Alias, fault: str, order: Order) -> DrillRow:
    """Break every member: one error names all of them, in time."""
    problems: list[str] = []
    ended: dict[str, float] = {}
    for modes in _rounds(alias, fault):
        faults = dict.fromkeys(alias.members, fault)
        step = {"faults": faults, "requests": _requests(alias, modes)}
        done, *_ = order([step, *_heal(alias, alias.members)])
        for mode, raw in zip(modes, done["answers"], strict=True):
            answer = read_answer(raw)
            wrong = _is_cut_off(answer) if _is_cut(fault, mode) else _is_error(alias, answer)
            wrong += _late(answer.total_s, alias.timeout_s + LATE_S)
            problems += [f"{mode}: {text}" for text in wrong]
            ended[mode] = round(answer.total_s, 3)
        # A stream that has started cannot move to another member.
        called = alias.members[:1] if _is_cut(fault, *modes) else alias.members
        count = 0 if fault == REFUSED else len(modes)
        problems += _calls(done["calls"], dict.fromkeys(called, count))
    plain_s, streamed_s = ended.get(PLAIN), ended.get(STREAMED)
    return DrillRow(alias.name, "all", fault, NO_MEMBER, plain_s, streamed_s, problems)


def _rounds(alias: Alias, fault: str) -> list[tuple[str, ...]]:
    """Return which modes are tried at once: embeddings are never streamed.

    Only slow faults are tried together: another fault of one request would put the first member
    into its cooldown before the other request.
    """
    modes = (PLAIN,) if alias.kind == "embed" else (PLAIN, STREAMED)
    return [modes] if fault in SLOW else [(mode,) for mode in modes]


def _requests(alias: Alias, modes: Sequence[str]) -> list[dict[str, Any]]:
    return [small_request(alias.name, alias.kind, mode, alias.timeout_s + 5) for mode in modes]


def _heal(alias: Alias, members: Sequence[str]) -> list[dict[str, Any]]:
    """Let members answer by their own names, which ends their cooldown."""
    requests = [small_request(one, alias.kind, PLAIN, alias.timeout_s) for one in members]
    return [{"faults": dict.fromkeys(members, WELL), "requests": requests}]


def _is_cut(fault: str, *modes: str) -> bool:
    """Whether text came before the fault, so that no other member can continue."""
    return fault == CUT and modes == (STREAMED,)


def _is_next(alias: Alias, answer: CaseAnswer) -> list[str]:
    if not answer.good:
        return [f"no answer, but {answer}"]
    if {answer.member, *answer.models} == {alias.members[1]}:
        return []
    return [f"{answer.member} answered, and the answer names {', '.join(answer.models)}"]


def _is_cut_off(answer: CaseAnswer) -> list[str]:
    wrong = [] if answer.error else [f"it does not end in an error, but {answer}"]
    if answer.finish or answer.done:
        wrong.append(f"half an answer ends in {answer.finish or '[DONE]'}, as if it were whole")
    return wrong


def _own_s(alias: Alias, step: Mapping[str, Any], mode: str) -> float:
    """Return the part of an answer's time that the next member itself took."""
    first_s, whole_s = step["took_s"][alias.members[1]]
    return float(whole_s if mode == PLAIN else first_s)


def _late(took_s: float, limit_s: float) -> list[str]:
    return [f"took {took_s:.1f} s of {limit_s:.1f} s"] if took_s > limit_s else []


def _calls(calls: Mapping[str, int], wanted: Mapping[str, int]) -> list[str]:
    """Return which members were called more or less often than wanted; others are not wanted."""
    return [
        f"{name} got {count} requests, not {wanted.get(name, 0)}"
        for name, count in calls.items()
        if count != wanted.get(name, 0)
    ]


def _is_error(alias: Alias, answer: CaseAnswer) -> list[str]:
    if answer.good or not answer.error:
        return [f"no error, but {answer}"]
    wrong = []
    if not (answer.status == 429 or answer.status >= 500):
        wrong.append(f"HTTP {answer.status}")
    if missing := {"message", "type", "code", "param"} - answer.error.keys():
        wrong.append(f"the error has no {', '.join(sorted(missing))}")
    text = str(answer.error.get("message"))
    if unnamed := [name for name in (alias.name, *alias.members) if not _names(text, name)]:
        wrong.append(f"{text!r} does not name {', '.join(unnamed)}")
    return wrong


def _names(text: str, name: str) -> bool:
    """Whether a text names this one, and not only another that starts or ends like it."""
    return re.search(rf"(?<![\w.:-]){re.escape(name)}(?![\w-]|[.:]\w)", text) is not None
