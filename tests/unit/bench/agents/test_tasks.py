"""The fifty tasks are sound, and a reply is judged as a person would judge it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hearth.bench.agents.tasks import Task, all_tasks, judge
from hearth.clients.llm import Reply
from tests.unit.bench.agents.judged import right_call

TASKS = {task.name: task for task in all_tasks()}


def reply(*calls: tuple[str, Any], text: str = "") -> Reply:
    return Reply(
        text=text,
        finish="stop",
        calls=[
            {"function": {"name": name, "arguments": a if isinstance(a, str) else json.dumps(a)}}
            for name, a in calls
        ],
    )


def verdict(name: str, *calls: tuple[str, Any], text: str = "") -> str:
    return judge(TASKS[name], reply(*calls, text=text)).verdict


def test_there_are_fifty_and_a_fifth_wants_no_call() -> None:
    assert len(TASKS) == len(all_tasks()) == 50
    assert sum(not task.accept for task in all_tasks()) == 10
    assert {task.agent for task in all_tasks()} == {
        "team",
        "caretaker",
        "researcher",
        "coder",
        "analyst",
    }


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_each_can_be_passed_and_failed(task: Task) -> None:
    roles = [message["role"] for message in task.messages]
    assert roles[0] == "system"
    assert roles[-1] in ("user", "tool")
    assert len(task.tools) <= 8
    if task.accept:
        assert judge(task, reply(right_call(task))).verdict == "right"
        assert judge(task, reply(text="I cannot do that.")).verdict == "no call"
        assert judge(task, reply(("rm", {}))).verdict == "wrong tool"
        tool, _ = right_call(task)
        assert judge(task, reply((tool, "{"))).verdict == "garbled"
        assert judge(task, reply((tool, {"nonsense": 1}))).verdict == "wrong arguments"
    else:
        assert judge(task, reply(text="Hello.")).verdict == "right"
        any_tool = task.tools[0]["function"]["name"]
        assert judge(task, reply((any_tool, {}))).verdict == "needless"


def test_what_makes_no_difference_is_no_mistake() -> None:
    assert verdict("state-chat", ("service_status", {"service": "Open-WebUI "})) == "right"
    assert verdict("state-chat", ("service_status", {"service": "kokoro"})) == "wrong arguments"
    both = [("service_status", {"service": name}) for name in ("kokoro", "whisper")]
    assert verdict("both", *both) == "right"
    assert verdict("both", *both, ("restart", {"service": "kokoro"})) == "wrong tool"


def test_a_call_that_is_only_written_is_garbled() -> None:
    text = '<tool_call>{"name": "service_status", "arguments": {}}</tool_call>'
    assert verdict("state-one", text=text) == "garbled"
    assert verdict("none-hello", text="Hello!") == "right"
    assert verdict("log-lines", ("service_logs", {"service": "whisper", "lines": "20"})) != "right"
