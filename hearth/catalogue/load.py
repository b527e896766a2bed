"""Turn the inventory folder into typed records, or report everything that is wrong with it."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from hearth.catalogue import pipelines, schema, settings
from hearth.catalogue.naming import CatalogueError, Problem, suggest
from hearth.catalogue.read import Key, Tree, read
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
    problems += settings.check(catalogue, folder.parent / "roles")
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
            yield from (_explain(catalogue, (target, name), shape, item) for item in details)
            # The other fields still take part in the rules, so that one run reports everything.
            wrong = {item["loc"][0] for item in details if item["loc"]}
            if isinstance(raw, dict) and all(item["loc"] for item in details):
                rest = {key: value for key, value in raw.items() if key not in wrong}
                try:
                    typed[name] = adapter.validate_python(rest)
                except ValidationError:
                    continue


_KINDS = {
    "string_type": "a text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list, e.g. [a, b]",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of fields to values",
}

_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}


def _explain(catalogue: Catalogue, record: Key, shape: Any, error: ErrorDetails) -> Problem:
    """Turn pydantic's error into one line for the author of the file."""
    key = (*record, *error["loc"])
    label = ".".join(str(part) for part in key[1:] if isinstance(part, str))
    parent = ".".join(str(part) for part in key[1:-1] if isinstance(part, str))
    kind, given = error["type"], error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "extra_forbidden":
        fields = _fields(shape, error["loc"][:-1])
        text = f"{parent} has no field {key[-1]}; {suggest(str(key[-1]), fields)}"
    elif kind == "missing":
        info = _fields(shape, error["loc"][:-1])[str(key[-1])]
        example = (info.examples or ["…"])[0]
        text = f"{label} is missing; write e.g. {key[-1]}: {example}"
    elif kind in _KINDS:
        text = f"{label} must be {_KINDS[kind]}, not {_short(given)}"
    elif kind == "literal_error":
        text = f"{label} must be {context['expected'].replace(chr(39), '')}, not {_short(given)}"
    elif kind == "value_error":
        text = f"{label} {context['error']}"
    elif kind in ("too_short", "string_too_short"):
        text = f"{label} must not be empty; write at least one"
    else:
        what = _BOUNDS.get(kind, error["msg"].removeprefix("Input should be ")).format(**context)
        text = f"{label} must be {what}, not {_short(given)}"
    return catalogue.problem(key, text)


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)


def _fields(shape: Any, loc: tuple[str | int, ...]) -> dict[str, Any]:
    """Find the fields of the record that a location inside `shape` leads to."""
    model = _model(shape)
    for part in loc:
        if model and part in (fields := _named(model)):
            model = _model(fields[str(part)].annotation)
    return _named(model) if model else {}


def _named(model: type[BaseModel]) -> dict[str, Any]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _model(annotation: Any) -> type[BaseModel] | None:
    """Find the record type in `X`, `list[X]`, `dict[str, X]` or `X | None`."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for inner in typing.get_args(annotation):
        if found := _model(inner):
            return found
    return None
