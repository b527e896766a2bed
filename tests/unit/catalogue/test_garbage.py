"""Any content of the inventory results in a house or a list of errors."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue import CatalogueError, derive, load
from hearth.catalogue.records import FILES

BASE = Path(__file__).parents[2] / "fixtures" / "catalogue" / "base"
GARBAGE: list[object] = [
    None,
    True,
    -1,
    3.5,
    10**30,
    "",
    "x",
    "a | b",
    "é☃",
    "*",
    "/",
    "auto",
    [],
    {},
]
GARBAGE += [[None], [[1]], {"a": None}, {"a": {"b": 1}}, ["ollama"], "10.140.30.14", "external"]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, key))


def _spoil(data: Any, chance: random.Random) -> None:
    paths = list(_paths(data))
    if not paths:
        return  # the one before took all there was
    *parents, last = chance.choice(paths)
    for key in parents:
        data = data[key]
    if isinstance(data, dict) and chance.random() < 0.2:
        del data[last]
    else:
        data[last] = chance.choice(GARBAGE)


@pytest.mark.parametrize("seed", range(60))
def test_garbage_is_refused_in_lines_or_makes_a_house(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)  # noqa: S311 (the same garbage every time)
    folder = tmp_path / "inventory"
    folder.mkdir()
    spoiled = chance.choices(FILES, k=2)
    for name in FILES:
        data = yaml.safe_load((BASE / f"{name}.yml").read_text(encoding="utf-8"))
        for _ in range(spoiled.count(name)):
            _spoil(data, chance)
        (folder / f"{name}.yml").write_text(yaml.safe_dump(data), encoding="utf-8")
    try:
        json.dumps(derive(load(folder)).as_vars())
    except CatalogueError as error:
        for problem in error.problems:
            assert problem.place.file.startswith("inventory/")
            assert problem.place.line >= 1
            assert "\n" not in problem.text
