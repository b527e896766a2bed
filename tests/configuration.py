"""Writes docs/configuration.md from hearth/catalogue/schema.py: each field with its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hearth.catalogue import schema
from hearth.catalogue.records import SECTIONS
from hearth.catalogue.schema import Record

_SOURCE = Path(schema.__file__)
_SIMPLE = {"str": "text", "int": "a whole number", "float": "a number"}
_SIMPLE |= {"bool": "`true` or `false`"}
# What a section holds where its records are single values.
_VALUES = {
    "models": "The digest of each model in Ollama's registry, by the provider's name for it.",
    "mirrors": "Prefixes of addresses, each with its replacement.",
}
_HEAD = """# Configuration reference

Every field of every file in `inventory/`. Write your own values into a file of the same name in
`inventory/local/`: mappings are merged, all other values replaced, and `null` restores the default.
`hearth check` reports each mistake with its file and line.

This page is written by `python -m tests.documents` from `hearth/catalogue/schema.py`.
"""
_PIPELINES = """## pipelines/

Each file `NAME.py` is a pipeline of upstream's Pipelines server. It has a class `Pipeline` with a
method `pipe`, or with `type = "filter"` or `"manifold"`. The packages it imports are listed under
`requirements:` in its docstring, and locked in `requirements/pipelines.txt`. See
[pipelines](pipelines.md).
"""


def configuration_page() -> str:
    """Return the page: one heading per file, one table per kind of record."""
    tree = ast.parse(_SOURCE.read_text(encoding="utf-8"))
    formats = dict(_documented(tree.body))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    parts = [_HEAD]
    for file, sections in SECTIONS.items():
        parts.append(f"## {file}.yml\n")
        for section, (_, shape) in sections.items():
            parts.append(f"### `{section}`\n")
            if not (isinstance(shape, type) and issubclass(shape, Record)):
                parts.append(f"{_VALUES[section]}\n")
                continue
            parts += _tables(shape, "", classes, formats)
    return "\n".join([*parts, _PIPELINES])


def _tables(
    shape: type[BaseModel], field: str, classes: dict[str, ast.ClassDef], formats: dict[str, str]
) -> Iterator[str]:
    """Yield the table of a kind of record, then those of the records inside it."""
    node = classes[shape.__name__]
    text = (ast.get_docstring(node) or "").strip()
    inner: dict[str, type[BaseModel]] = {}
    rows = ["| field | value | default | meaning |", "| --- | --- | --- | --- |"]
    annotations = {n.target.id: n.annotation for n in node.body if _is_field(n)}  # type: ignore[attr-defined]
    meanings = dict(_documented(node.body))
    for name, info in shape.model_fields.items():
        shown = info.alias or name
        label = f"`{field}{shown}`"
        value = _value(annotations[name], formats)
        default = "**required**" if info.is_required() else _default(info.default)
        cells = (label, value, default, meanings[name])
        rows.append(f"| {' | '.join(_escaped(cell) for cell in cells)} |")
        for found in (n.id for n in ast.walk(annotations[name]) if isinstance(n, ast.Name)):
            if found in classes:
                many = "NAME." if "dict" in ast.unparse(annotations[name]) else ""
                inner[f"{field}{shown}.{many}"] = getattr(schema, found)
    yield f"{text}\n"
    yield "\n".join(rows) + "\n"
    for below, record in inner.items():
        yield f"#### `{below.removesuffix('.')}`\n"
        yield from _tables(record, below, classes, formats)


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield each name of a body and the docstring below it."""
    for node, below in pairwise(body):
        target = getattr(node, "target", None) or next(iter(getattr(node, "targets", ())), None)
        match target, below:
            case ast.Name(id=name), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())


def _value(node: ast.expr, formats: dict[str, str]) -> str:
    """Return the valid values of an annotation in words."""
    match node:
        case ast.Name(id=name) if name in formats:
            return formats[name]
        case ast.Name(id="Auth" | "SecretKind" | "Offer" as name):
            return ", ".join(f"`{value}`" for value in getattr(schema, name).__args__)
        case ast.Name(id=name):
            return _SIMPLE.get(name, "a mapping, see below")
        case ast.BinOp(left=left):
            return _value(left, formats)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=values)):
            return ", ".join(f"`{ast.literal_eval(value)}`" for value in values)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
            return _value(first, formats)
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return f"a list: {_value(item, formats)}"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, item])):
            return f"a mapping: {_value(item, formats)}"
    raise TypeError(f"{ast.unparse(node)}: tests/configuration.py has no words for this type")


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _default(value: Any) -> str:
    if value is None or value in ("", [], {}) or isinstance(value, BaseModel):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
