"""Read the inventory's YAML files and remember on which line every value was written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hearth.catalogue.naming import Place, Problem, suggest

Key = tuple[str | int, ...]

FILES = (
    "machines",
    "services",
    "consumers",
    "models",
    "aliases",
    "sources.lock",
    "minimum_versions",
)
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


@dataclass(slots=True)
class Tree:
    """The merged inventory as plain data, the place of each value, and the problems found."""

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, place: Place, text: str) -> None:
        """Record one problem."""
        self.problems.append(Problem(place.file, place.line, text))


def read(folder: Path) -> Tree:
    """Read every file of the inventory and merge `local/` into it; problems go into the tree."""
    tree = Tree()
    for name in FILES:
        base = folder / f"{name}.yml"
        if not base.is_file():
            tree.refuse(Place(f"{folder.name}/{name}.yml", 1), "the file is missing; put it back")
            continue
        tree.data[name] = _read_file(tree, base, f"{folder.name}/{name}.yml", name)
    local = folder / OVERLAY
    for path in sorted(local.glob("*.y*ml")) if local.is_dir() else []:
        shown = f"{folder.name}/{OVERLAY}/{path.name}"
        if path.suffix != ".yml" or path.stem not in FILES:
            hint = suggest(path.name, [f"{name}.yml" for name in FILES])
            if path.name not in NOT_READ:
                tree.refuse(Place(shown, 1), f"a file of this name is not read; {hint}")
            continue
        over = Tree(problems=tree.problems)
        data = _read_file(over, path, shown, path.stem)
        tree.data[path.stem] = _merge(tree, over, tree.data.get(path.stem, {}), data, (path.stem,))
    for name in FILES:
        tree.places.setdefault((name,), Place(f"{folder.name}/{name}.yml", 1))
        tree.data[name] = _without_nulls(tree, tree.data.get(name, {}), (name,))
    return tree


def _read_file(tree: Tree, path: Path, shown: str, name: str) -> dict[str, Any]:
    """Parse one file into plain data; its places go into the tree under (name, …)."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it is not UTF-8 text"
        line = mark.line if mark else 0
        tab = line < len(lines := text.splitlines()) and lines[line].lstrip(" ").startswith("\t")
        advice = "indent with spaces, not tabs" if tab else "check the indent and quotes"
        tree.refuse(Place(shown, line + 1), f"this is not YAML: {what}; {advice}")
        return {}
    if node is None or node.tag.endswith(":null"):  # nothing but comments
        return {}
    if not isinstance(node, yaml.MappingNode):
        tree.refuse(Place(shown, 1), "the file must be a mapping; start with a section name and :")
        return {}
    plain = _Plain(tree, shown)
    data = plain.value(node, (name,))
    return data if isinstance(data, dict) else {}


class _Plain:
    """Turns the nodes of one file into plain data."""

    def __init__(self, tree: Tree, shown: str) -> None:
        self.tree = tree
        self.shown = shown
        self.seen: set[int] = set()

    def place(self, node: yaml.Node) -> Place:
        return Place(self.shown, node.start_mark.line + 1)

    def value(self, node: yaml.Node, key: Key) -> Any:
        """Return the plain value of a node and record the places below it."""
        self.tree.places.setdefault(key, self.place(node))
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if id(node) in self.seen:  # a file could otherwise grow without end
            self.tree.refuse(self.place(node), "YAML references (&, *) are not read; write it out")
            return None
        self.seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*key, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.MappingNode)  # noqa: S101 (there is no fourth kind)
        return self.mapping(node, key)

    def scalar(self, node: yaml.ScalarNode) -> Any:
        tag = node.tag.rpartition(":")[2]
        if tag == "null":
            return None
        if tag == "bool":
            return node.value == "true"
        if tag in ("int", "float"):
            return int(node.value) if tag == "int" else float(node.value)
        return node.value

    def mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name_node, value_node in node.value:
            # The text as written: `on` and `22` are names here, whatever YAML makes of them.
            name = str(name_node.value)
            place = self.place(name_node)
            path = (*key, name)
            if name in found:
                first = self.tree.places[path]
                self.tree.refuse(place, f"{name} is written twice, first at {first}; keep one")
                continue
            self.tree.places[path] = place
            found[name] = self.value(value_node, path)
        return found


def _merge(tree: Tree, over: Tree, base: Any, top: Any, key: Key) -> Any:
    """Merge `top` into `base`: mappings merge, everything else replaces, null removes."""
    if not (isinstance(base, dict) and isinstance(top, dict)):
        for path in [path for path in tree.places if path[: len(key)] == key]:
            del tree.places[path]
        tree.places.update({p: v for p, v in over.places.items() if p[: len(key)] == key})
        return top
    merged = dict(base)
    for name, value in top.items():
        path = (*key, name)
        if value is None and base.get(name) is None:
            hint = suggest(name, base)
            tree.refuse(over.places[path], f"{name}: null removes nothing that is there; {hint}")
        merged[name] = _merge(tree, over, base.get(name), value, path)
    return merged


def _without_nulls(tree: Tree, value: Any, key: Key) -> Any:
    """Drop nulls: a field without a value has its default, and such a record does not exist."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, item in value.items():
        if item is None:
            tree.places.pop((*key, name), None)
        else:
            kept[name] = _without_nulls(tree, item, (*key, name))
    return kept
