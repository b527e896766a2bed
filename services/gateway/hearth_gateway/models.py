"""The models that a consumer may use: their list, and which members see a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hearth_gateway.settings import Consumer, GatewayConfig, Name
from hearth_serving.errors import ServiceError

# The alias for pictures where no member of an alias sees.
VISION = "vision"
# A picture in the chat interface, and in the Responses interface.
_PICTURES = ("image_url", "input_image")


def list_models(path: str, consumer: Consumer, config: GatewayConfig) -> dict[str, Any]:
    """Return the names that this consumer may use, aliases first, or the one in `path`."""
    names = sorted(
        (config.names[name] for name in consumer.names),
        key=lambda name: (not name.info.alias, name.name),
    )
    wanted = path.removeprefix("/v1/models").removeprefix("/")
    if not wanted:
        return {"object": "list", "data": [_entry(name, consumer, config) for name in names]}
    if wanted not in consumer.names:
        message = f"this key may not use the model {wanted[:80]!r}"
        raise ServiceError(message, status=404, code="model_not_found")
    return _entry(config.names[wanted], consumer, config)


def _entry(name: Name, consumer: Consumer, config: GatewayConfig) -> dict[str, Any]:
    """Return one name in OpenAI's shape; only Open WebUI reads the additional fields."""
    info = name.info
    capabilities = {
        "vision": with_vision(name, consumer, config) is not None,
        "usage": True,
        # Open WebUI's own tools put 20 kB of JSON before every question: a minute to the first
        # token on a small machine.
        "builtin_tools": False,
    }
    meta: dict[str, Any] = {"description": info.summary, "capabilities": capabilities}
    if not info.talks:
        meta["hidden"] = True  # it cannot chat; programs can still use it by its name
    return {
        "id": name.name,
        "object": "model",
        "created": 0,
        "owned_by": "hearth",
        "name": info.title,
        "connection_type": "external" if info.leaves else "local",
        "info": {"meta": meta},
    }


def with_vision(name: Name, consumer: Consumer, config: GatewayConfig) -> Name | None:
    """Return the name that answers for `name` with a picture; None when no member sees.

    A model that was requested by its own name is never replaced.
    """
    if name.info.sees:
        return replace(name, members=name.info.sees)
    if not (name.info.alias and name.info.talks and VISION in consumer.names):
        return None
    vision = config.names[VISION]
    return replace(vision, members=vision.info.sees or vision.members)


def has_picture(body: dict[str, Any]) -> bool:
    """Return whether a picture is anywhere in the conversation."""
    return any(part.get("type") in _PICTURES for part in _parts(body))


def _parts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("messages", "input"):
        messages = body.get(key)
        for message in messages if isinstance(messages, list) else ():
            content = message.get("content") if isinstance(message, dict) else None
            if isinstance(content, list):
                yield from (part for part in content if isinstance(part, dict))
