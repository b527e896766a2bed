"""The names that a consumer may use, as programs want them and as people are shown them."""

from __future__ import annotations

from typing import Any

from hearth_gateway.pictures import onlooker
from hearth_gateway.request import Stop
from hearth_gateway.settings import Consumer, House, Name


def listing(path: str, consumer: Consumer, house: House) -> dict[str, Any]:
    """Return the names that this consumer may use, aliases first, or the one `path` asks for."""
    names = sorted(
        (house.names[name] for name in consumer.names),
        key=lambda name: (not name.shown.alias, name.name),
    )
    wanted = path.removeprefix("/v1/models").removeprefix("/")
    if not wanted:
        return {"object": "list", "data": [_entry(name, consumer, house) for name in names]}
    if wanted not in consumer.names:
        raise Stop(404, f"this key does not open the model {wanted[:80]!r}", "model_not_found")
    return _entry(house.names[wanted], consumer, house)


def _entry(name: Name, consumer: Consumer, house: House) -> dict[str, Any]:
    """One name in OpenAI's shape; Open WebUI reads the rest, other programs leave it."""
    shown = name.shown
    capabilities = {
        "vision": onlooker(name, consumer, house) is not None,
        "usage": True,
        # Open WebUI's own tools are 20 kB of JSON before every question: at home that is a minute
        # until the first word.
        "builtin_tools": False,
    }
    meta: dict[str, Any] = {"description": shown.summary, "capabilities": capabilities}
    if not shown.talks:
        meta["hidden"] = True  # one cannot talk with it; whoever knows its name may call it
    return {
        "id": name.name,
        "object": "model",
        "created": 0,
        "owned_by": "hearth",
        "name": shown.title,
        "connection_type": "external" if shown.leaves else "local",
        "info": {"meta": meta},
    }
