"""The catalogue: read the inventory, check it, and work the house out of it."""

from pathlib import Path

from hearth.catalogue import own_agents, pipelines, rules
from hearth.catalogue.derivation import derive, memory_shortage
from hearth.catalogue.house import House
from hearth.catalogue.naming import CatalogueError, Problem, suggest
from hearth.catalogue.read import read_inventory
from hearth.catalogue.records import FILES, Catalogue

__all__ = [
    "Catalogue",
    "CatalogueError",
    "House",
    "Problem",
    "derive",
    "load",
    "memory_shortage",
    "suggest",
]


def load(folder: Path) -> Catalogue:
    """Read and check the whole inventory; CatalogueError holds all problems at once."""
    files, problems = read_inventory(folder, FILES)
    catalogue = Catalogue()
    problems += catalogue.fill(files)
    problems += rules.check(catalogue, folder.parent / "roles")
    problems += pipelines.check(catalogue, folder)
    problems += own_agents.check(catalogue, folder)
    if problems:
        raise CatalogueError(problems)
    return catalogue
