"""Which models of a house can be measured, and why the others cannot."""

from __future__ import annotations

from collections.abc import Collection

from hearth.bench.agents.run import Candidate
from hearth.catalogue import suggest
from hearth.catalogue.house import Alias, House, Model
from hearth.clients import ClientError
from hearth.clients.llm import least_thought
from hearth.clients.models import CLOUD, READY, Overview

TOOLS = "tools"
IN_CLOUD = "it is in the cloud, where a run costs money: name it, or write --cloud"


def select_models(
    house: House, states: Overview, named: Collection[str], *, cloud: bool, thinking: str
) -> tuple[list[Candidate], dict[str, str]]:
    """Return the models and aliases to measure, and for each other one that calls tools why not.

    Raises:
        ClientError: a name is neither a model nor an alias.
    """
    for name in named:
        if name not in house.models and name not in house.aliases:
            known = [*house.aliases, *house.models]
            raise ClientError(f"no model or alias {name!r}: {suggest(name, known)}")
    found, skipped = [], {}
    for model in house.models.values():
        if model.name in named or (not named and TOOLS in model.capabilities):
            state = states.models[model.name]
            reason = _reason(model, state.state, state.reason, cloud or model.name in named)
            if reason:
                skipped[model.name] = reason
            else:
                more = _effort(model, thinking)
                digest = state.digest or model.digest or ""
                found.append(Candidate(model.name, digest, not model.local, more))
    for alias in house.aliases.values():
        if alias.name in named:
            if alias.offered and TOOLS in alias.capabilities:
                found.append(Candidate(alias.name, _members(alias, states), alias.cloud))
            else:
                skipped[alias.name] = alias.reason or "not all of its models call tools"
    return found, skipped


def _reason(model: Model, state: str, why: str, cloud: bool) -> str:
    if TOOLS not in model.capabilities:
        return "it calls no tools: see `capabilities` in inventory/models.yml"
    if not model.usable:
        return model.reason or "it is not usable"
    if state not in (READY, CLOUD):
        return f"it is not there yet ({state.replace('_', ' ')}{': ' if why else ''}{why})"
    return "" if model.local or cloud else IN_CLOUD


def _effort(model: Model, thinking: str) -> dict[str, str]:
    """Return the field of a request for a level of thinking, as an alias sets it."""
    if thinking == "auto" or "thinking" not in model.capabilities:
        return {}
    return least_thought(model) if thinking == "off" else {"reasoning_effort": thinking}


def _members(alias: Alias, states: Overview) -> str:
    return " ".join(f"{name}@{states.models[name].digest or ''}" for name in alias.members)
