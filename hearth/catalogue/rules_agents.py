"""Rules about agents: their models, specialists and tools, and the verbs of consumers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hearth.catalogue import schema
from hearth.catalogue.naming import suggest
from hearth.catalogue.records import Catalogue, Finding


def verbs_of(listed: Iterable[str]) -> tuple[Any, ...]:
    """Return the verbs in a consumer's list, with those of each kind that it names."""
    found = (verb for name in listed for verb in schema.VERBS.get(name, (name,)))
    return tuple(dict.fromkeys(found))


def aliases(catalogue: Catalogue) -> Iterator[Finding]:
    """An agent runs on an alias for chats; one that calls tools needs members that can."""
    for name, record in catalogue.agents.items():
        key, known = ("agents", name, "alias"), catalogue.known("aliases")
        if record.alias not in known:
            yield (
                key,
                f"{name}.alias: no alias is named {record.alias}; {suggest(record.alias, known)}",
            )
            continue
        alias = catalogue.aliases.get(record.alias)
        members = (
            [catalogue.models[m] for m in alias.members if m in catalogue.models] if alias else []
        )
        if any(model.kind != "chat" for model in members):
            text = f"{name}.alias {record.alias} does not chat; write one that does, e.g. fast"
            yield key, text
        elif (
            members and not any("tools" in model.capabilities for model in members) and record.tools
        ):
            where = catalogue.at("aliases", record.alias)
            text = f"{name}.alias {record.alias} has no member that calls tools ({where}); add one"
            yield key, f"{text}, or take the tools out"


def specialists(catalogue: Catalogue) -> Iterator[Finding]:
    """A specialist is another agent, without specialists of its own."""
    known = catalogue.known("agents")
    for name, record in catalogue.agents.items():
        for index, one in enumerate(record.specialists):
            key, text = ("agents", name, "specialists", index), f"{name}.specialists"
            other = catalogue.agents.get(one)
            if one == name:
                yield key, f"{text}: {name} cannot call itself; take it out"
            elif one not in known:
                yield key, f"{text}: no agent is named {one}; {suggest(one, known)}"
            elif one in record.specialists[:index]:
                yield key, f"{text} has {one} twice; keep the first"
            elif other and other.specialists:
                where = catalogue.at("agents", one)
                yield key, f"{text}: {one} has specialists itself ({where}); take one level out"


def tools(catalogue: Catalogue) -> Iterator[Finding]:
    """The key of the service that runs the agents opens every verb that one of them has."""
    for service, record in catalogue.services.items():
        consumer = catalogue.consumers.get(service)
        if "agents" not in record.offers or not record.present or consumer is None:
            continue
        opened = verbs_of(consumer.verbs)
        for name, agent in catalogue.agents.items():
            for index, tool in enumerate(agent.tools):
                if tool not in opened:
                    where = catalogue.at("consumers", service, "verbs")
                    text = f"{name}.tools {tool} is not among the verbs of consumer {service}"
                    yield ("agents", name, "tools", index), f"{text} ({where}); add it there"


def verbs(catalogue: Catalogue) -> Iterator[Finding]:
    """Verbs belong to a key that opens the part which has them."""
    serving = [name for name, part in catalogue.parts.items() if part.serves]
    for name, record in catalogue.consumers.items():
        opens = any(part in record.named for part in serving)
        if record.verbs and not opens:
            add = serving[0] if serving else "the part with them"
            text = f"{name}.verbs is of no use: its key does not open {add}; add it to services"
            yield ("consumers", name, "verbs"), text
        elif opens and not record.verbs:
            yield (
                ("consumers", name, "verbs"),
                f"{name} opens {', '.join(serving)} and has no verbs; write e.g. verbs: [free]",
            )
