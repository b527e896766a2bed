"""How the tests talk to the gateway: one chat, streamed or not, and what came back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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
