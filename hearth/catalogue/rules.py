"""What records must agree on among each other; every rule yields all its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hearth.catalogue import rules_models, rules_needs, rules_net, rules_services
from hearth.catalogue.naming import Problem
from hearth.catalogue.records import Catalogue

Rule = Callable[[Catalogue], Iterator[Problem]]

RULES: tuple[Rule, ...] = (
    rules_services.names,
    rules_services.wires,
    rules_services.one_machine,
    rules_services.runtimes,
    rules_needs.needs,
    rules_needs.circles,
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


def check(catalogue: Catalogue) -> list[Problem]:
    """Apply every rule to the whole catalogue."""
    return [problem for rule in RULES for problem in rule(catalogue)]
