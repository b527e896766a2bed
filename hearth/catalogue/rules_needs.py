"""Rules about who calls whom: what is needed is there, on, and started before."""

from __future__ import annotations

from collections.abc import Iterator

from hearth.catalogue.naming import Problem, alternatives, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue


def needs(catalogue: Catalogue) -> Iterator[Problem]:
    """What is needed exists, is on for certain, and is somebody else."""
    known = catalogue.known("services")
    for name, record in catalogue.services.items():
        for index, need in enumerate(record.needs):
            key = ("services", name, "needs", index)
            options = alternatives(need)
            if not all(options):
                text = f"{name}.needs {need!r} lacks a name beside |; write e.g. a | b"
                yield catalogue.problem(key, text)
                continue
            unknown = [option for option in options if option not in known]
            for option in unknown:
                text = f"{name}.needs names no service {option}; {suggest(option, known)}"
                yield catalogue.problem(key, text)
            if name in options:
                yield catalogue.problem(key, f"{name} needs itself; take {name} out of needs")
            elif not unknown and record.present and record.enabled:
                yield from _on(catalogue, name, need, options, key)


def _on(
    catalogue: Catalogue, name: str, need: str, options: list[str], key: Key
) -> Iterator[Problem]:
    records = [record for option in options if (record := catalogue.services.get(option))]
    if len(records) < len(options):  # a broken record says nothing about being on
        return
    if any(record.present and record.enabled is True for record in records):
        return
    switch = catalogue.at("services", options[0], "enabled")
    if any(record.present and record.enabled == "auto" for record in records):
        text = f"{name} needs {need}, which is on only with its GPU ({switch}); add | and another"
    else:
        ways = f"turn it on, or {name} off, or take it out of the needs of {name}"
        text = f"{name} needs {need}, which is off ({switch}); {ways}"
    yield catalogue.problem(key, text)


def circles(catalogue: Catalogue) -> Iterator[Problem]:
    """Needs have an order: following them never comes back."""
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
        for circle in walk(name, []):
            text = f"needs go in a circle: {' → '.join(circle)}; take one of them out"
            yield catalogue.problem(("services", circle[0], "needs"), text)
