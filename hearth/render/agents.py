"""Data for the agents' server and for the broker, which gives agents the house's tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Agent, House, Part, Service
from hearth.paths import RECEIPT_FOLDER

# What a reference inventory shows instead of the SHA-256 of a key that does not exist.
NO_DIGEST = "0" * 64
MEASURED = RECEIPT_FOLDER / "bench-agents.json"


def agents_config(
    house: House, service: Service, digests: Mapping[str, str], measured: str = ""
) -> dict[str, Any]:
    """Return the configuration of the agents' server.

    Args:
        house: The house.
        service: The agents' server.
        digests: The SHA-256 of each consumer's key.
        measured: The report of `hearth bench agents`, if it may be read.
    """
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
        "chats": [*house.chat_sites],
        "untrusted": untrusted(house, read_scores(Path(measured))) if measured else {},
    }


def read_scores(path: Path) -> dict[str, Any]:
    """Return the scores that `hearth bench agents` wrote; none without a valid report."""
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return scores if isinstance(scores, dict) else {}


def untrusted(house: House, scores: Mapping[str, Any]) -> dict[str, str]:
    """Return the aliases of agents that lead others, and why they are not trusted with tools.

    An alias has the score of its first model, unless it was measured itself.
    """
    found = {}
    for alias, name in _leading(house).items():
        score = scores.get(alias) or scores.get(name)
        if score and not score["trusted"]:
            right = f"{score['right']} of {score['played']} tasks right"
            found[alias] = f"{name} cannot be trusted with tools ({right} in hearth bench agents)"
    return found


def notes_on_trust(house: House, path: Path = MEASURED) -> list[str]:
    """Return a line for each leading alias whose model is not trusted, or was not measured."""
    if not house.offering("agents"):
        return []
    scores = read_scores(path)
    lines = [f"the team routes by rules: {why}" for why in untrusted(house, scores).values()]
    unknown = [name for alias, name in _leading(house).items() if not {alias, name} & {*scores}]
    return lines + [
        f"whether {name} can be trusted with tools was not measured: run `hearth bench agents`"
        for name in unknown
    ]


def _leading(house: House) -> dict[str, str]:
    """Return the aliases of the agents that lead others, and the first model of each."""
    names = {agent.alias for agent in house.agents.values() if agent.specialists}
    aliases = [house.aliases[name] for name in sorted(names) if name in house.aliases]
    return {alias.name: alias.members[0] for alias in aliases if alias.members}


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
    part = house.parts[name]
    return {
        "project": project,
        "home": _site_of_pages(house, part),
        "chats": house.chat_sites,
        **{key: f"/run/credentials/{part.unit}/{key}" for key in search_credentials(house)},
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


def search_credentials(house: House) -> dict[str, str]:
    """Return the secret of the search server as a credential of the broker; none without one."""
    secrets = [name for server in house.offering("search")[:1] for name in server.secrets]
    return {"search_key": secrets[0]} if secrets else {}


def _site_of_pages(house: House, part: Part) -> str:
    """Return the site on which people approve: the one with a path that leads to the part."""
    sites = (site for site in house.sites if part.url in site.routed.values())
    return next(site.fqdn for site in sites)
