"""Requests in OpenAI's two shapes, read into one task."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from hearth_agents.brought import Brought, brought_by, marked, text_of
from hearth_agents.config import PREFIX
from hearth_agents.player import Task
from hearth_serving.errors import ServiceError, quoted

MAX_MESSAGES = 2000
_CHAT_HEADERS = ("x-hearth-chat", "x-openwebui-chat-id")
_USER_HEADER = "x-openwebui-user-id"
_PICTURE = re.compile(r"data:image/[a-z.+-]+;base64,")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the task, and how its answer is sent."""

    model: str
    task: Task
    system: str
    brought: list[Brought]
    run_id: str
    chat: str
    streamed: bool
    wants_usage: bool


def read_request(
    body: bytes, headers: Headers, consumer: str, is_ours: Callable[[str], bool], *, is_chat: bool
) -> Asked:
    """Read a request of /v1/chat/completions or /v1/responses; raises ServiceError.

    `is_ours` tells whether an answer in the conversation was written here.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ServiceError("the body must be one JSON object")
    model = content.get("model")
    if not isinstance(model, str):
        raise ServiceError("name a model, such as agent-team", param="model")
    if content.get("previous_response_id"):
        message = "answers are not stored: send the whole conversation as input"
        raise ServiceError(message, param="previous_response_id")
    messages = _messages(content, is_chat=is_chat)
    items, system, texts = _conversation(messages)
    if instructions := content.get("instructions"):
        system = f"{instructions}\n\n{system}".strip()
    options = content.get("stream_options")
    streamed = content.get("stream") is True
    chat, run_id, keys, message = _identity(headers, consumer, model, texts)
    agent = model.removeprefix(PREFIX)
    return Asked(
        model=model,
        task=Task(agent, items, marked(texts[-1]), keys, message, can_wait=streamed),
        system=system,
        brought=brought_by(messages, is_ours),
        run_id=run_id,
        chat=chat,
        streamed=streamed,
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _messages(content: dict[str, Any], *, is_chat: bool) -> list[Any]:
    name = "messages" if is_chat else "input"
    found = content.get(name)
    if isinstance(found, str) and not is_chat:
        return [{"role": "user", "content": found}]
    if not isinstance(found, list) or not found:
        raise ServiceError(f"{name} must be a list of messages", param=name)
    if len(found) > MAX_MESSAGES:
        raise ServiceError(f"a conversation has at most {MAX_MESSAGES} messages", param=name)
    return found


def _conversation(messages: Sequence[Any]) -> tuple[list[Any], str, list[str]]:
    """Return the items for the model, the client's instructions, and the person's texts."""
    items: list[Any] = []
    system, texts = [], []
    for message in messages:
        if not isinstance(message, dict):
            raise ServiceError("each message must be an object with role and content")
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer"):
            system.append(marked(text_of(content)))
        elif role == "user":
            items.append({"role": "user", "content": _parts(content)})
            texts.append(text_of(content))
        elif role == "assistant" and text_of(content).strip():
            items.append({"role": "assistant", "content": text_of(content)})
    # Another program's calls of its own tools have no meaning here.
    if not texts or items[-1]["role"] != "user":
        raise ServiceError("the last message must be the user's")
    return items, "\n\n".join(system).strip(), texts


def _parts(content: Any) -> str | list[dict[str, Any]]:
    """Return a user's content in the shape of the Responses interface, which the SDK reads."""
    if isinstance(content, str):
        return marked(content)
    parts: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else []:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "input_text") and isinstance(part.get("text"), str):
            parts.append({"type": "input_text", "text": marked(part["text"])})
        elif kind in ("image_url", "input_image"):
            parts.append({"type": "input_image", "image_url": _picture(part), "detail": "auto"})
        else:
            raise ServiceError(f"a part of a message is of an unknown type: {quoted(str(kind))}")
    return parts


def _picture(part: dict[str, Any]) -> str:
    found = part.get("image_url")
    url = found.get("url") if isinstance(found, dict) else found
    # An address would be fetched by a model's server, which may reach more than the sender.
    if not isinstance(url, str) or not _PICTURE.match(url):
        raise ServiceError("a picture must be sent as a data: URL")
    return url


def _identity(
    headers: Headers, consumer: str, model: str, texts: Sequence[str]
) -> tuple[str, str, list[str], str]:
    """Return the chat, the run's name for the broker, the keys of a stored run, and a digest.

    The broker counts what a run has read from outside. So a run has one name in the whole chat:
    what was read for one question may steer the answer to the next.
    """
    chat = next((headers[name] for name in _CHAT_HEADERS if headers.get(name)), "")[:100]
    user = headers.get(_USER_HEADER, "")
    run_id = "run-" + _digest(consumer, user, chat or texts[0])[:20]
    prefixes = [_digest(*texts[:count]) for count in range(len(texts), 0, -1)]
    if chat:
        keys = [_digest(consumer, user, model, "chat", chat)]
    else:
        keys = [_digest(consumer, user, model, "texts", one) for one in prefixes]
    return chat or run_id, run_id, keys, prefixes[0]


def _digest(*words: str) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
