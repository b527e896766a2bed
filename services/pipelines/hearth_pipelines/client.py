"""A client for the house's models, for use in pipelines, with their own key."""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests

from hearth_pipelines.errors import PipelineError

CONNECT_S = 5.0
FORWARDED = {"max_tokens", "temperature", "top_p", "seed", "stop", "reasoning_effort"}
# What the agents' server accepts as the ID of a chat.
CHAT = re.compile(r"[\w.:-]{1,100}")
# A thought's fields, by different servers.
THOUGHT = ("reasoning_content", "reasoning")


def ask(
    model: str,
    messages: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 600,
) -> Iterator[str]:
    """Send messages to a model, and yield its answer in pieces as it arrives, without its thought.

    `model` is a name in inventory/aliases.yml or inventory/models.yml. Only role and content of
    `messages` are sent. `options` may be a pipeline's whole `body`; of it, the length limit, the
    sampling parameters and the reasoning effort are sent.

    Raises:
        PipelineError: the model refuses, fails, only thinks or takes longer than `timeout_s`.
    """
    given = {name: value for name, value in (options or {}).items() if name in FORWARDED}
    end = time.monotonic() + timeout_s
    finished = thought = answered = False
    for event in _events(os.environ["OPENAI_BASE_URL"], model, messages, given, {}, end):
        for choice in event.get("choices", [])[:1]:
            finished = finished or bool(choice.get("finish_reason"))
            delta = choice.get("delta") or {}
            thought = thought or any(delta.get(field) for field in THOUGHT)
            if piece := delta.get("content"):
                answered = True
                yield piece
    if not finished:
        raise PipelineError(f"{model} broke off")
    if thought and not answered:
        cure = "allow a longer answer, or a lower reasoning effort"
        raise PipelineError(f"{model} ended in thought alone: {cure}")


def ask_agent(
    agent: str,
    messages: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 3600,
) -> Iterator[dict[str, Any]]:
    """Send messages to an agent of the house, and yield the events of its stream as they arrive.

    `agent` is `agent-team`, or a name in inventory/agents.yml. Each step is an event; people read
    it in `reasoning_content` of the delta, programs in `hearth`. `options` may be a pipeline's
    whole `body`; of it, only the chat's ID is used, by which a run that waits is found again.

    Raises:
        PipelineError: this house has no agents, or the agent fails or takes longer than
            `timeout_s`.
    """
    url = os.environ.get("AGENTS_BASE_URL")
    if not url:
        raise PipelineError(
            "this house has no agents: write `agents: {enabled: true}` under `services:` in "
            "inventory/local/services.yml, and run `sudo scripts/up`"
        )
    chat = str((options or {}).get("chat_id") or "")
    headers = {"X-Hearth-Chat": chat} if CHAT.fullmatch(chat) else {}
    finished, end = False, time.monotonic() + timeout_s
    for event in _events(url, agent, messages, {}, headers, end):
        finished = finished or any(one.get("finish_reason") for one in event.get("choices", []))
        yield event
    if not finished:
        raise PipelineError(f"{agent} broke off")


def _events(
    url: str,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
    headers: Mapping[str, str],
    end: float,
) -> Iterator[dict[str, Any]]:
    try:
        yield from _stream(url, model, messages, given, headers, end)
    except requests.Timeout:
        raise PipelineError(f"{model} gave no answer in time") from None
    except requests.RequestException:
        # Its text names an internal address, which does not help the user.
        raise PipelineError(f"{model} cannot be reached, or broke off") from None


def _stream(
    url: str,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
    headers: Mapping[str, str],
    end: float,
) -> Iterator[dict[str, Any]]:
    selected = [{"role": message["role"], "content": message["content"]} for message in messages]
    body: dict[str, Any] = {"model": model, "messages": selected, "stream": True, **given}
    with requests.Session() as session:
        session.trust_env = False  # ignore proxy variables
        with session.post(
            f"{url}/chat/completions",
            json=body,
            headers={"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", **headers},
            stream=True,
            timeout=(CONNECT_S, max(end - time.monotonic(), CONNECT_S)),
        ) as response:
            if response.status_code != 200:
                raise PipelineError(f"{model} has no answer: {_reason(response.content)}")
            yield from _parsed(model, response, end)


def _parsed(model: str, response: requests.Response, end: float) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        # The timeout limits each read only, and a slow stream would never end.
        if time.monotonic() > end:
            raise PipelineError(f"{model} did not finish its answer in time")
        kind, _, data = line.partition(b":")
        if kind != b"data" or data.strip() == b"[DONE]":
            continue
        event = _event(data)
        if "error" in event:
            raise PipelineError(f"{model} broke off: {_reason(data)}")
        yield event


def _event(data: bytes) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _reason(body: bytes) -> str:
    """Return the gateway's error message."""
    error = _event(body).get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return str(message) if message else "no reason was given"
