"""What a backup says of itself, as `hearth.json` and `manifest.json` have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FORMAT = 1
HEADER, VAULT, MANIFEST = "hearth.json", "vault.json", "manifest.json"
DATA = "data"


class Record(BaseModel):
    """What is read is exactly what was written."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Volume(Record):
    """One data folder: whose, which, and how it was taken."""

    service: str
    path: str
    copy_as: Literal["sqlite", "files"]


class Header(Record):
    """What a backup says of itself before anything else."""

    format: int
    house: str
    domain: str
    hearth: str
    made_at: str
    volumes: list[Volume]


class Entry(Record):
    """One file or folder; `integrity` is what SQLite said of a copied database."""

    size: int
    sha256: str
    integrity: str | None = None


class Manifest(Record):
    """Every entry before this one, and what was left out and found damaged on the way."""

    entries: dict[str, Entry]
    left_out: list[str]
    damaged: dict[str, str]


class Report(Record):
    """What `inside/take.py` says of a folder; an instance's word, so it is looked at."""

    began: float
    integrity: dict[str, str]
    damaged: dict[str, str]
    left_out: list[str]


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a backup says of itself, once it was found whole; secrets show in no repr."""

    header: Header
    manifest: Manifest
    secrets: Mapping[str, str] = field(repr=False)

    def expected(self, number: int) -> dict[str, dict[str, Any]]:
        """What a volume holds: name below its folder to size and digest."""
        begin = f"{prefix(self.header.volumes, number)}/"
        return {
            name.removeprefix(begin): {"size": entry.size, "sha256": entry.sha256}
            for name, entry in self.manifest.entries.items()
            if name.startswith(begin)
        }


def prefix(volumes: Sequence[Volume], number: int) -> str:
    """Name the folder of a volume in the tar."""
    return f"{DATA}/{volumes[number].service}/{number}"
