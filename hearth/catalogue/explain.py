"""Say what is wrong with one value in the words of the person who wrote it."""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from hearth.catalogue.naming import Problem, suggest
from hearth.catalogue.read import Key
from hearth.catalogue.records import Catalogue

_KINDS = {
    "string_type": "a text (put quotes around it)",
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


def explain(catalogue: Catalogue, record: Key, shape: Any, error: ErrorDetails) -> Problem:
    """Turn pydantic's finding into one line for the person who wrote the file."""
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
