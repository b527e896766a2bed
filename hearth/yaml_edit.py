"""Set one value in a YAML file that people edit, and leave the rest of its text as it is.

ruamel.yaml keeps comments too, but it moves them and re-indents (docs/decisions/034).
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hearth.files import locked, write_atomic

Value = str | int | bool | Sequence[str] | Mapping[str, str | bool | Sequence[str]]


class EditError(Exception):
    """One line: which file cannot be edited safely, and what to write into it by hand."""


def set_in_file(path: Path, keys: Sequence[str], value: Value) -> None:
    """Set the value at `keys` in the file, which is made if it is missing.

    Raises:
        EditError: the file is written in a way that cannot be edited safely.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        old = path.read_text(encoding="utf-8") if path.exists() else "---\n"
        try:
            new = with_value(old, keys, value)
        except ValueError:
            entry = "; ".join(line.strip() for line in _block({keys[-1]: value}, 0))
            raise EditError(
                f"{path}: Hearth cannot edit this file safely: write into its section "
                f"{'.'.join(keys[:-1])}: {entry}"
            ) from None
        write_atomic(path, new.encode())


def with_value(text: str, keys: Sequence[str], value: Value) -> str:
    """Return the text with this value at `keys`; ValueError when anything else would change."""
    try:
        wanted = yaml.safe_load(text) or {}
        _set(wanted, keys, value)
        new = _edited(text, keys, value)
        # The editor below knows people's habits, not all of YAML: this check makes it safe.
        if yaml.safe_load(new) != wanted:
            raise ValueError("another meaning")
    except (yaml.YAMLError, AttributeError, TypeError) as error:
        raise ValueError(str(error)) from None
    return new


def _set(data: dict[str, Any], keys: Sequence[str], value: Value) -> None:
    for key in keys[:-1]:
        # A copy: of an alias, only this one use is to change.
        data[key] = dict(data.get(key) or {})
        data = data[key]
    data[keys[-1]] = dict(value) if isinstance(value, Mapping) else value


def _edited(text: str, keys: Sequence[str], value: Value) -> str:
    """Replace the value in the deepest mapping that is there, or add an entry to it."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None or not node.value:
        return "\n".join([*text.rstrip("\n").splitlines(), *_block(_nested(keys, value), 0), ""])
    for depth, key in enumerate(keys):
        if not isinstance(node, yaml.MappingNode):
            break
        found = next((pair for pair in node.value if pair[0].value == key), None)
        if found is None:
            return _with_entry(text, node, _nested(keys[depth:], value))
        name, node = found
        empty = node.value in ("", []) or getattr(node, "tag", "").endswith(":null")
        if empty or depth == len(keys) - 1:
            return _with_content(text, name, node, _nested(keys[depth + 1 :], value), empty)
    raise ValueError("no mapping")


def _nested(keys: Sequence[str], value: Any) -> Any:
    return {keys[0]: _nested(keys[1:], value)} if keys else value


def _with_entry(text: str, node: yaml.MappingNode, entry: Mapping[str, Any]) -> str:
    first = node.value[0][0].start_mark
    if node.flow_style:
        return f"{text[: first.index]}{json.dumps(entry)[1:-1]}, {text[first.index :]}"
    at = _line_end(text, _last_index(node))
    lines = ["", *_block(entry, first.column)]
    return text[:at] + "\n".join(lines) + (text[at:] or "\n")


def _with_content(text: str, name: yaml.Node, node: yaml.Node, content: Any, empty: bool) -> str:
    """Replace the value of a key whose value changes or that has no mapping yet."""
    start, end, column = node.start_mark.index, node.end_mark.index, name.start_mark.column
    if not isinstance(content, Mapping) and end > start:
        return text[:start] + json.dumps(content) + text[end:]
    line = text.rfind("\n", 0, name.start_mark.index) + 1
    if text[line : name.start_mark.index].strip():
        # In the middle of a line only braces can follow.
        return f"{text[: name.end_mark.index]}: {json.dumps(content)}{text[end:]}"
    if empty and isinstance(content, Mapping):
        rest = _line_end(text, end)
        head = text[:start].rstrip(" ") + text[end:rest]
        lines = ["", *_block(content, column + 2)]
    else:
        rest = _line_end(text, _last_index(node))
        head, lines = text[:line], _block({name.value: content}, column)
    return head + "\n".join(lines) + (text[rest:] or "\n")


def _last_index(node: yaml.Node) -> int:
    """Return where a node's last value ends; block mappings claim the blank lines after them."""
    while isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        node = node.value[-1][1]
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _block(entries: Mapping[str, Any], column: int) -> list[str]:
    """Write entries in lines; JSON's quoting is YAML's, and no digest becomes a number."""
    lines = []
    for key, value in entries.items():
        plain = re.fullmatch(r"[a-z][a-z0-9_]*", key) and yaml.safe_load(key) == key
        head = f"{' ' * column}{key if plain else json.dumps(key)}:"
        if isinstance(value, Mapping):
            lines += [head, *_block(value, column + 2)]
        else:
            lines.append(f"{head} {json.dumps(value)}")
    return lines
