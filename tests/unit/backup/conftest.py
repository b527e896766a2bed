"""A house's data, and a backup of what they once were."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.backup.local import backup, place
from tests.unit.backup.rows import fill


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder that holds what a house once had."""
    fill(tmp_path / "data", "old")
    return tmp_path / "data"


@pytest.fixture
def file(tmp_path: Path, data: Path) -> Path:
    """A backup of `old`; the house has gone on to `new` since."""
    path = backup(tmp_path / "to", place(data)).path
    shutil.rmtree(data)
    fill(data, "new")
    return path
