"""`hearth plan` and `hearth machine`, as a person and as a program call them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from hearth import project
from hearth.cli import check, console, plan
from hearth.cli.app import app
from hearth.cli.plan_tables import panels, shown_rows
from hearth.machine.facts import Graphics
from hearth.plan.inventory import wishes_of
from hearth.plan.machine import read_machine
from hearth.plan.proposal import make_plan

ROOT = Path(__file__).parents[3]
MACHINES = ROOT / "tests/fixtures/plan/machines"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout of its own, and a folder for the stored plan."""
    ignored = shutil.ignore_patterns("local")
    shutil.copytree(ROOT / "inventory", tmp_path / "inventory", ignore=ignored)
    (tmp_path / "roles").symlink_to(ROOT / "roles")
    (tmp_path / "receipt").mkdir()
    for module in (plan, check):
        monkeypatch.setattr(module, "RECEIPT_FOLDER", tmp_path / "receipt")
    monkeypatch.setenv("HEARTH_PROJECT", str(tmp_path))
    project.current.cache_clear()
    yield tmp_path
    project.current.cache_clear()


def hearth(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, words, input=given)


def machine(name: str) -> str:
    return str(MACHINES / f"{name}.yml")


def test_a_plan_for_another_machine_is_shown_and_not_stored(house: Path) -> None:
    found = hearth("plan", "--machine", machine("card-8"))
    assert found.exit_code == 0, found.output
    for text in ("qwen2.5-coder:7b", "tokens/s", "█", "memory of NVIDIA", "reserve", "because"):
        assert text in found.stdout
    assert list((house / "receipt").iterdir()) == []


def test_a_plan_is_kept_as_files(house: Path) -> None:
    out = house / "new"
    found = hearth("plan", "--machine", machine("card-8"), "--out", str(out))
    assert found.exit_code == 0, found.output
    kept = json.loads((out / "plan.json").read_text())
    row = next(row for row in kept["models"] if row["name"] == "qwen2.5-coder:7b")
    lines = (out / "plan.md").read_text().splitlines()
    value = row["tokens_per_s"]["value"]
    assert any(
        line.startswith("| qwen2.5-coder:7b |") and f"{value:.0f} (" in line for line in lines
    )
    assert "## What to use" in lines
    for budget in kept["budgets"]:
        assert f"## Memory of {budget['device']}" in lines
        free, whole = (budget[key] / 1e9 for key in ("free_bytes", "memory_bytes"))
        assert f"| free | {free:.2f} GB | of {whole:.1f} GB |" in lines
    assert (out / "plan.png").stat().st_size > 10_000


def test_without_matplotlib_all_but_the_chart_is_kept(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hearth.bench.chart.available", lambda: False)
    out = house / "new"
    found = hearth("plan", "--machine", machine("card-8"), "--out", str(out), "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == json.loads((out / "plan.json").read_text())
    assert {path.name for path in out.iterdir()} == {"plan.json", "plan.md"}
    assert "requirements/charts.txt" in found.stderr


def test_the_chart_shows_ranges_and_where_each_part_of_the_memory_ends(house: Path) -> None:
    name = machine("card-8")
    measured = read_machine(Path(name).read_text(), name)
    made = make_plan(measured, wishes_of(project.current().house()))
    rows = shown_rows(made, set(), all_models=True)
    (speed, waits), card, host = panels(made, rows)
    by_name = {row.name: row for row in rows}
    for bar in speed.bars:
        row = by_name[bar.label.partition(" (")[0]]
        band = row.speed.tokens_per_s
        assert band is not None
        assert (bar.start, bar.end) == (band.low, band.high)
    assert len({bar.colour for bar in speed.bars}) == 2
    assert "partly on the processor" in speed.title
    assert [bar.label for bar in waits.bars] == [bar.label for bar in speed.bars]
    for (panel,), budget in zip((card, host), made.budgets, strict=True):
        assert panel.mark == budget.memory_bytes / 1e9
        assert panel.bars[-1].end == pytest.approx(panel.mark - budget.free_bytes / 1e9)


def test_json_is_for_programs(house: Path) -> None:
    found = hearth("plan", "--machine", machine("apu-64"), "--json")
    plan = json.loads(found.stdout)
    assert plan["form"] == "hearth-plan-1"
    assert {choice["role"] for choice in plan["choices"]} >= {"fast", "coder", "local", "vision"}
    (row,) = (row for row in plan["models"] if row["name"] == "qwen3:30b-a3b")
    assert row["tokens_per_s"]["low"] < row["tokens_per_s"]["value"] < row["tokens_per_s"]["high"]
    assert row["first_token_s"]["value"] > 0


def test_this_machine_is_planned_and_the_page_gets_it(house: Path) -> None:
    found = hearth("plan")
    assert found.exit_code == 0, found.output
    stored = json.loads((house / "receipt" / "plan.json").read_text())
    assert stored["machine"]["nodes"][0]["bandwidth"]["median"] > 0
    assert stored["models"]


def test_a_machine_can_be_carried_in_a_file(house: Path) -> None:
    found = hearth("machine")
    assert found.exit_code == 0
    assert read_machine(found.stdout, "x").cores > 0
    as_json = json.loads(hearth("machine", "--json").stdout)
    assert as_json["processor"] == yaml.safe_load(found.stdout)["processor"]


def test_a_proposal_is_written_after_its_diff(house: Path) -> None:
    words = ("plan", "--machine", machine("apu-64"), "--apply", "--yes")
    found = hearth(*words)
    assert found.exit_code == 0, found.output
    assert "+++ local/aliases.yml" in found.stdout
    local = yaml.safe_load((house / "inventory/local/aliases.yml").read_text())
    assert local["aliases"]["fast"]["members"][0] == "qwen3:30b-a3b"
    assert "already has these models" in hearth(*words).output


def test_without_a_terminal_nothing_is_written_unasked(house: Path) -> None:
    found = hearth("plan", "--machine", machine("apu-64"), "--apply")
    assert found.exit_code == 2
    assert "add --yes" in found.output
    assert not (house / "inventory/local").exists()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--reserve", "much"), "is not a size: write e.g. 2GB"),
        (("--slots", "0"), "should be greater than or equal to 1"),
        (("--cache", "q8"), "no cache type 'q8': did you mean q8_0?"),
        (("--machine", "/nowhere"), "does not exist"),
    ],
)
def test_wrong_words_are_explained(house: Path, words: tuple[str, ...], what: str) -> None:
    found = hearth("plan", *words)
    assert found.exit_code == 2
    assert what in " ".join(found.output.replace("│", " ").split())


