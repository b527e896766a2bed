"""Writes docs/configuration.md from hearth/catalogue/schema.py: each field with its docstring."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

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
    formats = dict(_meanings())
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
    shape: type[Record], field: str, classes: dict[str, ast.ClassDef], formats: dict[str, str]
) -> Iterator[str]:
    """Yield the table of a kind of record, then those of the records inside it."""
    text = (ast.get_docstring(classes[shape.__name__]) or "").strip()
    inner: dict[str, type[Record]] = {}
    rows = ["| field | value | default | meaning |", "| --- | --- | --- | --- |"]
    # A record has the fields of the record that it extends.
    bases = [classes[base.__name__] for base in shape.__mro__ if base.__name__ in classes]
    body = [node for base in bases for node in base.body]
    annotations = {n.target.id: n.annotation for n in body if _is_field(n)}  # type: ignore[attr-defined]
    meanings = dict(_documented(body))
    for item in dataclasses.fields(shape):  # type: ignore[arg-type]
        name = item.name
        label = f"`{field}{name}`"
        value = _value(annotations[name], formats)
        required = item.default is item.default_factory is dataclasses.MISSING
        default = "**required**" if required else _default(item.default)
        cells = (label, value, default, meanings[name])
        rows.append(f"| {' | '.join(_escaped(cell) for cell in cells)} |")
        for found in (n.id for n in ast.walk(annotations[name]) if isinstance(n, ast.Name)):
            if found in classes:
                many = "NAME." if "Mapping" in ast.unparse(annotations[name]) else ""
                inner[f"{field}{name}.{many}"] = getattr(schema, found)
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


def _meanings() -> Iterator[tuple[str, str]]:
    """Yield each kind of value, and what a valid one is."""
    for name, kind in vars(schema).items():
        for item in getattr(kind, "__metadata__", ()):
            if meaning := getattr(item, "meaning", None) or getattr(item, "description", None):
                yield name, meaning


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
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[item, _])):
            return f"a list: {_value(item, formats)}"
        case ast.Subscript(value=ast.Name(id="Mapping"), slice=ast.Tuple(elts=[_, item])):
            return f"a mapping: {_value(item, formats)}"
    raise TypeError(f"{ast.unparse(node)}: tests/configuration.py has no words for this type")


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _default(value: Any) -> str:
    if value is None or value in ("", (), dataclasses.MISSING) or isinstance(value, Record):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
