"""The catalogue: read the inventory, check it, and work the house out of it."""

from hearth.catalogue.derive import derive
from hearth.catalogue.house import House
from hearth.catalogue.load import load
from hearth.catalogue.naming import CatalogueError, Problem, suggest
from hearth.catalogue.records import Catalogue
from hearth.catalogue.services import memory_shortage

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
