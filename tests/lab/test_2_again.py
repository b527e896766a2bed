"""The house as it stands: run again, previewed, and read about."""

import time
from collections.abc import Iterator

import pytest

from hearth import lab, readme
from tests.lab.house import CLONE, NAME, ROOT, TREES, House, changed

pytestmark = pytest.mark.lab

HOUSE = "house"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
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
    before, after = "aliases:\n", "aliases:\n  fast: {total_s: 77}\n"
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


def test_the_documents_commands_run(house: House) -> None:
    with house.spending("the documents' commands", 1.0):
        blocks = [
            (page.name, block)
            for page in PAGES
            for block in readme.blocks(page.read_text(encoding="utf-8"))
            if block.lab
        ]
        assert len(blocks) >= 3
        for page, block in blocks:
            script = f"set -eo pipefail; cd {CLONE}\n{block.command}"
            done = house.inside("/bin/bash", "-c", script, timeout=120)
            where = f"{page}, line {block.line}"
            assert done.returncode == 0, f"{where}: {done.stdout[-800:]}{done.stderr[-800:]}"
            print(f"ran: {where}", flush=True)
