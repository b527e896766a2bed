"""Turn the inventory folder into typed records, or say everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hearth.catalogue import pipelines, schema
from hearth.catalogue.explain import explain
from hearth.catalogue.naming import CatalogueError, Problem, suggest
from hearth.catalogue.read import Tree, read
from hearth.catalogue.records import Catalogue
from hearth.catalogue.rules import check

# file -> section in the file -> (field of Catalogue, shape of one record)
SECTIONS: dict[str, dict[str, tuple[str, Any]]] = {
    "machines": {"machines": ("machines", schema.MachineRecord)},
    "services": {
        "services": ("services", schema.ServiceRecord),
        "parts": ("parts", schema.PartRecord),
    },
    "consumers": {"consumers": ("consumers", schema.ConsumerRecord)},
    "models": {
        "models": ("models", schema.ModelRecord),
        "providers": ("providers", schema.ProviderRecord),
    },
    "aliases": {"aliases": ("aliases", schema.AliasRecord)},
    "sources.lock": {
        "sources": ("sources", schema.SourceRecord),
        "models": ("manifests", schema.Digest),
        "mirrors": ("mirrors", schema.Prefix),
    },
    "minimum_versions": {"minimum_versions": ("minimum_versions", schema.MinimumVersionRecord)},
}


def load(folder: Path) -> Catalogue:
    """Read and check the whole inventory; CatalogueError holds all problems at once."""
    tree = read(folder)
    catalogue = Catalogue()
    problems = [*tree.problems, *_fill(catalogue, tree)]
    problems += check(catalogue)
    problems += pipelines.check(catalogue, folder)
    if problems:
        raise CatalogueError(problems)
    return catalogue


def _fill(catalogue: Catalogue, tree: Tree) -> Iterator[Problem]:
    for file, sections in SECTIONS.items():
        content = tree.data[file]
        for name in content:
            if name not in sections:
                place = tree.places[(file, name)]
                text = f"{file}.yml has no section {name}; {suggest(name, sections)}"
                yield Problem(place.file, place.line, text)
        for name, (target, shape) in sections.items():
            catalogue.places[(target,)] = tree.places[(file,)]
            for key, place in tree.places.items():
                if key[:2] == (file, name):
                    catalogue.places[(target, *key[2:])] = place
            records = content.get(name, {})
            if not isinstance(records, dict):
                yield catalogue.problem((target,), f"{name} must be a mapping of names to records")
                continue
            yield from _fill_section(catalogue, target, shape, records)


def _fill_section(
    catalogue: Catalogue, target: str, shape: Any, records: dict[str, Any]
) -> Iterator[Problem]:
    adapter = TypeAdapter(shape)
    typed = getattr(catalogue, target)
    for name, raw in records.items():
        try:
            typed[name] = adapter.validate_python(raw)
        except ValidationError as error:
            details = error.errors()
            yield from (explain(catalogue, (target, name), shape, item) for item in details)
            # The rest of the record still takes part in the rules, so that one look shows all.
            wrong = {item["loc"][0] for item in details if item["loc"]}
            if isinstance(raw, dict) and all(item["loc"] for item in details):
                rest = {key: value for key, value in raw.items() if key not in wrong}
                try:
                    typed[name] = adapter.validate_python(rest)
                except ValidationError:
                    continue
