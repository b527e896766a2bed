"""Verbs that only look: everybody who has them may call them, and nothing changes."""

from hearth.catalogue.house import House

from .config import Config
from .verbs import Verb


def verbs(house: House, config: Config) -> list[Verb]:
    """Return the verbs that only look."""
    del house, config
    return []
