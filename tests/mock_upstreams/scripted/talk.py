"""One conversation with the scripted model: what it has seen, and its next turn by its script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Results = list[str]
"""The texts of the results of one turn's tool calls, in their order."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; arguments that are a text are sent as they are, valid JSON or not."""

    tool: str
    arguments: Mapping[str, Any] | str

    @property
    def sent(self) -> str:
        """The arguments as the model writes them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: a text, calls of tools, or both.

    The text is sent `times` times, after `wait_s` seconds and in pieces with `pace_s` between them;
    `cut` ends the connection in the middle.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    times: int = 1
    wait_s: float = 0.0
    pace_s: float = 0.0
    cut: bool = False
    thought: str = ""


@dataclass(slots=True)
class Talk:
    """The conversation so far, as the request has it.

    `task` is the text that chose the script; `tools` has the offered ones with their parameters.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Mapping[str, Mapping[str, Any]]
    task: str = ""
    match: re.Match[str] | None = field(default=None, repr=False)

    def offers(self, tool: str) -> bool:
        """Return whether the model may call a tool of this name."""
        return tool in self.tools

    def specialist(self, name: str) -> str | None:
        """Return the tool that hands work to a specialist, if the model is shown one."""
        return next((tool for tool in self.tools if name in tool.split("_")), None)

    def hand(self, name: str, text: str) -> Turn:
        """Return the turn that hands a text to a specialist, in the one argument it takes."""
        tool = self.specialist(name) or name
        parameters = self.tools.get(tool, {})
        names = parameters.get("required") or list(parameters.get("properties") or ()) or ["input"]
        return Turn(calls=(Call(tool, {names[0]: text}),))


Script = Callable[[Talk], Generator[Turn, Results, None]]
"""Yields the turns of one conversation and receives the results of each turn's calls."""


def content_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def turn_of(talk: Talk, scripts: Mapping[str, Script], other: Script) -> Turn:
    """Return the next turn: of the newest user message's script, or of the one before it.

    A message that no script knows, such as a request to repair a call, belongs to the task before
    it. The server keeps nothing: a script is run again from its start, with the results it got.
    """
    at, script = _chosen(talk, scripts, other)
    turns = script(talk)
    turn = next(turns)
    for results in _results(talk.messages[at + 1 :]):
        try:
            turn = turns.send(results)
        except StopIteration:
            return Turn("The script has no further turn.")
    return turn


def _chosen(talk: Talk, scripts: Mapping[str, Script], other: Script) -> tuple[int, Script]:
    users = [n for n, message in enumerate(talk.messages) if message.get("role") == "user"]
    for at in reversed(users):
        talk.task = content_of(talk.messages[at])
        for pattern, script in scripts.items():
            if found := re.search(pattern, talk.task, re.IGNORECASE | re.MULTILINE):
                talk.match = found
                return at, script
    at = users[-1] if users else len(talk.messages) - 1
    talk.task = content_of(talk.messages[at]) if talk.messages else ""
    return at, other


def _results(messages: Sequence[Mapping[str, Any]]) -> list[Results]:
    """Return the results of each turn so far; a turn without calls has none."""
    found: list[Results] = []
    for message in messages:
        if message.get("role") == "assistant":
            found.append([])
        elif message.get("role") == "tool" and found:
            found[-1].append(content_of(message))
    return found
