"""What a plan would write into the inventory, and that nothing else changes there."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from hearth.catalogue import CatalogueError, House, derive, load
from hearth.plan import PlanError
from hearth.plan.document import document_of
from hearth.plan.inventory import (
    Change,
    apply_changes,
    changes,
    diff,
    measured_waits,
    misfits,
    plan_of_document,
    slots_of,
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


def test_a_model_of_the_lists_name_but_another_size_is_judged_by_its_own(inventory: Path) -> None:
    """Somebody's own build, or the lab's: it must not be taken for gigabytes."""
    house = house_of(inventory)
    assert unlisted_models(house) == []
    local = inventory / "local"
    local.mkdir()
    small = {"qwen3.5": {"download": "21MB"}, "llama3.1": {"download": "8.5GB"}}
    (local / "models.yml").write_text(yaml.safe_dump({"models": small}))
    house = house_of(inventory)
    # The list has llama3.1 in 8 bits.
    assert [model.name for model in unlisted_models(house)] == ["qwen3.5"]
    plan = plan_of("cpu-16", house)
    (row,) = (row for row in plan.rows if row.base == "qwen3.5")
    assert row.needed_bytes < 200e6
    assert "qwen3.5" not in {choice.model for choice in plan.choices}
    assert not any(": qwen3.5 (" in line for line in misfits(plan_of("vm", house), house))


def test_the_inventorys_requests_at_once_are_planned_for(inventory: Path) -> None:
    local = inventory / "local"
    local.mkdir()
    path = local / "services.yml"
    for value, slots in (("4", 4), ("auto", None), ("0", None)):
        path.write_text(f"services: {{ollama: {{settings: {{ollama_parallel: {value}}}}}}}\n")
        house = house_of(inventory)
        assert slots_of(house) == slots
        assert wishes_of(house).slots == (slots or 1)
    assert wishes_of(house, slots=2).slots == 2


def test_a_longer_context_that_was_asked_for_is_written(inventory: Path) -> None:
    house = house_of(inventory)
    machine = read_machine((MACHINES / "apu-64.yml").read_text("utf-8"), "apu-64")
    plan = make_plan(machine, wishes_of(house, context=32768), unlisted_models(house))
    apply_changes(inventory, changes(plan, house, load(inventory)), lambda: load(inventory))
    models = house_of(inventory).models
    assert models["qwen3:30b-a3b"].context == 32768
    assert models["qwen3.5"].context == house.models["qwen3.5"].context


RECEIPT = {
    "made": "2026-11-26T11:38:25+00:00",
    "figures": [
        {"name": "first sound of kokoro", "median": 346.0, "conditions": ""},
        {"name": "first sound of kokoro_gpu", "median": 90.0, "conditions": ""},
        {"name": "end of speech to text of whisper", "median": 1419.0, "conditions": "tiny, 3 s"},
    ],
}


@pytest.mark.parametrize(("name", "has_card"), [("cpu-16", False), ("card-24", True)])
def test_waits_for_speech_are_this_houses_last_ones(
    inventory: Path, name: str, has_card: bool
) -> None:
    house = house_of(inventory)
    machine = read_machine((MACHINES / f"{name}.yml").read_text("utf-8"), name)
    waits = measured_waits(json.dumps(RECEIPT).encode(), house, machine)
    plan = make_plan(machine, wishes_of(house, measured=waits), unlisted_models(house))
    stt, tts = plan.speech
    source = "measured here on 2026-11-26"
    assert (stt.model, stt.on_card, stt.wait_s) == ("tiny", has_card, 1.419)
    assert (tts.on_card, tts.wait_s) == (has_card, 0.09 if has_card else 0.346)
    assert stt.wait_source == tts.wait_source == source
    stored = json.dumps(document_of(plan))
    again = plan_of_document(stored, "plan.json", house)
    assert again.speech == plan.speech
    assert again.room_bytes == plan.room_bytes


@pytest.mark.parametrize("receipt", [b"", b"{", b"[]", b'{"made": 1, "figures": [5]}', b"\xff"])
def test_what_is_no_receipt_measured_nothing(inventory: Path, receipt: bytes) -> None:
    house = house_of(inventory)
    machine = read_machine((MACHINES / "cpu-16.yml").read_text("utf-8"), "x")
    assert measured_waits(receipt, house, machine) == []
    speech = make_plan(machine, wishes_of(house)).speech
    assert {each.wait_source for each in speech} == {"estimated"}


@pytest.mark.parametrize("gpu", ["none", "software"])
def test_a_model_server_without_a_card_is_planned_on_the_processor(
    inventory: Path, gpu: str
) -> None:
    local = inventory / "local/services.yml"
    local.parent.mkdir(exist_ok=True)
    local.write_text(f"---\nservices: {{ollama: {{gpu: {gpu}}}}}\n")
    house = house_of(inventory)
    plan = plan_of("card-24", house)
    assert plan.place.name == "processor"
    assert {row.speed.where for row in plan.rows} <= {"cpu", "nowhere"}
    assert not any(each.on_card for each in plan.speech)
    (card,) = read_machine((MACHINES / "card-24.yml").read_text("utf-8"), "x").cards
    text = f"{card.name} is not used: the inventory gives the model server no card"
    assert text in plan.notes
    # As it is stored, and made again for this house.
    again = plan_of_document(json.dumps(document_of(plan)), "x", house)
    assert again.place.name == "processor"
