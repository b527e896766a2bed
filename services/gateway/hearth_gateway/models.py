"""The models that a consumer may use: their list, and which members can serve a request."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from hearth_gateway.settings import Consumer, GatewayConfig, Name
from hearth_serving.errors import ServiceError

# The alias for pictures where no member of an alias sees.
VISION = "vision"
_DOES = {"tools": "calls tools", "vision": "sees pictures"}


def list_models(path: str, consumer: Consumer, config: GatewayConfig) -> dict[str, Any]:
    """Return the names that this consumer may use, aliases first, or the one in `path`."""
    wanted = path.removeprefix("/v1/models").removeprefix("/")
    if not wanted:
        names = names_of(consumer, config)
        return {"object": "list", "data": [_entry(name, consumer, config) for name in names]}
    if wanted not in consumer.names:
        raise unknown(wanted, consumer)
    return _entry(config.names[wanted], consumer, config)


def names_of(consumer: Consumer, config: GatewayConfig) -> list[Name]:
    """Return the names of this consumer, aliases first."""
    names = (config.names[name] for name in consumer.names)
    return sorted(names, key=lambda name: (not name.info.alias, name.name))


def _entry(name: Name, consumer: Consumer, config: GatewayConfig) -> dict[str, Any]:
    """Return one name in OpenAI's shape; only Open WebUI reads the additional fields."""
    info = name.info
    capabilities = {
        "vision": able(name, frozenset({VISION}), consumer, config) is not None,
        "usage": True,
        # Open WebUI's own tools put 20 kB of JSON before every question: a minute to the first
        # token on a small machine.
        "builtin_tools": False,
    }
    meta: dict[str, Any] = {"description": info.summary, "capabilities": capabilities}
    if not info.talks:
        meta["hidden"] = True  # it cannot chat; programs can still use it by its name
    contexts = [config.names[member].info.context for member in name.members]
    known = {"context_length": min(filter(None, contexts))} if all(contexts) else {}
    return {
        "id": name.name,
        "object": "model",
        "created": 0,
        "owned_by": "hearth",
        "name": info.title,
        "connection_type": "external" if info.leaves else "local",
        "info": {"meta": meta},
        **known,
    }


def able(
    name: Name, needed: frozenset[str], consumer: Consumer, config: GatewayConfig
) -> Name | None:
    """Return the name that answers for `name` where capabilities are needed; None if none has them.

    For a picture that is the alias `vision`, if the key allows it. A model that was requested by
    its own name is never replaced.
    """
    members = tuple(m for m in name.members if needed <= config.names[m].info.capabilities)
    if members or not needed:
        return replace(name, members=members or name.members)
    replaceable = name.info.alias and name.info.talks and name.name != VISION
    if VISION in needed and replaceable and VISION in consumer.names:
        return able(config.names[VISION], needed, consumer, config)
    return None


def unthinking(name: Name, config: GatewayConfig) -> Name:
    """Return the name with the members that do not think, if there are any.

    Ollama's interface for plain completions cannot turn thinking off, and drops the thoughts.
    """
    plain = tuple(m for m in name.members if "thinking" not in config.names[m].info.capabilities)
    return replace(name, members=plain or name.members)


def unable(
    name: Name, needed: frozenset[str], consumer: Consumer, config: GatewayConfig
) -> ServiceError:
    """Return the error for what no member of `name` can do, with the names that can."""
    does = " and ".join(_DOES[each] for each in sorted(needed))
    found = [
        other.name
        for other in names_of(consumer, config)
        if other.info.talks and able(other, needed, consumer, config)
    ]
    cure = f"these do: {', '.join(found)}" if found else "no model of this key does"
    return ServiceError(
        f"{name.name} has no model that {does}; {cure}", code="unsupported_capability"
    )


def unknown(wanted: str, consumer: Consumer) -> ServiceError:
    """Return the error for a name that does not exist, with similar ones of this consumer."""
    near = get_close_matches(wanted[:80].lower(), sorted(consumer.names), cutoff=0.5)
    cure = f"did you mean {' or '.join(near)}?" if near else "/v1/models lists those of this key"
    message = f"no model is named {wanted[:80]!r}; {cure}"
    return ServiceError(message, status=404, code="model_not_found", param="model")
