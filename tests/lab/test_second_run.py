"""The house as it is: a second run, and a preview."""

import time
from collections.abc import Iterator

import pytest

from tests.lab import saved
from tests.lab.house import TREES, House, changed

pytestmark = pytest.mark.lab

ALIASES = "/etc/litellm/aliases.json"


def test_a_second_run_changes_nothing(house: House) -> None:
    began = time.monotonic()
    counts = house.site()
    house.figures["no-change site.yml, s"] = time.monotonic() - began
    changes = house.shell("cat /var/lib/hearth/last-run.json")
    # Before the verdict: the tests that return to this state need it either way.
    saved.keep()
    assert changed(counts) == 0, changes
    house.wait_green()


@pytest.fixture
def edited(house: House) -> Iterator[None]:
    """Change one value of the overlay for as long as a test takes."""
    before, after = "aliases:\n", "aliases:\n  fast: {timeout_s: 77}\n"
    house.edit("aliases.yml", before, after)
    yield
    house.edit("aliases.yml", after, before)


@pytest.mark.usefixtures("edited")
def test_a_preview_shows_the_files_and_restarts_of_one_edit_and_makes_none(house: House) -> None:
    before, pids = house.state(*TREES), house.processes()
    done = house.up("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    after = house.state(*TREES)
    assert [tree for tree in before if before[tree] != after[tree]] == []
    assert house.processes() == pids
    would = [line.strip() for line in done.stderr.splitlines() if "would " in line]
    # The watcher knows the aliases, too.
    assert would == [
        f"would litellm: write {ALIASES}",
        "would litellm: restart litellm",
        "would house: write /etc/hearth/house.json",
        "would house: restart hearth-watch",
    ]
