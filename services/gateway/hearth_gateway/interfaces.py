"""What the interfaces for text name differently: the conversation, tools, thinking and limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hearth_gateway.settings import ModelInfo

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
GENERATING = frozenset({CHAT, COMPLETIONS, RESPONSES, MESSAGES})
# A picture for chat completions, for responses, and for messages.
_PICTURES = ("image_url", "input_image", "image")
# Sounds, files and marks are no text.
_UNREAD = ("data", "file_data", "type", "role", "id")
_CONVERSATION = ("system", "instructions", "messages", "input", "prompt")
_TOOLS = ("tools", "functions")
# As Ollama counts one.
PICTURE_TOKENS = 768
# What the levels are called, and for messages, which bound a thought instead, the least of each.
_BUDGETS = {"low": 1024, "medium": 2048, "high": 4096}
# The last two are other servers' names, which Ollama's interface ignores.
THOUGHT = ("reasoning_effort", "reasoning", "thinking", "think", "chat_template_kwargs")
_LIMITS = {
    CHAT: ("max_tokens", "max_completion_tokens"),
    COMPLETIONS: ("max_tokens",),
    RESPONSES: ("max_output_tokens",),
    MESSAGES: ("max_tokens",),
}


def needs(body: dict[str, Any]) -> frozenset[str]:
    """Return the capabilities that a request needs: `tools`, `vision`, both or none."""
    found = {"tools"} if any(body.get(key) for key in _TOOLS) else set()
    if any(isinstance(part, dict) for part in _parts(body)):
        found.add("vision")
    return frozenset(found)


def texts(body: dict[str, Any]) -> Iterator[str]:
    """Yield all that a model reads, without pictures."""
    yield from (part for part in _parts(body) if isinstance(part, str))
    yield from (json.dumps(body[key]) for key in _TOOLS if body.get(key))


def pictures(body: dict[str, Any]) -> int:
    """Return how many pictures a conversation has."""
    return sum(isinstance(part, dict) for part in _parts(body))


def _parts(body: dict[str, Any]) -> Iterator[str | dict[str, Any]]:
    """Yield each text of a conversation, and each picture as the mapping that holds it."""
    held: list[Any] = [body.get(key) for key in _CONVERSATION]
    while held:
        part = held.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            held += part
        elif isinstance(part, dict):
            if part.get("type") in _PICTURES:
                yield part
            else:
                held += [value for key, value in part.items() if key not in _UNREAD]


def with_thinking(path: str, body: dict[str, Any], level: str, model: ModelInfo) -> dict[str, Any]:
    """Return the request with as much thinking as it says, or as `level` of its alias does.

    A model that does not think gets none of this, because Ollama would reject the request.
    """
    requested = _requested(path, body)
    effort = requested or {"off": "none", "auto": None}.get(level, level)
    if effort == "none" and model.always_thinks:
        effort = "low"
    made = {key: value for key, value in body.items() if key not in THOUGHT}
    if "thinking" not in model.capabilities or path == COMPLETIONS:
        return made
    if path == RESPONSES:
        given = body.get("reasoning")
        reasoning = {**(given if isinstance(given, dict) else {}), "effort": effort}
        return {**made, "reasoning": reasoning} if effort else made
    if path == CHAT:
        return {**made, "reasoning_effort": effort} if effort else made
    if effort == "none":
        return {**made, "thinking": {"type": "disabled"}}
    if effort and model.leaves:
        budget = {"type": "enabled", "budget_tokens": _BUDGETS.get(effort, 1024)}
        return {**made, "thinking": body["thinking"] if requested == effort else budget}
    # For a budget, LiteLLM would use the interface for responses.
    if effort:
        config = {**(body.get("output_config") or {}), "effort": effort}
        return {**made, "thinking": {"type": "adaptive"}, "output_config": config}
    return made


def _requested(path: str, body: dict[str, Any]) -> Any:
    """Return the level that a request names itself, `none` for off; None if it names none."""
    if path != MESSAGES:
        reasoning = body.get("reasoning")
        effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
        return (body.get("reasoning_effort") if path == CHAT else None) or effort
    thinking, config = body.get("thinking"), body.get("output_config")
    if not isinstance(thinking, dict):
        return None
    if thinking.get("type") == "disabled":
        return "none"
    if isinstance(config, dict) and config.get("effort"):
        return config["effort"]
    budget = thinking.get("budget_tokens")
    most = budget if isinstance(budget, int) else _BUDGETS["medium"]
    return max(
        (n for n in _BUDGETS if _BUDGETS[n] <= most), key=_BUDGETS.__getitem__, default="low"
    )


def with_limit(path: str, body: dict[str, Any], tokens: int | None) -> dict[str, Any]:
    """Return the request with an answer of at most `tokens`, so that its end is visible.

    Without a limit Ollama would forget the start of the conversation to go on.
    """
    names = _LIMITS.get(path)
    if tokens is None or names is None:
        return body
    given = [body[name] for name in names if isinstance(body.get(name), int)]
    # Ollama does not know the second name.
    return {k: v for k, v in body.items() if k not in names} | {names[0]: min([*given, tokens])}
