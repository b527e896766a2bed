"""Chat requests to the gateway, streamed or not, and their answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import httpx

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hello"}]


@dataclass(slots=True)
class Answer:
    """One answer: its text, its member, why it ended, and its error."""

    status: int
    member: str | None
    models: set[str] = field(default_factory=set)
    text: str = ""
    end: str | None = None
    error: dict[str, Any] | None = None
    done: bool = False


def chat(client: httpx.Client, model: str, mode: str = "plain", **more: Any) -> Answer:
    """Send one request to `model`."""
    body = {"model": model, "messages": MESSAGES, **more}
    if mode == "plain":
        return _plain(client.post(CHAT, json=body))
    with client.stream("POST", CHAT, json={**body, "stream": True}) as response:
        if response.is_success:
            return _streamed(response)
        response.read()
        return _plain(response)


def disconnect(request: httpx.Request, arrived: Callable[[], bool], within_s: float = 30) -> None:
    """Send a request, and disconnect as soon as it has `arrived` at the member."""
    host, port = request.url.host, request.url.port
    with closing(HTTPConnection(host, port, timeout=within_s)) as caller:
        caller.request(request.method, request.url.path, request.read(), dict(request.headers))
        end = time.monotonic() + within_s
        while not arrived():
            assert time.monotonic() < end, "the request never arrived"
            time.sleep(0.02)


def _plain(response: httpx.Response) -> Answer:
    answer = Answer(response.status_code, response.headers.get("x-hearth-model"))
    content = response.json()
    answer.error = content.get("error")
    if response.is_success:
        choice = content["choices"][0]
        answer.models = {content["model"]}
        answer.text, answer.end = choice["message"]["content"], choice["finish_reason"]
        answer.done = True
    return answer


def _streamed(response: httpx.Response) -> Answer:
    answer = Answer(response.status_code, response.headers.get("x-hearth-model"))
    for line in response.iter_lines():
        if line == "data: [DONE]":
            answer.done = True
        elif line.startswith("data:"):
            event = json.loads(line[5:])
            answer.error = event.get("error") or answer.error
            answer.models |= {event["model"]} if "model" in event else set()
            for choice in event.get("choices", []):
                answer.text += choice["delta"].get("content") or ""
                answer.end = choice.get("finish_reason") or answer.end
    return answer
