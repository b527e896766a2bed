"""A receipt keeps the last drill until there is another one, and shows it."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from hearth.cli.verify import view
from hearth.smoke.drill.cases import NO_MEMBER, DrillRow
from hearth.smoke.history import write
from hearth.smoke.receipt import (
    Drill,
    MeasuredMachine,
    Receipt,
    Verdict,
    drill_of,
    last_drill,
    render,
)

ROWS = [
    DrillRow("fast", "a", "500", "b", 0.12, 0.1, []),
    DrillRow("fast", "a", "hang", "b", 1.02, 1.5, ["plain: <late>"]),
    DrillRow("fast", "all", "hang", NO_MEMBER, 4.0, 4.0, []),
    DrillRow("vision", "all", "500", NO_MEMBER, 0.02, 0.02, []),
]
DRILL = Drill("2026-11-21T12:00:00+00:00", "abc1234", 1.0, ["far"], ROWS)
RECEIPT = Receipt(
    house="house",
    made="2026-11-22T12:00:00+00:00",
    seconds=61.2,
    hearth="def5678",
    machine=MeasuredMachine("box", "Debian 13.2", "6.12", "Ryzen 7", 8, 16 * 2**30, []),
    accelerator={},
    versions={},
    addresses=[],
    figures=[],
    verdicts=[Verdict("health is as expected", "ollama", "passed", "", 0.1)],
    drill=DRILL,
)


def test_an_alias_is_summed_up_by_its_slowest_cases() -> None:
    fast, vision = DRILL.lines
    assert (fast.alias, fast.right, fast.of, fast.quick_s, fast.slow_s) == ("fast", 2, 3, 0.12, 1.5)
    assert (vision.right, vision.of, vision.quick_s, vision.slow_s) == (1, 1, None, None)


def test_the_notes_of_the_tests_become_a_drill() -> None:
    noted: dict[str, Any] = {
        "first_token_timeout_s": 1.0,
        "played": ["far"],
        "rows": [asdict(r) for r in ROWS],
    }
    noted |= {"made": DRILL.made, "hearth": DRILL.hearth}
    assert drill_of(json.loads(json.dumps(noted))) == DRILL
    assert drill_of({"made": DRILL.made, "hearth": DRILL.hearth}) is None


def test_a_receipt_without_a_drill_does_not_forget_the_last_one(tmp_path: Path) -> None:
    assert last_drill(tmp_path / "receipt.json") is None
    write(RECEIPT, tmp_path)
    assert last_drill(tmp_path / "receipt.json") == DRILL
    for old in ("", "{}", '{"drill": {"made": 1}}', "[]"):
        (tmp_path / "receipt.json").write_text(old)
        assert last_drill(tmp_path / "receipt.json") is None
    write(replace(RECEIPT, drill=None), tmp_path)
    assert last_drill(tmp_path / "receipt.json") is None


def test_people_see_each_alias_and_when_it_was_drilled() -> None:
    console = Console(file=io.StringIO(), width=120)
    console.print(view(RECEIPT))
    output = console.file.getvalue()  # type: ignore[attr-defined]
    for word in ("2 of 3", "0.12 s", "1.5 s", "vision"):
        assert word in output
    page = render(RECEIPT)
    assert "2 of 3" in page
    assert "&lt;late&gt;" in page
    assert "abc1234" in page
    assert "drilled" not in render(replace(RECEIPT, drill=None))
