"""What a plan would write into the inventory, and that nothing else changes there."""

import shutil
from pathlib import Path

import pytest
import yaml

from hearth.catalogue import CatalogueError, House, derive, load
from hearth.plan import PlanError
from hearth.plan.inventory import (
    Change,
    apply_changes,
    changes,
    diff,
    unlisted_models,
    wishes_of,
)
from hearth.plan.machine import read_machine
from hearth.plan.proposal import Plan, make_plan

ROOT = Path(__file__).parents[3]
MACHINES = ROOT / "tests/fixtures/plan/machines"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    folder = tmp_path / "inventory"
    shutil.copytree(ROOT / "inventory", folder, ignore=shutil.ignore_patterns("local"))
    shutil.copytree(ROOT / "roles", tmp_path / "roles")
    return folder


def house_of(folder: Path) -> House:
    return derive(load(folder), frozenset({"openrouter_api_key"}), lambda gpu: True)


def plan_of(name: str, house: House) -> Plan:
    machine = read_machine((MACHINES / f"{name}.yml").read_text("utf-8"), name)
    return make_plan(machine, wishes_of(house), unlisted_models(house))


def applied(folder: Path, name: str) -> dict[str, Change]:
    house = house_of(folder)
    wanted = changes(plan_of(name, house), house, load(folder))
    apply_changes(folder, wanted, lambda: load(folder))
    return {".".join(change.keys): change for change in wanted}


def test_the_proposal_becomes_the_first_local_member(inventory: Path) -> None:
    before = house_of(inventory)
    applied(inventory, "apu-64")
    after = house_of(inventory)
    assert after.aliases["fast"].members[0] == "qwen3:30b-a3b"
    assert after.aliases["fast"].members[1:] == before.aliases["fast"].members
    # The cloud stays first where the inventory has it first.
    cloud = [name for name in before.aliases["reasoning"].members if not before.models[name].local]
    assert list(after.aliases["reasoning"].members[: len(cloud)]) == cloud
    assert after.aliases["reasoning"].members[len(cloud)] == "qwen3.5:35b"
    model = after.models["qwen3:30b-a3b"]
    assert (model.download_bytes, model.pulled) == (19_000_000_000, True)
    assert "thinking" in model.capabilities


def test_a_second_time_changes_nothing(inventory: Path) -> None:
    assert applied(inventory, "apu-64")
    house = house_of(inventory)
    assert changes(plan_of("apu-64", house), house, load(inventory)) == []


def test_only_the_overlay_is_written_and_comments_in_it_stay(inventory: Path) -> None:
    local = inventory / "local"
    local.mkdir()
    (local / "aliases.yml").write_text(
        "---\n# mine\naliases:\n  fast:\n    first_token_timeout_s: 99  # slow disk\n"
    )
    shipped = {path: path.read_bytes() for path in inventory.glob("*.yml")}
    applied(inventory, "card-12")
    assert {path: path.read_bytes() for path in inventory.glob("*.yml")} == shipped
    text = (local / "aliases.yml").read_text()
    assert "# mine" in text
    assert "first_token_timeout_s: 99  # slow disk" in text


def test_the_diff_shows_what_would_be_written(inventory: Path) -> None:
    house = house_of(inventory)
    wanted = changes(plan_of("apu-64", house), house, load(inventory))
    text = diff(inventory, wanted)
    assert "+++ local/models.yml" in text
    assert '+  "qwen3-coder:30b":' in text
    assert not (inventory / "local").exists()


def test_speech_leaves_a_small_card(inventory: Path) -> None:
    found = applied(inventory, "card-8")
    assert found["services.whisper.gpu"].value == "none"
    assert found["services.kokoro_gpu.enabled"].value is False
    house = house_of(inventory)
    assert house.services["whisper"].gpu == "none"
    assert "kokoro_gpu" not in house.services


def test_what_makes_the_inventory_wrong_is_taken_back(inventory: Path) -> None:
    local = inventory / "local"
    local.mkdir()
    (local / "models.yml").write_text("---\nmodels: {}\n")
    wrong = [
        Change("models.yml", ("models", "new"), {"provider": "nobody"}),
        Change("aliases.yml", ("aliases", "fast", "members"), ["new"]),
    ]
    with pytest.raises(CatalogueError):
        apply_changes(inventory, wrong, lambda: load(inventory))
    assert (local / "models.yml").read_text() == "---\nmodels: {}\n"
    assert not (local / "aliases.yml").exists()


def test_a_file_that_cannot_be_edited_safely_is_one_line(inventory: Path) -> None:
    local = inventory / "local"
    local.mkdir()
    (local / "aliases.yml").write_text("- a list\n")
    change = Change("aliases.yml", ("aliases", "fast", "members"), ["x"])
    with pytest.raises(PlanError, match=r"by hand$"):
        diff(inventory, [change])


def test_models_of_the_inventory_that_the_list_lacks_are_judged_by_their_size(
    inventory: Path,
) -> None:
    local = inventory / "local"
    local.mkdir()
    (local / "models.yml").write_text(
        yaml.safe_dump({"models": {"mine:20b": {"provider": "ollama", "download": "12GB"}}})
    )
    (model,) = unlisted_models(house_of(inventory))
    assert model.name == "mine:20b"
    assert model.shape.parameters == pytest.approx(20e9, rel=0.05)
    plan = plan_of("card-8", house_of(inventory))
    row = next(row for row in plan.rows if row.name == "mine:20b")
    assert row.speed.where == "spilled"
