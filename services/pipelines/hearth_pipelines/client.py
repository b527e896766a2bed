"""A client for the house's models, for use in pipelines, with their own key."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests

from hearth_pipelines.errors import PipelineError

CONNECT_S = 5.0
FORWARDED = {"max_tokens", "temperature", "top_p", "seed", "stop", "reasoning_effort"}
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
    end = time.monotonic() + timeout_s
    try:
        yield from _stream(model, messages, options or {}, end)
    except requests.Timeout:
        raise PipelineError(f"{model} gave no answer in time") from None
    except requests.RequestException:
        # Its text names an internal address, which does not help the user.
        raise PipelineError(f"{model} cannot be reached, or broke off") from None


def _stream(
    model: str, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any], end: float
) -> Iterator[str]:
    selected = [{"role": message["role"], "content": message["content"]} for message in messages]
    body: dict[str, Any] = {"model": model, "messages": selected, "stream": True}
    with requests.Session() as session:
        session.trust_env = False  # ignore proxy variables
        with session.post(
            f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
            json=body | {name: value for name, value in options.items() if name in FORWARDED},
            headers={"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
            stream=True,
            timeout=(CONNECT_S, max(end - time.monotonic(), CONNECT_S)),
        ) as response:
            if response.status_code != 200:
                raise PipelineError(f"{model} has no answer: {_reason(response.content)}")
            yield from _pieces(model, response, end)


def _pieces(model: str, response: requests.Response, end: float) -> Iterator[str]:
    finished = thought = answered = False
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
