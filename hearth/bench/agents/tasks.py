"""The fixed tasks: what a model is shown in each, and how its answer is judged."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from hearth.clients.llm import Reply

_FOLDER = Path(__file__).parent
TASKS, TOOLS = _FOLDER / "tasks.yml", _FOLDER / "tools.json"
Verdict = Literal["right", "no call", "wrong tool", "wrong arguments", "garbled", "needless"]
# Of a call that a model wrote into its answer instead of making it.
_WRITTEN = re.compile(r'<tool_call>|<function=|"(?:arguments|parameters)"\s*:|\[TOOL_CALLS\]')


@dataclass(frozen=True, slots=True)
class Task:
    """One turn of one agent; `accept` has the right calls, none where no call is expected."""

    name: str
    agent: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    accept: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and in one line what the model did instead of the right thing."""

    verdict: Verdict
    did: str = ""


def digest() -> str:
    """Return the digest of the tasks and tools: results with another one are not comparable."""
    return hashlib.sha256(TASKS.read_bytes() + TOOLS.read_bytes()).hexdigest()[:16]


@cache
def all_tasks() -> tuple[Task, ...]:
    """Return all tasks, in the order of their file."""
    document = yaml.safe_load(TASKS.read_text(encoding="utf-8"))
    tools = {tool["name"]: tool for tool in json.loads(TOOLS.read_text(encoding="utf-8"))}
    return tuple(_task(one, document["agents"], tools) for one in document["tasks"])


def _task(
    record: Mapping[str, Any], agents: Mapping[str, Any], tools: Mapping[str, Mapping[str, Any]]
) -> Task:
    agent = agents[record["agent"]]
    messages = [{"role": "system", "content": agent["instructions"].strip()}]
    for number, said in enumerate(record.get("before", ())):
        messages += _messages(said, number)
    if "ask" in record:
        messages.append({"role": "user", "content": record["ask"]})
    return Task(
        record["name"],
        record["agent"],
        tuple(messages),
        tuple({"type": "function", "function": tools[name]} for name in agent["tools"]),
        tuple((tool, wanted) for one in record.get("accept", ()) for tool, wanted in one.items()),
    )


def _messages(said: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
    """Return what was said before as messages: a call is two, with its result."""
    if "call" not in said:
        ((role, text),) = said.items()
        return [{"role": role, "content": text}]
    function = {"name": said["call"], "arguments": json.dumps(said["arguments"])}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": said["result"]},
    ]


def judge(task: Task, reply: Reply) -> Judgement:
    """Return whether a reply is right: each call an accepted one, none where none is expected."""
    if not reply.calls:
        if task.accept and _WRITTEN.search(reply.text):
            return Judgement("garbled", "it wrote a call into its answer")
        return Judgement("no call" if task.accept else "right")
    functions = [call["function"] for call in reply.calls]
    did = ", ".join(f"{one['name']} {one['arguments']}" for one in functions)[:200]
    if not task.accept:
        return Judgement("needless", did)
    worst: Verdict = "right"
    for one in functions:
        worst = max(worst, _judge_call(task, one["name"], one["arguments"]), key=_ORDER.index)
    return Judgement(worst, "" if worst == "right" else did)


# From the best to the worst, for a reply with several calls.
_ORDER: Sequence[Verdict] = ("right", "wrong arguments", "wrong tool", "garbled")


def _judge_call(task: Task, name: str, text: str) -> Verdict:
    wanted = [arguments for tool, arguments in task.accept if tool == name]
    if not wanted:
        return "wrong tool"
    try:
        given = json.loads(text or "{}")
    except ValueError:
        return "garbled"
    if not isinstance(given, dict):
        return "garbled"
    if not _allowed(task, name, given):
        return "wrong arguments"
    fits = any(all(_fits(given.get(k), v) for k, v in one.items()) for one in wanted)
    return "right" if fits else "wrong arguments"


def _allowed(task: Task, name: str, given: Mapping[str, Any]) -> bool:
    """Return whether the tool has all these arguments and misses none that it requires."""
    schema = next(t["function"]["parameters"] for t in task.tools if t["function"]["name"] == name)
    known, required = schema.get("properties", {}), schema.get("required", ())
    return set(given) <= set(known) and set(required) <= set(given)


def _fits(given: Any, wanted: Any) -> bool:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    if isinstance(wanted, Mapping):
        ((how, value),) = wanted.items()
        if how == "has":
            return all(str(word).lower() in text.lower() for word in value)
        if how == "matches":
            return bool(re.fullmatch(value, text.strip()))
        low, high = value
        return isinstance(given, int | float) and low <= given <= high
    return _plain(text) == _plain(str(wanted))


def _plain(text: str) -> str:
    """Return a text without what makes no difference: case, spaces around, - for _."""
    return text.strip().lower().replace("-", "_")
