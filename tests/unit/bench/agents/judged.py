"""A right call for each task, made from what the task accepts."""

from __future__ import annotations

from typing import Any

from hearth.bench.agents.tasks import Task


def example(value: Any, number: bool = False) -> Any:
    """Return a value that a matcher of the tasks accepts."""
    if not isinstance(value, dict):
        return value
    ((how, wanted),) = value.items()
    if how == "has":
        return " and ".join(map(str, wanted))
    return wanted[0] if how == "number" else "kokoro.service"


def right_call(task: Task) -> tuple[str, dict[str, Any]]:
    """Return a call that is right, with something for each argument that must be there."""
    tool, wanted = task.accept[0]
    schema = next(t["function"]["parameters"] for t in task.tools if t["function"]["name"] == tool)
    given = dict.fromkeys(schema.get("required", ()), "something")
    return tool, given | {key: example(value) for key, value in wanted.items()}
