"""Ask the house's models from inside a pipeline, with the pipelines' own key."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import requests

from hearth_pipelines.errors import PipelineError

CONNECT_S = 5.0
PASSED_ON = {"max_tokens", "temperature", "top_p", "seed", "stop"}


def ask(
    model: str,
    messages: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any] | None = None,
    *,
    within_s: float = 600,
) -> Iterator[str]:
    """Give a model's answer piece by piece, as it is made.

    `model` is a name of inventory/aliases.yml or inventory/models.yml; of `messages` only role and
    content go on. Of `options`, which may be a pipeline's whole `body`, those go on that say how
    long and how freely a model shall answer.

    Raises:
        PipelineError: it refuses, breaks off or takes longer than `within_s`; words for people.
    """
    end = time.monotonic() + within_s
    try:
        yield from _stream(model, messages, options or {}, end)
    except requests.Timeout:
        raise PipelineError(f"{model} gave no answer in time") from None
    except requests.RequestException:
        # Its text would name an address that tells nobody anything.
        raise PipelineError(f"{model} cannot be reached, or broke off") from None


def _stream(
    model: str, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any], end: float
) -> Iterator[str]:
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    body: dict[str, Any] = {"model": model, "messages": plain, "stream": True}
    with requests.Session() as session:
        session.trust_env = False  # a proxy of the environment has no part in this house
        with session.post(
            f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
            json=body | {name: value for name, value in options.items() if name in PASSED_ON},
            headers={"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
            stream=True,
            timeout=(CONNECT_S, max(end - time.monotonic(), CONNECT_S)),
        ) as answer:
            if answer.status_code != 200:
                raise PipelineError(f"{model} has no answer: {_reason(answer.content)}")
            yield from _pieces(model, answer, end)


def _pieces(model: str, answer: requests.Response, end: float) -> Iterator[str]:
    finished = False
    for line in answer.iter_lines():
        # The timeout bounds each read alone, and a drip would never end.
        if time.monotonic() > end:
            raise PipelineError(f"{model} gave no whole answer in time")
        kind, _, data = line.partition(b":")
        if kind != b"data" or data.strip() == b"[DONE]":
            continue
        event = _event(data)
        if "error" in event:
            raise PipelineError(f"{model} broke off: {_reason(data)}")
        for choice in event.get("choices", [])[:1]:
            finished = finished or bool(choice.get("finish_reason"))
            if piece := (choice.get("delta") or {}).get("content"):
                yield piece
    if not finished:
        raise PipelineError(f"{model} broke off")


def _event(data: bytes) -> dict[str, Any]:
    try:
        event = json.loads(data)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _reason(body: bytes) -> str:
    """Return the gateway's own words for people."""
    error = _event(body).get("error")
    words = error.get("message") if isinstance(error, dict) else error
    return str(words) if words else "no reason was given"
