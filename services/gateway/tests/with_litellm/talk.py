"""How the tests talk to the gateway: one chat, streamed or not, and what came back."""

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
class Heard:
    """One answer: its text, who gave it, why it ended, and the error if there was one."""

    status: int
    member: str | None
    models: set[str] = field(default_factory=set)
    text: str = ""
    end: str | None = None
    error: dict[str, Any] | None = None
    done: bool = False


def chat(client: httpx.Client, model: str, mode: str = "plain", **more: Any) -> Heard:
    """Ask `model` one thing."""
    body = {"model": model, "messages": MESSAGES, **more}
    if mode == "plain":
        return _plain(client.post(CHAT, json=body))
    with client.stream("POST", CHAT, json={**body, "stream": True}) as response:
        if response.is_success:
            return _streamed(response)
        response.read()
        return _plain(response)


def leave(request: httpx.Request, asked: Callable[[], bool], within_s: float = 30) -> None:
    """Send a request, and hang up as soon as the member was `asked`, without an answer."""
    host, port = request.url.host, request.url.port
    with closing(HTTPConnection(host, port, timeout=within_s)) as caller:
        caller.request(request.method, request.url.path, request.read(), dict(request.headers))
        end = time.monotonic() + within_s
        while not asked():
            assert time.monotonic() < end, "no member was asked"
            time.sleep(0.02)


def _plain(response: httpx.Response) -> Heard:
    heard = Heard(response.status_code, response.headers.get("x-hearth-model"))
    content = response.json()
    heard.error = content.get("error")
    if response.is_success:
        choice = content["choices"][0]
        heard.models = {content["model"]}
        heard.text, heard.end = choice["message"]["content"], choice["finish_reason"]
        heard.done = True
    return heard


def _streamed(response: httpx.Response) -> Heard:
    heard = Heard(response.status_code, response.headers.get("x-hearth-model"))
    for line in response.iter_lines():
        if line == "data: [DONE]":
            heard.done = True
        elif line.startswith("data:"):
            event = json.loads(line[5:])
            heard.error = event.get("error") or heard.error
            heard.models |= {event["model"]} if "model" in event else set()
            for choice in event.get("choices", []):
                heard.text += choice["delta"].get("content") or ""
                heard.end = choice.get("finish_reason") or heard.end
    return heard
