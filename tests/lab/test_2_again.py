"""The house as it stands: run again, previewed, edited behind its back, and read about."""

import time
from collections.abc import Iterator

import pytest

from hearth import lab, readme
from tests.lab.house import CLONE, NAME, ROOT, TREES, House, changed

pytestmark = pytest.mark.lab

HOUSE = "house"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
ALIASES = "/etc/litellm/aliases.json"
CADDYFILE = "/etc/hearth/Caddyfile"


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


def test_what_was_changed_by_hand_is_repaired_and_nothing_else_restarts(house: House) -> None:
    with house.spending("repairs", 1.5):
        wanted = {
            "aliases": house.shell(f"incus exec litellm -- cat {ALIASES} </dev/null"),
            "Caddyfile": house.shell(f"cat {CADDYFILE}"),
            "rules": house.shell("nft --stateless --terse list table inet hearth"),
        }
        pids = house.processes()
        house.shell(
            f"incus exec litellm -- sh -c 'echo {{}} > {ALIASES}' </dev/null\n"
            f"echo '# by hand' >> {CADDYFILE}\n"
            "nft flush ruleset\n"
        )
        counts = house.site()
        assert changed(counts) > 0, counts
        found = {
            "aliases": house.shell(f"incus exec litellm -- cat {ALIASES} </dev/null"),
            "Caddyfile": house.shell(f"cat {CADDYFILE}"),
            "rules": house.shell("nft --stateless --terse list table inet hearth"),
        }
        assert found == wanted
        now = house.processes()
        # Caddy reads its file again without ending; LiteLLM has to start anew, and so has the
        # resolver: it fills the sets of the rules as it answers, and would remember its answers.
        assert {name for name in pids if now[name] != pids[name]} == {"litellm", "dnsmasq"}
        counts = house.site()
        assert changed(counts) == 0, counts


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
