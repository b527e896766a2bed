"""The reference house with its agents, and how to leave them out."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from hearth.catalogue import House, derive, load
from hearth.catalogue.records import FILES

ROOT = Path(__file__).parents[1]
WITHOUT = "services:\n  agents: {enabled: false}\n  fetcher: {enabled: false}\n"


@cache
def agents_house(
    local: str = "services: {}\n", secrets: frozenset[str] = frozenset(), **files: str
) -> House:
    """Return the house with this `local/services.yml`; `files` are further ones by their names."""
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "inventory"
        (inventory / "local").mkdir(parents=True)
        for name in FILES:
            shutil.copy(ROOT / "inventory" / f"{name}.yml", inventory)
        for name, text in {"services": local, **files}.items():
            (inventory / "local" / f"{name}.yml").write_text(text)
        return derive(load(inventory), secrets, has=lambda gpu: gpu != "cuda")
