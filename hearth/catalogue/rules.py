"""All rules between records, and those about needs; every rule yields all its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hearth.catalogue import rules_models, rules_net, rules_services
from hearth.catalogue.naming import Problem, alternatives, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue, Finding


def check(catalogue: Catalogue) -> list[Problem]:
    """Apply every rule to the whole catalogue."""
    return [catalogue.problem(*found) for rule in RULES for found in rule(catalogue)]


def needs(catalogue: Catalogue) -> Iterator[Finding]:
    """A needed service exists, is certainly enabled, and is not the service itself."""
    known = catalogue.known("services")
    for name, record in catalogue.services.items():
        for index, need in enumerate(record.needs):
            key = ("services", name, "needs", index)
            options = alternatives(need)
            if not all(options):
                yield key, f"{name}.needs {need!r} is missing a name next to |; write e.g. a | b"
                continue
            unknown = [option for option in options if option not in known]
            for option in unknown:
                yield key, f"{name}.needs: no service is named {option}; {suggest(option, known)}"
            if name in options:
                yield key, f"{name} needs itself; take {name} out of needs"
            elif not unknown and record.present and record.enabled:
                yield from _enabled(catalogue, name, need, key)


def _enabled(catalogue: Catalogue, name: str, need: str, key: Key) -> Iterator[Finding]:
    options = alternatives(need)
    records = [record for option in options if (record := catalogue.services.get(option))]
    if len(records) < len(options):  # whether a rejected record is enabled is unknown
        return
    if any(record.present and record.enabled is True for record in records):
        return
    switch = catalogue.at("services", options[0], "enabled")
    if any(record.present and record.enabled == "auto" for record in records):
        text = f"{name} needs {need}, which is on only with its GPU ({switch}); add | and another"
    else:
        text = f"{name} needs {need}, which is off ({switch}); "
        text += f"turn it on, or {name} off, or take it out of the needs of {name}"
    yield key, text


def cycles(catalogue: Catalogue) -> Iterator[Finding]:
    """Needs have no cycle."""
    edges = {
        name: [o for need in record.needs for o in alternatives(need) if o != name]
        for name, record in catalogue.services.items()
    }
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> Iterator[list[str]]:
        if name in path:
            yield [*path[path.index(name) :], name]
        elif name not in done:
            for target in edges.get(name, []):
                yield from walk(target, [*path, name])
            done.add(name)

    for name in edges:
        for cycle in walk(name, []):
            text = f"needs form a cycle: {' → '.join(cycle)}; take one of them out"
            yield ("services", cycle[0], "needs"), text


RULES: tuple[Callable[[Catalogue], Iterator[Finding]], ...] = (
    rules_services.names,
    rules_services.links,
    rules_services.one_machine,
    rules_services.runtimes,
    needs,
    cycles,
    rules_services.health,
    rules_services.memory,
    rules_services.data,
    rules_services.secrets,
    rules_services.only_one,
    rules_services.sources,
    rules_services.versions,
    rules_net.ranges,
    rules_net.addresses,
    rules_net.ports,
    rules_net.published_names,
    rules_net.plain_sites,
    rules_net.published_ports,
    rules_models.providers,
    rules_models.models,
    rules_models.folders,
    rules_models.handed_in,
    rules_models.aliases,
    rules_models.routes,
    rules_models.consumers,
    rules_models.own_keys,
)
