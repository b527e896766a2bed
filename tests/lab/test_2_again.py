"""The house as it stands: run again, and previewed."""

import time
from collections.abc import Iterator

import pytest

from tests import lab_machine as lab
from tests.lab.house import NAME, TREES, House, changed

pytestmark = pytest.mark.lab

HOUSE = "house"
ALIASES = "/etc/litellm/aliases.json"


def test_a_second_run_changes_nothing(house: House) -> None:
    with house.spending("a second run", 1.0):
        began = time.monotonic()
        counts = house.site()
        house.figures["no-change site.yml, s"] = time.monotonic() - began
        assert changed(counts) == 0, counts
    with house.spending("a saved state", 0.5):
        lab.save(NAME, HOUSE)
        house.wait_green()


@pytest.fixture
def edited(house: House) -> Iterator[None]:
    """One value of the overlay is another, for as long as a test takes."""
    before, after = "aliases:\n", "aliases:\n  fast: {timeout_s: 77}\n"
    house.edit("aliases.yml", before, after)
    yield
    house.edit("aliases.yml", after, before)


@pytest.mark.usefixtures("edited")
def test_a_preview_shows_the_files_and_restarts_of_one_edit_and_makes_none(house: House) -> None:
    with house.spending("a preview of one edit", 1.0):
        before, pids = house.state(*TREES), house.processes()
        done = house.up("--check")
        assert done.returncode == 0, done.stdout + done.stderr
        after = house.state(*TREES)
        assert [tree for tree in before if before[tree] != after[tree]] == []
        assert house.processes() == pids
        would = [line.strip() for line in done.stderr.splitlines() if "would " in line]
        assert would == [f"would litellm: write {ALIASES}", "would litellm: restart litellm"]
