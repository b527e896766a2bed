"""The catalogue: read the inventory, check it, and work the house out of it."""

from hearth.catalogue.derivation import derive, memory_shortage
from hearth.catalogue.house import House
from hearth.catalogue.load import load
from hearth.catalogue.naming import CatalogueError, Problem, suggest
from hearth.catalogue.records import Catalogue

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
