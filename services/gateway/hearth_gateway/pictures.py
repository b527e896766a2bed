"""Who looks at a picture: the members that see, or the alias `vision` for an alias without any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hearth_gateway.settings import Consumer, House, Name

# The alias that looks at pictures for those that cannot.
EYES = "vision"
# A picture in the chat interface, and in the Responses interface.
_PICTURES = ("image_url", "input_image")


def onlooker(name: Name, consumer: Consumer, house: House) -> Name | None:
    """Return who answers for `name` where a picture is shown; None when nobody is known to see.

    A model that was called by its own name is never exchanged for another one.
    """
    if name.shown.sees:
        return replace(name, members=name.shown.sees)
    if not (name.shown.alias and name.shown.talks and EYES in consumer.names):
        return None
    eyes = house.names[EYES]
    return replace(eyes, members=eyes.shown.sees or eyes.members)


def shows_picture(body: dict[str, Any]) -> bool:
    """Say whether a picture is anywhere in the conversation."""
    return any(part.get("type") in _PICTURES for part in _parts(body))


def _parts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("messages", "input"):
        said = body.get(key)
        for message in said if isinstance(said, list) else ():
            content = message.get("content") if isinstance(message, dict) else None
            if isinstance(content, list):
                yield from (part for part in content if isinstance(part, dict))
