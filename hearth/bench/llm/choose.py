"""Which models and aliases of a house are measured, and why the others are not."""

from __future__ import annotations

from collections.abc import Collection

from hearth.bench.llm.requests import Target
from hearth.catalogue import suggest
from hearth.catalogue.house import House, Model
from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint
from hearth.clients.llm import gateway_of, least_thought, local_model
from hearth.clients.loaded import is_cardless
from hearth.clients.models import READY, Overview

# A cold load of a large model from a slow disk, and a long answer of a slow processor.
CALL_S = 900.0


def choose_targets(
    house: House, states: Overview, named: Collection[str], key: str
) -> tuple[list[Target], dict[str, str]]:
    """Return the models to measure, all local ones without names, and why others are not.

    An alias is measured by its own name through the gateway, and directly by its first local model.

    Raises:
        ClientError: a name is neither a model nor an alias, or the house has no gateway.
    """
    found, skipped = [], {}
    for name in named:
        if name not in house.models and name not in house.aliases:
            raise ClientError(
                f"no model or alias {name!r}: {suggest(name, [*house.aliases, *house.models])}"
            )
    chats = [one.name for one in house.models.values() if one.kind == "chat" and one.local]
    for name in dict.fromkeys(named or chats):
        try:
            model = local_model(house, name)
        except ClientError as error:
            skipped[name] = _why(house, name) or str(error)
            continue
        state = states.models[model.name]
        if model.kind != "chat":
            skipped[name] = "it generates no text"
        elif state.state != READY:
            skipped[name] = f"it is not there yet ({state.state.replace('_', ' ')})"
        else:
            found.append(target_of(house, name, model, key))
    return found, skipped


def _why(house: House, name: str) -> str:
    model = house.models.get(name)
    return (model.reason or "") if model and not model.usable else ""


def target_of(house: House, name: str, model: Model, key: str) -> Target:
    """Return how a model is called directly and through the gateway."""
    server, gateway = house.services[model.service or ""], gateway_of(house)
    return Target(
        name,
        model.id,
        model.name,
        # An alias has its own level of thinking.
        quiet=bool(least_thought(model)),
        calls="tools" in model.capabilities,
        cardless=is_cardless(server),
        context=model.context or 8192,
        direct=Endpoint("direct", server.url, model.id, call_s=CALL_S),
        gateway=Endpoint("gateway", gateway.url, name, key, call_s=CALL_S),
    )
