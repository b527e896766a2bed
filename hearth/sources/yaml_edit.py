"""Add one entry to a YAML file that people edit, and leave the rest of it as it is."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hearth.files import locked, write_atomic
from hearth.sources.errors import SourceError

Value = str | Mapping[str, str]


def put_entry(path: Path, section: str, key: str, value: Value) -> None:
    """Set `section.key` in the file, which is made if it is missing; comments and order stay.

    Raises:
        SourceError: the file is written in a way that cannot be extended; the text says what to
            write into it by hand.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        old = path.read_text(encoding="utf-8") if path.exists() else "---\n"
        try:
            new = edited(old, section, key, value)
        except (yaml.YAMLError, ValueError, AttributeError):
            entry = "; ".join(line.strip() for line in _entry(key, value, 0))
            raise SourceError(
                f"{path}: cannot be extended by Hearth: write into its section {section}: {entry}"
            ) from None
        write_atomic(path, new.encode())


def edited(old: str, section: str, key: str, value: Value) -> str:
    """The text with one entry more, or changed; ValueError when that would change anything else."""
    wanted = yaml.safe_load(old) or {}
    wanted[section] = {**(wanted.get(section) or {}), key: _plain(value)}
    new = _insert(old, section, key, value)
    # The editor below knows people's habits, not all of YAML: this is what makes it safe.
    if yaml.safe_load(new) != wanted:
        raise ValueError("another meaning")
    return new


def _insert(old: str, section: str, key: str, value: Value) -> str:
    root = yaml.compose(old, Loader=yaml.SafeLoader)
    held = _child(root, section)
    if held is None:
        return "\n".join([old.rstrip("\n"), f"{section}:", *_entry(key, value, 2), ""])
    if not isinstance(held, yaml.MappingNode) or not held.value:
        lines = "\n".join(["", *_entry(key, value, 2)])
        return old[: held.start_mark.index] + lines + old[held.end_mark.index :]
    column = held.value[0][0].start_mark.column
    lines = "\n".join(_entry(key, value, column))
    for name, content in held.value:
        if name.value == key:
            start = name.start_mark.index - column
            return old[:start] + lines + old[_line_end(old, _deepest(content)) :]
    at = _line_end(old, _deepest(held.value[-1][1]))
    return old[:at] + "\n" + lines + old[at:]


def _child(root: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return next((content for key, content in pairs if key.value == name), None)


def _deepest(node: yaml.Node) -> int:
    """Where the last word of a node ends; block mappings claim the blank lines after them."""
    while isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        node = node.value[-1][1]
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _entry(key: str, value: Value, column: int) -> list[str]:
    """The lines of one entry; JSON's quoting is YAML's, and no digest becomes a number."""
    room = " " * column
    plain = re.fullmatch(r"[a-z][a-z0-9_]*", key) and yaml.safe_load(key) == key
    name = key if plain else json.dumps(key)
    if isinstance(value, str):
        return [f"{room}{name}: {json.dumps(value)}"]
    fields = [f"{room}  {field}: {json.dumps(text)}" for field, text in value.items()]
    return [f"{room}{name}:", *fields]


def _plain(value: Value) -> Any:
    return value if isinstance(value, str) else dict(value)
