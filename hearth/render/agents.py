"""Data for the agents' server and for the broker, which gives agents the house's tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hearth.catalogue.house import Agent, House, Part, Service

# What a reference inventory shows instead of the SHA-256 of a key that does not exist.
NO_DIGEST = "0" * 64


def agents_config(house: House, service: Service, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of the agents' server; `digests` has the SHA-256 of each key."""
    gateway, *_ = house.offering("models")
    return {
        "litellm": f"{gateway.url}/v1",
        "broker": next(house.parts[name].url for name in service.calls),
        "consumers": {
            consumer.name: digests.get(consumer.name, NO_DIGEST)
            for consumer in house.consumers.values()
            if service.name in consumer.services
        },
        "agents": {agent.name: _agent(agent) for agent in house.agents.values()},
        "limits": asdict(house.agent_limits),
        "prices": {
            model.name: asdict(model.price)
            for model in house.models.values()
            if model.usable and model.price
        },
    }


def _agent(agent: Agent) -> dict[str, Any]:
    return {
        "title": agent.title,
        "summary": agent.summary,
        "alias": agent.alias,
        "instructions": agent.instructions.strip(),
        "specialists": list(agent.specialists),
        "tools": list(agent.tools),
        "words": list(agent.words),
    }


def broker_config(
    house: House, name: str, digests: Mapping[str, str], project: str
) -> dict[str, Any]:
    """Return the configuration of the broker, the part of this name.

    Args:
        house: The house.
        name: The part.
        digests: The SHA-256 of each consumer's key.
        project: The checkout whose `scripts/hearth` carries out what a person has approved.
    """
    return {
        "project": project,
        "home": _site_of_pages(house, house.parts[name]),
        "consumers": {
            consumer.name: {
                "sha256": digests.get(consumer.name, NO_DIGEST),
                "verbs": list(consumer.verbs),
                "inside": consumer.inside,
            }
            for consumer in house.consumers.values()
            if name in consumer.services
        },
    }


def _site_of_pages(house: House, part: Part) -> str:
    """Return the site on which people approve: the one with a path that leads to the part."""
    sites = (site for site in house.sites if part.url in site.routed.values())
    return next(site.fqdn for site in sites)
