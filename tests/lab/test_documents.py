"""The commands in the documents run as a reader would type them."""

import pytest

from tests import documents
from tests.lab.house import CLONE, ROOT, House

pytestmark = pytest.mark.lab

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_the_commands_in_the_documents_run(house: House) -> None:
    blocks = [
        (page.name, block)
        for page in PAGES
        for block in documents.blocks(page.read_text(encoding="utf-8"))
        if block.lab
    ]
    assert len(blocks) >= 3
    for page, block in blocks:
        script = f"set -eo pipefail; cd {CLONE}\n{block.command}"
        done = house.inside("/bin/bash", "-c", script, timeout=120)
        where = f"{page}, line {block.line}"
        assert done.returncode == 0, f"{where}: {done.stdout[-800:]}{done.stderr[-800:]}"
        print(f"ran: {where}", flush=True)
