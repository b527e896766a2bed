"""A Python file that cannot be an agent is rejected in one line, without running it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hearth.catalogue import CatalogueError, load
from hearth.catalogue.own_agents import files

ROOT = Path(__file__).parents[3]
BASE = ROOT / "tests/fixtures/catalogue/base"
GOOD = "import agents\n\n\ndef agent(team):\n    return agents.Agent(name='x')\n"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    folder = tmp_path / "inventory"
    shutil.copytree(BASE, folder)
    (folder / "agents").mkdir()
    (folder / "local/agents").mkdir(parents=True)
    (folder / "local/agents.yml").write_text(
        "agents:\n  team: {alias: fast, instructions: Lead.}\n"
    )
    return folder


def test_a_local_file_wins_and_nothing_is_run(inventory: Path) -> None:
    ran = inventory / "ran"
    (inventory / "agents/poet.py").write_text(GOOD)
    local = inventory / "local/agents/poet.py"
    local.write_text(f"open({str(ran)!r}, 'w')\nagent = make\n")
    load(inventory)
    assert files(inventory) == {"poet": local}
    assert not ran.exists()


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("poet.py", "x = (\n", "1: this is not Python: '(' was never closed; fix the line, or"),
        ("poet.py", "def agents(): ...\n", "1: agent is missing; write def agent(team): and"),
        ("Poet-2.py", GOOD, "1: Poet-2.py is not a snake_case name; write poet_2.py"),
        ("poet.txt", "", "1: poet.txt is not an agent; only files NAME.py belong here"),
        ("team.py", GOOD, "1: team is also an agent of inventory/local/agents.yml:2; rename"),
    ],
)
def test_refused(inventory: Path, name: str, text: str, refusal: str) -> None:
    (inventory / "local/agents" / name).write_text(text)
    with pytest.raises(CatalogueError) as caught:
        load(inventory)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"inventory/local/agents/{name}:{refusal}")
