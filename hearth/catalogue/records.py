"""All records of the inventory, typed, with the place of every value."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.catalogue import schema
from hearth.catalogue.naming import Place, Problem
from hearth.catalogue.read import Key

# What is wrong, and with which value.
Finding = tuple[Key, str]


@dataclass(slots=True)
class Catalogue:
    """Every record of the inventory by its name, and where each value is written."""

    machines: dict[str, schema.MachineRecord] = field(default_factory=dict)
    services: dict[str, schema.ServiceRecord] = field(default_factory=dict)
    parts: dict[str, schema.PartRecord] = field(default_factory=dict)
    consumers: dict[str, schema.ConsumerRecord] = field(default_factory=dict)
    models: dict[str, schema.ModelRecord] = field(default_factory=dict)
    providers: dict[str, schema.ProviderRecord] = field(default_factory=dict)
    aliases: dict[str, schema.AliasRecord] = field(default_factory=dict)
    sources: dict[str, schema.SourceRecord] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    mirrors: dict[str, str] = field(default_factory=dict)
    minimum_versions: dict[str, schema.MinimumVersionRecord] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)

    def at(self, *key: str | int) -> Place:
        """Return where a value is written, or the nearest value around it."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.places:
                return self.places[key[:length]]
        return Place("inventory", 1)

    def written(self, *key: str | int) -> bool:
        """Return whether this value is written, valid or not."""
        return key in self.places

    def known(self, section: str) -> list[str]:
        """List the names in a section, including rejected records."""
        return [
            key[1]
            for key in self.places
            if len(key) == 2 and key[0] == section and isinstance(key[1], str)
        ]

    def taken(self, what: str, first: Key, instead: str) -> str:
        """Return the text of a clash: the value, its first owner and place, and the fix."""
        return f"{what} is also {first[1]}'s ({self.at(*first)}); {instead}"

    def problem(self, key: Key, text: str) -> Problem:
        """Return a problem at the place of a value."""
        place = self.at(*key)
        return Problem(place.file, place.line, text)
