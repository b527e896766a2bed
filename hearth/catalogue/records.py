"""All records of the inventory, typed, with the place of every value."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hearth.catalogue import schema
from hearth.catalogue.naming import Place, Problem, suggest
from hearth.catalogue.read import Key, Node
from hearth.catalogue.schema import adapter

# What is wrong, and with which value.
Finding = tuple[Key, str]

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
    "agents": {
        "agents": ("agents", schema.AgentRecord),
        "agent_limits": ("agent_limits", schema.AgentLimitsRecord),
    },
    "sources.lock": {
        "sources": ("sources", schema.SourceRecord),
        "models": ("manifests", schema.Digest),
        "mirrors": ("mirrors", schema.Prefix),
    },
    "minimum_versions": {"minimum_versions": ("minimum_versions", schema.MinimumVersionRecord)},
}
FILES = tuple(SECTIONS)
# Sections that are one record, not names of records.
_SINGLE = frozenset({"agent_limits"})


@dataclass(slots=True)
class Catalogue:
    """Every record of the inventory by its name, where each value is written, and wrong fields."""

    machines: dict[str, schema.MachineRecord] = field(default_factory=dict)
    services: dict[str, schema.ServiceRecord] = field(default_factory=dict)
    parts: dict[str, schema.PartRecord] = field(default_factory=dict)
    consumers: dict[str, schema.ConsumerRecord] = field(default_factory=dict)
    models: dict[str, schema.ModelRecord] = field(default_factory=dict)
    providers: dict[str, schema.ProviderRecord] = field(default_factory=dict)
    aliases: dict[str, schema.AliasRecord] = field(default_factory=dict)
    agents: dict[str, schema.AgentRecord] = field(default_factory=dict)
    agent_limits: dict[str, schema.AgentLimitsRecord] = field(default_factory=dict)
    sources: dict[str, schema.SourceRecord] = field(default_factory=dict)
    manifests: dict[str, str | None] = field(default_factory=dict)
    mirrors: dict[str, str] = field(default_factory=dict)
    minimum_versions: dict[str, schema.MinimumVersionRecord] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)
    rejected: set[Key] = field(default_factory=set)

    def fill(self, files: Mapping[str, Node]) -> Iterator[Problem]:
        """Add the records in these files; yield every unknown section and wrong value."""
        for file, sections in SECTIONS.items():
            for name, node in files[file].value.items():
                if name not in sections and node.value is not None:
                    text = f"{file}.yml has no section {name}; {suggest(name, sections)}"
                    yield Problem(node.place, text)
            for name, (target, shape) in sections.items():
                self.places[(target,)] = files[file].place
                node = files[file].value.get(name)
                if node is None or node.value is None:
                    continue
                single = target in _SINGLE
                records = node.plain((target, target) if single else (target,), self.places)
                records = {target: records} if single else records
                if isinstance(records, dict):
                    yield from self._fill_section(target, shape, records)
                else:
                    text = f"{name} must be a mapping of names to records"
                    yield Problem(self.at(target), text)

    def _fill_section(self, target: str, shape: Any, records: dict[str, Any]) -> Iterator[Problem]:
        typed = getattr(self, target)
        for name, raw in records.items():
            try:
                typed[name] = _validated(shape, raw)
            except ValidationError as error:
                details = error.errors()
                for item in details:
                    key = (target, name, *item["loc"])
                    yield Problem(self.at(*key), _explained(key, shape, item))
                # The other fields still take part in the rules, so that one run reports everything.
                wrong = {item["loc"][0] for item in details if item["loc"]}
                self.rejected |= {(target, name, field) for field in wrong}
                if isinstance(raw, dict) and all(item["loc"] for item in details):
                    rest = {key: value for key, value in raw.items() if key not in wrong}
                    with suppress(ValidationError):
                        typed[name] = _validated(shape, rest)

    def at(self, *key: str | int) -> Place:
        """Return where a value is written, or the nearest value around it."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.places:
                return self.places[key[:length]]
        return Place("inventory", 1)

    def known(self, *sections: str) -> list[str]:
        """List the names in sections, including rejected records."""
        return [
            key[1]
            for section in sections
            for key in self.places
            if len(key) == 2 and key[0] == section and isinstance(key[1], str)
        ]

    def owners(self) -> Iterator[tuple[Key, schema.ServiceRecord | schema.PartRecord]]:
        """Yield each service and each part under its section and name."""
        for name, service in self.services.items():
            yield ("services", name), service
        for name, part in self.parts.items():
            yield ("parts", name), part


def _validated(shape: Any, raw: Any) -> Any:
    # As JSON, because pydantic's strict mode takes no dictionary for a dataclass.
    return adapter(shape).validate_json(json.dumps(raw))


_KINDS = {
    "string_type": "a text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list, e.g. [a, b]",
    "dict_type": "a mapping of names to values",
    "dataclass_type": "a mapping of fields to values",
}

_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}
# More choices than that make a line too long.
_FEW_CHOICES = 10


def _explained(key: Key, shape: Any, error: ErrorDetails) -> str:
    """Turn pydantic's error into one line for the author of the file."""
    label = ".".join(part for part in key[1:] if isinstance(part, str) and part != "[key]")
    kind, context = error["type"], error.get("ctx", {})
    if kind == "unexpected_keyword_argument":
        parent = ".".join(part for part in key[1:-1] if isinstance(part, str))
        known = _fields(shape, error["loc"][:-1])
        return f"{parent} has no field {key[-1]}; {suggest(str(key[-1]), known)}"
    if kind == "missing":
        (example,) = _fields(shape, error["loc"][:-1])[str(key[-1])].__metadata__[-1].examples
        return f"{label} is missing; write e.g. {key[-1]}: {example}"
    if kind == "value_error":
        return f"{label} {context['error']}"
    if kind == "too_long":
        return f"{label} has {context['actual_length']}; keep {context['max_length']} at most"
    if kind in ("too_short", "string_too_short"):
        return f"{label} must not be empty; write at least one"
    if kind in _KINDS:
        what = _KINDS[kind]
    elif kind == "literal_error" and len(choices := _choices(context["expected"])) > _FEW_CHOICES:
        return f"{label}: there is no {error['input']!r}; {suggest(str(error['input']), choices)}"
    elif kind == "literal_error":
        what = context["expected"].replace("'", "").lower()
    else:
        what = _BOUNDS.get(kind, error["msg"].removeprefix("Input should be ")).format(**context)
    return f"{label} must be {what}, not {_short(error['input'])}"


def _choices(expected: str) -> list[str]:
    return re.findall("'([^']+)'", expected)


def _short(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)


def _fields(shape: Any, loc: Key) -> dict[str, Any]:
    """Return the fields of the record at a location inside `shape`, by their names in YAML."""
    if not is_dataclass(shape):
        # The record type in `tuple[X, ...]`, `Mapping[str, X]` or `X | None`.
        inner = (_fields(item, loc) for item in typing.get_args(shape))
        return next(filter(None, inner), {})
    fields = typing.get_type_hints(shape, include_extras=True)
    for index, part in enumerate(loc):
        if part in fields:
            return _fields(fields[str(part)], loc[index + 1 :])
    return fields