def test_check_refuses_what_does_not_fit_the_measured_machine(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hearth("check").exit_code == 0
    stored = hearth("plan", "--machine", machine("card-8-comfyui"), "--json").stdout
    (house / "receipt" / "plan.json").write_text(stored)
    # The plan of a machine that this one is not refuses nothing.
    other = hearth("check")
    assert other.exit_code == 0
    assert "for another machine" in " ".join(other.output.split())
    memory = json.loads(stored)["machine"]["memory_bytes"]
    monkeypatch.setattr(check, "memory_bytes", lambda root: memory)
    monkeypatch.setattr(check, "graphics", lambda: Graphics((), True, True))
    found = hearth("check")
    assert found.exit_code == 1
    assert "qwen3.5 (local) needs" in " ".join(found.output.split())
    as_json = json.loads(hearth("check", "--json").stdout)
    assert (as_json["good"], len(as_json["problems"])) == (False, 2)
    # A broken file is a note, not a refusal.
    (house / "receipt" / "plan.json").write_text("{")
    again = hearth("check")
    assert again.exit_code == 0
    assert "run `hearth plan`" in " ".join(again.output.split())


def test_a_smaller_cache_is_planned_and_kept(house: Path) -> None:
    plans = [
        json.loads(hearth("plan", "--machine", machine("card-8"), "--json", *more).stdout)
        for more in ((), ("--cache", "q8_0"))
    ]
    whole, small = ({one["name"]: one["needed_bytes"] for one in plan["models"]} for plan in plans)
    assert small["llama3.1"] < whole["llama3.1"]
    assert [plan["cache_type"] for plan in plans] == ["f16", "q8_0"]


def test_the_inventory_overrules_requests_at_once(house: Path) -> None:
    (house / "inventory/local").mkdir()
    (house / "inventory/local/services.yml").write_text(
        "services: {ollama: {settings: {ollama_parallel: 4}}}\n"
    )
    words = ("plan", "--machine", machine("card-8"), "--json")
    assert json.loads(hearth(*words).stdout)["slots"] == 4
    found = hearth(*words, "--slots", "2")
    assert found.exit_code == 2
    assert "answer 4 requests at once" in " ".join(found.output.replace("│", " ").split())


def test_the_last_receipt_says_how_long_speech_takes_here(house: Path) -> None:
    receipt = {
        "made": "2026-11-26T11:38:25+00:00",
        "figures": [{"name": "first sound of kokoro", "median": 346.0, "conditions": ""}],
    }
    (house / "receipt" / "receipt.json").write_text(json.dumps(receipt))
    here = json.loads(hearth("plan", "--json").stdout)
    speech = {one["what"]: one for one in here["speech"]}
    assert speech["TTS"]["wait_s"] == 0.35
    assert speech["TTS"]["wait_source"] == "measured here on 2026-11-26"
    assert speech["transcribe"]["wait_source"] == "estimated"
    other = json.loads(hearth("plan", "--machine", machine("cpu-16"), "--json").stdout)
    assert {one["wait_source"] for one in other["speech"]} == {"estimated"}


@pytest.mark.parametrize("name", ["apu-64", "card-8", "numa", "arm-16"])
def test_a_narrow_terminal_has_every_figure(
    house: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(console.out, "width", 80)
    found = hearth("plan", "--machine", machine(name), "--all").stdout
    head = next(line for line in found.splitlines() if line.startswith("model "))
    assert head.split() == ["model", "GB", "where", "tokens/s", "first", "answer", "load"]
    # Only names are shortened.
    rows = found[found.index("model ") : found.index("first: ")].splitlines()[1:]
    assert not any("…" in line.split(" ", 1)[1] for line in rows)
    assert all(len(line) <= 80 for line in rows)
    assert "proposed models fit at once" in found
