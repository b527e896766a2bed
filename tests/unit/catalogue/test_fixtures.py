"""Every accepted and refused inventory under tests/fixtures/catalogue, with its exact outcome.

A fixture is a folder of partial inventory files; they are laid over `base` the way a user's
own `inventory/local` is. `expected.yml` has values of the derived house by their path,
`expected.txt` the exact refusal.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue import CatalogueError, derive, load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "catalogue"
VALID = sorted(path.name for path in (FIXTURES / "valid").iterdir())
INVALID = sorted(path.name for path in (FIXTURES / "invalid").iterdir())


def _inventory(tmp_path: Path, fixture: Path) -> Path:
    folder = tmp_path / "inventory"
    shutil.copytree(FIXTURES / "base", folder)
    shutil.copytree(fixture, folder / "local", ignore=shutil.ignore_patterns("expected.*"))
    return folder


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value


@pytest.mark.parametrize("name", VALID)
def test_accepted(name: str, tmp_path: Path) -> None:
    fixture = FIXTURES / "valid" / name
    house = derive(load(_inventory(tmp_path, fixture))).as_vars()
    expected = yaml.safe_load((fixture / "expected.yml").read_text(encoding="utf-8"))
    assert {path: _at(house, path) for path in expected} == expected


@pytest.mark.parametrize("name", INVALID)
def test_refused(name: str, tmp_path: Path) -> None:
    fixture = FIXTURES / "invalid" / name
    with pytest.raises(CatalogueError) as caught:
        load(_inventory(tmp_path, fixture))
    assert str(caught.value) == (fixture / "expected.txt").read_text(encoding="utf-8").rstrip("\n")


def test_there_are_enough_fixtures() -> None:
    assert len(VALID) >= 8
    assert len(INVALID) >= 30


def test_every_refusal_is_one_line_with_the_correction() -> None:
    for name in INVALID:
        for line in (FIXTURES / "invalid" / name / "expected.txt").read_text().splitlines():
            place, _, text = line.partition(": ")
            file, _, number = place.rpartition(":")
            assert file.startswith("inventory/")
            assert number.isdigit()
            # What is wrong, then what to write instead.
            assert "; " in text or "must be " in text or "did you mean" in text, line
