"""Plans for machines of many kinds, each reviewed: tests/fixtures/plan/expected.yml."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.catalogue import House, derive, load, memory_shortage
from hearth.plan import PlanError
from hearth.plan.document import document_of
from hearth.plan.estimate import estimated_shape
from hearth.plan.inventory import misfits, plan_of_document, unlisted_models, wishes_of
from hearth.plan.machine import GIB, as_plain, read_machine
from hearth.plan.models import find_model
from hearth.plan.proposal import Plan, Wishes, make_plan

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests/fixtures/plan"
EXPECTED = yaml.safe_load((FOLDER / "expected.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def house() -> House:
    return derive(load(ROOT / "inventory"), frozenset(), lambda gpu: False)


def text_of(name: str) -> str:
    return (FOLDER / "machines" / f"{name}.yml").read_text(encoding="utf-8")


def plan_of(name: str, house: House, **changed: Any) -> Plan:
    wishes = dataclasses.replace(wishes_of(house), **changed)
    return make_plan(read_machine(text_of(name), name), wishes, unlisted_models(house))


def in_short(plan: Plan, house: House) -> dict[str, Any]:
    found: dict[str, Any] = {choice.role: choice.model for choice in plan.choices}
    found |= {each.what: each.model for each in plan.speech}
    wrong = [line.split(": ")[1].split(" ")[0] for line in misfits(plan, house)]
    return found | {
        "place": plan.place.name,
        "room_gb": round(plan.room_bytes / 1e9, 1),
        "most_loaded": plan.most_loaded,
        "misfits": wrong,
    }


def test_at_least_fourteen_machines_are_reviewed() -> None:
    assert len(EXPECTED) >= 14
    assert {path.stem for path in (FOLDER / "machines").glob("*.yml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_plan_of_a_machine_is_as_reviewed(name: str, house: House) -> None:
    assert in_short(plan_of(name, house), house) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_proposal_fits_with_its_reason(name: str, house: House) -> None:
    plan = plan_of(name, house)
    rows = {row.name: row for row in plan.rows}
    for choice in plan.choices:
        assert rows[choice.model].fits
        assert rows[choice.model].needed_bytes <= plan.room_bytes
        assert "tokens/s" in choice.reason or "fastest" in choice.reason
    assert all(budget.fits for budget in plan.budgets) or not plan.choices
    for budget in plan.budgets:
        assert all(line.source for line in budget.lines)
    assert document_of(plan)["form"] == "hearth-plan-1"


def test_a_card_of_8_gb_is_planned_as_a_whole(house: House) -> None:
    """Chat, STT and TTS share one budget: speech leaves the card to the larger model."""
    plan = plan_of("card-8", house)
    assert [each.on_card for each in plan.speech] == [False, False]
    card, system = plan.budgets
    assert card.fits
    assert any("STT" in line.what for line in system.lines)
    # With speech on the card, the same models would not fit beside it.
    speech = 1.9e9 + 0.85e9
    assert card.free_bytes < speech


def test_speech_goes_to_a_card_with_room_and_its_way_back_has_a_price(house: House) -> None:
    plan = plan_of("vendors", house)
    assert [each.on_card for each in plan.speech] == [True, True]
    prices = {saving.what: saving.price for saving in plan.savings}
    assert prices["TTS on the processor"].startswith("first sound +")


def test_a_reserve_for_others_makes_models_smaller(house: House) -> None:
    free, shared = plan_of("card-8", house), plan_of("card-8", house, reserve_bytes=3e9)
    assert shared.room_bytes < free.room_bytes
    assert max(row.needed_bytes for row in shared.rows if row.fits) < max(
        row.needed_bytes for row in free.rows if row.fits
    )
    assert any(line.source == "set with --reserve" for line in shared.taken)


def test_more_slots_and_context_take_more(house: House) -> None:
    one, four = plan_of("card-24", house), plan_of("card-24", house, slots=4, context=32768)
    small, large = ({row.name: row.needed_bytes for row in plan.rows} for plan in (one, four))
    assert all(large[name] >= small[name] for name in small)
    assert large["llama3.1"] - small["llama3.1"] == pytest.approx(15 * GIB)


def test_an_apu_gets_the_kernels_cap_not_its_512_mb(house: House) -> None:
    plan = plan_of("apu-64", house)
    assert 31 * GIB < plan.room_bytes < 33 * GIB
    assert plan.place.memory_bytes > 60 * GIB


def test_the_reference_owners_mixtures_are_proposed_for_their_machine(house: House) -> None:
    chosen = {choice.role: choice.model for choice in plan_of("apu-64", house).choices}
    assert chosen["fast"] == "qwen3:30b-a3b"
    assert chosen["coder"] == "qwen3-coder:30b"


def test_a_thinking_model_says_when_its_answer_begins(house: House) -> None:
    plan = plan_of("cpu-16", house)
    row = next(row for row in plan.rows if row.name == "deepseek-r1:7b")
    assert row.always_thinks
    assert row.speed.first_token_s
    assert row.answer_s
    assert row.answer_s - row.speed.first_token_s.value == pytest.approx(900 / row.tokens_per_s)
    reasoning = next(choice for choice in plan.choices if choice.role == "reasoning")
    assert "the answer starts after about" in reasoning.reason


def test_drafts_make_large_dense_models_faster(house: House) -> None:
    rows = {row.name: row for row in plan_of("apu-128", house).rows}
    large = rows["llama3.3:70b"]
    assert large.draft == "llama3.2:1b"
    assert large.draft_tokens_per_s
    assert large.draft_tokens_per_s > 1.3 * large.tokens_per_s
    assert rows["qwen3:30b-a3b"].draft is None


def test_a_model_that_does_not_fit_is_refused_with_what_helps(house: House) -> None:
    (local, *_) = misfits(plan_of("card-8-comfyui", house), house)
    assert local.startswith("models.yml: qwen3.5 (local) needs 6.3 GB, and NVIDIA GeForce RTX 4070")
    assert "would run on the processor, at about" in local
    assert local.endswith("qwen3.5:4b instead")


def test_a_stored_plan_is_judged_by_the_inventory_of_today(house: House) -> None:
    import json

    plan = plan_of("tiny", house)
    stored = json.dumps(document_of(plan))
    assert len(list(misfits(plan_of_document(stored, "plan.json", house), house))) == 6
    for wrong in ("{}", "[]", "{", '{"machine": 5, "slots": 1, "reserve_bytes": null}'):
        with pytest.raises(PlanError, match=r"^plan\.json"):
            plan_of_document(wrong, "plan.json", house)


def test_a_machine_comes_back_from_its_file() -> None:
    machine = read_machine(text_of("two-cards"), "x")
    again = read_machine(yaml.safe_dump(as_plain(machine)), "x")
    assert again == machine


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"memory_bytes": 0}, "no machine works without memory"),
        ({"cores": 0}, "cores is 0"),
        ({"memory_bytes": "much"}, "memory_bytes: "),
        ({"cards": [{"name": "x"}]}, r"cards\.0\.backend: "),
        ({"nodes": [{"number": 0, "processors": 1, "memory_bytes": 1,
                     "bandwidth": {"median": 0, "low": 0, "high": 0, "source": ""}}]},
         "the bandwidth of node 0 is 0 per second"),
        ({"disk": {"median": float("nan"), "low": 1, "high": 1, "source": ""}}, "disk is nan"),
    ],
)  # fmt: skip
def test_a_machine_that_cannot_be_is_one_line(change: dict[str, Any], what: str) -> None:
    plain = yaml.safe_load(text_of("cpu-16")) | change
    with pytest.raises(PlanError, match=what) as caught:
        read_machine(yaml.safe_dump(plain), "other.yml")
    assert str(caught.value).startswith("other.yml: ")
    assert str(caught.value).endswith("`hearth machine > other.yml`")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "a: [", "5"])
def test_a_file_that_is_no_machine(text: str) -> None:
    with pytest.raises(PlanError, match=r"^other\.yml: "):
        read_machine(text, "other.yml")


def test_a_machine_that_hides_everything_is_planned_with_a_warning(house: House) -> None:
    plan = plan_of("vm", house)
    assert any("is assumed" in note for note in plan.notes)
    assert any("virtual machine" in note for note in plan.notes)
    row = next(row for row in plan.rows if row.tokens_per_s)
    assert row.speed.load_s is None
    assert row.speed.tokens_per_s
    assert row.speed.tokens_per_s.high > 4 * row.speed.tokens_per_s.low


def test_cards_of_three_vendors_do_not_work_together(house: House) -> None:
    plan = plan_of("vendors", house)
    assert plan.place.cards == 4
    assert sum("is not used" in note for note in plan.notes) == 1


def test_no_model_at_all(house: House) -> None:
    plan = make_plan(read_machine(text_of("tiny"), "x"), Wishes(reserve_bytes=1e12))
    assert plan.choices == ()
    assert plan.most_loaded == 1
    assert any("no model of the list fits" in note for note in plan.notes)


def test_no_alias_gives_up_before_the_first_token_of_its_proposed_model(house: House) -> None:
    """On a slow processor a prompt of a page takes longer than the whole answer."""
    for name in EXPECTED:
        plan = plan_of(name, house)
        rows = {row.name: row for row in plan.rows}
        for choice in plan.choices:
            first = rows[choice.model].speed.first_token_s
            assert first
            assert first.high <= house.aliases[choice.role].first_token_timeout_s
    hasty = plan_of("arm-16", house, first_token_s={"coder": 10.0})
    coder = next(choice for choice in hasty.choices if choice.role == "coder")
    assert coder.reason.endswith("; coder may give up before its first token after a long prompt")


def test_a_model_too_small_to_tell_has_no_speed(house: House) -> None:
    known = find_model("qwen3:0.6b")
    assert known
    tiny = dataclasses.replace(
        known,
        name="tiny",
        shape=estimated_shape(5e6),
        files={"Q4_K_M": 4_000_000},
    )
    plan = make_plan(read_machine(text_of("cpu-16"), "x"), wishes_of(house), [tiny])
    (row,) = (row for row in plan.rows if row.name == "tiny")
    assert (row.fits, row.speed.tokens_per_s, row.speed.first_token_s) == (True, None, None)


@pytest.mark.parametrize("card", ["", "vulkan", "cuda"])
def test_a_first_run_on_a_machine_with_16_gb_is_stopped_by_nothing(card: str) -> None:
    """Sold with 16 GB, it shows its programs 15.4 GiB, or less beside an integrated GPU."""
    seen = {"": (), "vulkan": ("auto", "vulkan"), "cuda": ("auto", "cuda", "vulkan")}[card]
    shipped = derive(load(ROOT / "inventory"), frozenset(), lambda gpu: gpu in seen)
    assert memory_shortage(shipped.services.values(), int(15.0 * GIB)) is None
    for name in ("apu-16", "cpu-16"):
        assert list(misfits(plan_of(name, shipped), shipped)) == []
