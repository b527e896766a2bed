"""Read the inventory's YAML files and remember on which line every value was written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hearth.catalogue.naming import Place, Problem, suggest

Key = tuple[str | int, ...]

OVERLAY = "local"
# Written by `hearth`, encrypted, and not part of the description.
NOT_READ = {"secrets.yml"}


class _Loader(yaml.CSafeLoader):
    """YAML whose only Boolean values are true and false, and that has no dates or octals.

    YAML 1.1 turns the field `on` into True and `12:30` into 750.
    """

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (the base class's own name)


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?[0-9]+\.[0-9]*", "-+0123456789"),
    ("null", r"null|~|", ["n", "~", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first
    )


# How a scalar with this tag is read; all others are texts.
_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": lambda text: text == "true",
    "int": int,
    "float": float,
}


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it is written; the items of a list or a mapping are nodes as well."""

    place: Place
    value: Any

    def plain(self, key: Key, places: dict[Key, Place]) -> Any:
        """Return plain data, and record where it and all values inside it are written."""
        places[key] = self.place
        if isinstance(self.value, dict):
            # A field without a value has its default, and such a record does not exist.
            return {
                name: item.plain((*key, name), places)
                for name, item in self.value.items()
                if item.value is not None
            }
        if isinstance(self.value, list):
            return [item.plain((*key, index), places) for index, item in enumerate(self.value)]
        return self.value


def read_inventory(folder: Path, names: Sequence[str]) -> tuple[dict[str, Node], list[Problem]]:
    """Read these files of the inventory, `local/` merged into it, and find the problems."""
    files: dict[str, Node] = {}
    problems: list[Problem] = []
    for name in names:
        path = folder / f"{name}.yml"
        shown = f"{folder.name}/{path.name}"
        if path.is_file():
            files[name] = _read_file(path, shown, problems)
        else:
            files[name] = Node(Place(shown, 1), {})
            problems.append(Problem(Place(shown, 1), "the file is missing; put it back"))
    local = folder / OVERLAY
    for path in sorted(local.glob("*.y*ml")) if local.is_dir() else []:
        shown = f"{folder.name}/{OVERLAY}/{path.name}"
        if path.suffix == ".yml" and path.stem in names:
            over = _read_file(path, shown, problems)
            files[path.stem] = _merged(files[path.stem], over, problems)
        elif path.name not in NOT_READ:
            hint = suggest(path.name, [f"{name}.yml" for name in names])
            problems.append(Problem(Place(shown, 1), f"a file of this name is not read; {hint}"))
    return files, problems


def _read_file(path: Path, shown: str, problems: list[Problem]) -> Node:
    """Read one file as a mapping; one that has a problem is empty."""
    text, empty = "", Node(Place(shown, 1), {})
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it is not UTF-8 text"
        line = mark.line if mark else 0
        tab = line < len(lines := text.splitlines()) and lines[line].lstrip(" ").startswith("\t")
        advice = "indent with spaces, not tabs" if tab else "check the indent and quotes"
        problems.append(Problem(Place(shown, line + 1), f"this is not YAML: {what}; {advice}"))
        return empty
    if node is None or node.tag.endswith(":null"):  # nothing but comments
        return empty
    if not isinstance(node, yaml.MappingNode):
        text = "the file must be a mapping; start with a section name and :"
        problems.append(Problem(empty.place, text))
        return empty
    return _node(node, shown, problems, set())


def _node(node: yaml.Node, shown: str, problems: list[Problem], seen: set[int]) -> Node:
    """Return a node of PyYAML's with its plain value."""
    place = Place(shown, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        convert = _SCALARS.get(node.tag.rpartition(":")[2], str)
        return Node(place, convert(node.value))
    if id(node) in seen:  # a file could otherwise grow without end
        problems.append(Problem(place, "YAML references (&, *) are not read; write it out"))
        return Node(place, None)
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return Node(place, [_node(item, shown, problems, seen) for item in node.value])
    found: dict[str, Node] = {}
    for name_node, value_node in node.value:
        # The text as written: `on` and `22` are names here, whatever YAML makes of them.
        name, place_of_name = str(name_node.value), Place(shown, name_node.start_mark.line + 1)
        if name in found:
            text = f"{name} is written twice, first at {found[name].place}; keep one"
            problems.append(Problem(place_of_name, text))
            continue
        found[name] = replace(_node(value_node, shown, problems, seen), place=place_of_name)
    return Node(place, found)


def _merged(base: Node, top: Node, problems: list[Problem]) -> Node:
    """Merge `top` into `base`: mappings merge, everything else replaces, null removes."""
    if not (isinstance(base.value, dict) and isinstance(top.value, dict)):
        return top
    merged = dict(base.value)
    for name, item in top.value.items():
        old = merged.get(name)
        if item.value is None and (old is None or old.value is None):
            hint = suggest(name, base.value)
            text = f"{name}: null removes an entry that does not exist; {hint}"
            problems.append(Problem(item.place, text))
        merged[name] = _merged(old, item, problems) if old else item
    return replace(base, value=merged)
