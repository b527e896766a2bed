"""A small house for tests of the gateway: only its models, aliases and consumers vary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hearth.catalogue import House, derive, load
from hearth.catalogue.house import Alias, Consumer, Model

BASE = Path(__file__).parent / "fixtures" / "catalogue" / "base"
_OLLAMA = Model(
    name="",
    id="",
    provider="ollama",
    litellm="ollama",
    local=True,
    pulled=True,
    service="ollama",
    usable=True,
)


def model(name: str, url: str, **more: Any) -> Model:
    """Return a usable model of a server at `url`, by default one of this house for chats."""
    return replace(_OLLAMA, **{"name": name, "id": name, "url": url} | more)


def alias(name: str, *members: str, **more: Any) -> Alias:
    """Return an alias that is offered."""
    made = Alias(
        name=name,
        kind="chat",
        members=members,
        dropped={},
        offered=True,
    )
    return replace(made, **more)


def small_house(
    models: Iterable[Model],
    aliases: Iterable[Alias],
    consumers: Mapping[str, Sequence[str]],
    others: Iterable[str] = (),
) -> House:
    """Return a house whose consumers hold a key of its gateway, or of another service.

    Args:
        models: All its models.
        aliases: All its aliases.
        consumers: The models that each consumer of the gateway may call.
        others: Consumers that may call another service only, with every model.
    """
    held = {
        name: Consumer(
            name=name,
            summary="",
            services=("litellm",),
            models=called if isinstance(called, str) else tuple(called),
            secret=name,
        )
        for name, called in consumers.items()
    }
    held |= {
        name: Consumer(name=name, summary="", services=("other",), secret=name) for name in others
    }
    return replace(
        derive(load(BASE)),
        models={model.name: model for model in models},
        aliases={alias.name: alias for alias in aliases},
        consumers=held,
    )
