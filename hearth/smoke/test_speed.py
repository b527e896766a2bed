"""How fast the house answers, on what it computes, what the gateway costs: figures, no limits."""

import asyncio

import httpx
import pytest

from hearth import status
from hearth.bench.accelerator import NO_GPU, NOT_MEASURED, SOFTWARE, Proof, on, prove
from hearth.bench.llm import LlmReport, WayFigures, bench_llm
from hearth.bench.view import added_text
from hearth.catalogue.house import House, Model
from hearth.clients.llm import devices_of, direct_and_gateway, local_model, server_api
from hearth.smoke.plugin import Notes, NotMeasured, Pending
from hearth.smoke.receipt import from_spread

pytestmark = pytest.mark.home

ALIAS = "fast"
# Enough for a median beside everything else; `hearth bench llm` takes a hundred.
PAIRS = 5
WITHIN_S = 60.0
REAL_GPUS = ("cuda", "vulkan")


@pytest.fixture(scope="module")
def model(house: House) -> Model:
    """The model that answers `fast`, once it is there."""
    state = status.models(house).aliases[ALIAS]
    if state.answered_by is None:
        raise Pending(state.percent, f"{state.waits_for} is being downloaded")
    return local_model(house, state.answered_by)


def test_speed_direct_and_through_the_gateway(
    house: House, model: Model, key: str, notes: Notes
) -> None:
    async def measure() -> LlmReport:
        async with httpx.AsyncClient(trust_env=False) as client:
            ways = direct_and_gateway(client, house, model, key)
            return await bench_llm(
                model.name, *ways, pairs=PAIRS, prompt_runs=0, timeout_s=WITHIN_S
            )

    report = asyncio.run(measure())
    for way in (report.direct, report.gateway):
        note_down(way, model.name, notes)
        assert not way.errors, f"{way.way}: {way.errors[0]}"
    if report.added_first_ms is None:
        raise NotMeasured(report.stopped or "no pair of calls was answered")
    added = report.added_first_ms
    notes.figure("added by the gateway to the first token", "ms", [added.median], added_text(added))


def note_down(way: WayFigures, model: str, notes: Notes) -> None:
    """Put what was measured one way into the receipt."""
    for name, unit, spread in (
        ("first token", "ms", way.first_ms),
        ("generated", "tokens/s", way.tokens_per_s),
    ):
        if spread is not None:
            notes.figures.append(from_spread(f"{name}, {way.way}", unit, spread, model))


def test_accelerator_is_what_was_asked_for(house: House, model: Model, notes: Notes) -> None:
    async def measure() -> Proof:
        async with httpx.AsyncClient(trust_env=False) as client:
            return await prove(server_api(client, house, model), model.id, timeout_s=WITHIN_S)

    proof = on(asyncio.run(measure()), devices_of(house, model))
    notes.accelerator.update(
        measured=proof.verdict,
        device=", ".join(proof.devices) or "not named",
        model=proof.model,
        reason=proof.reason,
        ratio=round(proof.ratio, 2) if proof.ratio else "not measured",
    )
    wanted = house.services[model.service or ""].gpu
    if wanted in REAL_GPUS:
        assert proof.verdict not in (NO_GPU, SOFTWARE), f"{wanted} was asked for: {proof.reason}"
    # What nobody asked for by its name must not be taken for a card.
    assert (proof.verdict == SOFTWARE) == (wanted == SOFTWARE), f"gpu is {wanted}: {proof.devices}"
    if proof.verdict == NOT_MEASURED:
        raise NotMeasured(proof.reason)
