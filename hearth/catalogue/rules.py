"""What records must agree on among each other; every rule yields all its findings."""

from __future__ import annotations

from hearth.catalogue.records import Catalogue
from hearth.catalogue.words import Problem


def check(catalogue: Catalogue) -> list[Problem]:
    """Apply every rule to the whole catalogue."""
    return []
