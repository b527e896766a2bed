"""Check people's own agents, the files of inventory/agents/, without running them.

A file in `inventory/local/agents/` replaces one of the same name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hearth.catalogue import pipelines
from hearth.catalogue.naming import SNAKE, Place, Problem
from hearth.catalogue.records import Catalogue

FOLDER = "agents"


def files(inventory: Path) -> dict[str, Path]:
    """Return each agent's name and file, sorted by name; local files win."""
    return pipelines.files(inventory, FOLDER)


def check(catalogue: Catalogue, inventory: Path) -> Iterator[Problem]:
    """Find all problems of the files that are agents, and of those that cannot be."""
    for folder in pipelines.folders(inventory, FOLDER):
        for path in sorted(folder.glob("*")):
            if not path.name.startswith((".", "__pycache__")):
                shown = str(path.relative_to(inventory.parent))
                for line, text in _faults(catalogue, path):
                    yield Problem(Place(shown, line), text)


def _faults(catalogue: Catalogue, path: Path) -> Iterator[pipelines.Fault]:
    if path.suffix != ".py" or not path.is_file():
        yield 1, f"{path.name} is not an agent; only files NAME.py belong here"
        return
    if not SNAKE.fullmatch(path.stem):
        better = re.sub(r"[^a-z0-9]+", "_", path.stem.lower()).strip("_") or "name"
        yield 1, f"{path.name} is not a snake_case name; write {better}.py"
    if path.stem in catalogue.known("agents"):
        where = catalogue.at("agents", path.stem)
        yield 1, f"{path.stem} is also an agent of {where}; rename the file"
    tree, faults = pipelines.parsed(path)
    yield from faults
    if tree and not any(_defines(node) for node in tree.body):
        yield 1, "agent is missing; write def agent(team): and return an agents.Agent"


def _defines(node: ast.stmt) -> bool:
    match node:
        case ast.FunctionDef(name="agent"):
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(one, ast.Name) and one.id == "agent" for one in targets)
    return False
