"""Every alias answers over HTTPS, whole and streamed; speed and accelerator are measured."""

import asyncio
import math
import time
from typing import Any

import httpx
import pytest

from hearth.bench.accelerator import NO_GPU, NOT_MEASURED, SOFTWARE, Proof, on, prove
from hearth.bench.llm import Comparison, added_text, compare
from hearth.catalogue.house import Alias, House, Model
from hearth.clients.endpoints import Answer, Edge, sse
from hearth.clients.llm import devices_of, direct_and_gateway, local_model, server_api
from hearth.clients.models import NOT_OFFERED, PENDING, Overview
from hearth.smoke.hosts import ask
from hearth.smoke.plugin import Notes, NotMeasured, Pending

pytestmark = pytest.mark.home

CHAT = "/v1/chat/completions"
# Enough for a median beside everything else; `hearth bench llm` takes a hundred.
PAIRS = 5
WITHIN_S = 60.0
REAL_GPUS = ("cuda", "vulkan")
ANSWERED_BY = "x-hearth-model"
# A red square of 32 by 32.
PICTURE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mM4oaFBU8QwasGoBaMWjFow"
    "asGoBaMWjFowasGoBaMWDBULABo2YD0ttAhSAAAAAElFTkSuQmCC"
)


def question(alias: Alias, overview: Overview) -> dict[str, Any]:
    """Return a small request for the kind of an alias, once its model is ready."""
    state = overview.aliases[alias.name]
    if state.state == PENDING:
        raise Pending(state.percent, state.reason or f"{state.waits_for} is being downloaded")
    if state.state == NOT_OFFERED:
        raise NotMeasured(state.reason)
    content: Any = "What is 2 + 2? Answer in one word."
    if alias.kind == "vision":
        content = [
            {"type": "text", "text": "Which colour is this? Answer in one word."},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
    message = {"role": "user", "content": content}
    return {"model": alias.name, "messages": [message], "max_tokens": 16}


def check_member(answer: Answer, model: str, alias: Alias) -> None:
    """Check that header and body name the same member of the alias."""
    assert model in alias.members, f"`model` is {model!r}, none of {', '.join(alias.members)}"
    named = answer.headers.get(ANSWERED_BY)
    assert named == model, f"{ANSWERED_BY} is {named!r}, `model` is {model!r}"


# First the tests of the default model, which the chat has just loaded.
@pytest.fixture
def model(house: House, default_model: str) -> Model:
    """The model that answers the default alias, once it is ready."""
    return local_model(house, default_model)


def test_speed_is_measured_directly_and_through_the_gateway(
    house: House, model: Model, key: str, notes: Notes
) -> None:
    async def measure() -> Comparison:
        async with httpx.AsyncClient(trust_env=False) as client:
            paths = direct_and_gateway(client, house, model, key)
            return await compare([paths], "gateway", PAIRS, timeout_s=WITHIN_S)

    report = asyncio.run(measure())
    for path in (report.direct, report.through):
        figures = ("first token", "ms", "first_ms"), ("generated", "tokens/s", "tokens_per_s")
        for name, unit, field in figures:
            if (spread := path[field]) is not None:
                notes.figure(f"{name}, {path.case}", unit, spread, model.name)
        assert not path.errors, f"{path.case}: {path.errors[0]}"
    if report.added_first_ms is None:
        raise NotMeasured(report.stopped or "no pair of calls was answered")
    added = report.added_first_ms
    notes.figure("added by the gateway to the first token", "ms", [added.median], added_text(added))


def test_the_accelerator_is_the_configured_one(house: House, model: Model, notes: Notes) -> None:
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
        assert proof.verdict not in (NO_GPU, SOFTWARE), f"gpu is {wanted}: {proof.reason}"
    # Software rendering must be configured by name, and never pass for a card.
    assert (proof.verdict == SOFTWARE) == (wanted == SOFTWARE), f"gpu is {wanted}: {proof.devices}"
    if proof.verdict == NOT_MEASURED:
        raise NotMeasured(proof.reason)


def test_an_alias_answers(
    alias: Alias, overview: Overview, gateway: str, edge: Edge, key: str
) -> None:
    path, send = CHAT, question(alias, overview)
    if alias.kind == "embed":
        path = "/v1/embeddings"
        send = {"model": alias.name, "input": ["bread and butter", "the moon landing"]}
    answer = ask(edge, gateway, path, key=key, send=send, within_s=alias.timeout_s)
    data = answer.json()
    if alias.kind == "embed":
        # Two texts get two different vectors of the same dimension.
        one, two = (row["embedding"] for row in data["data"])
        assert len(one) == len(two) > 1
        assert one != two, "two texts have the same vector"
        assert all(math.isfinite(value) for value in one)
    else:
        assert data["choices"][0]["message"]["content"].strip(), "the answer is empty"
    check_member(answer, data["model"], alias)


def test_an_alias_streams(
    speaker: Alias, overview: Overview, gateway: str, edge: Edge, key: str, notes: Notes
) -> None:
    send = question(speaker, overview) | {"stream": True}
    start, first_s, named = time.monotonic(), None, set()
    with edge.stream(gateway, CHAT, speaker.timeout_s, key, send) as (head, chunks):
        if head.status_code != 200:
            pytest.fail(f"HTTP {head.status_code}: {b''.join(chunks)[:300]!r}")
        for event in sse(chunks):
            assert "error" not in event, f"the stream ends in an error: {event['error']}"
            choices = event.get("choices") or [{}]
            if first_s is None and choices[0].get("delta", {}).get("content"):
                first_s = time.monotonic() - start
            named.add(event["model"])
    assert first_s is not None, "the stream holds no text"
    assert len(named) == 1, f"the stream names several models: {named}"
    check_member(Answer(head.status_code, head.headers, b""), named.pop(), speaker)
    notes.figure(f"first token of {speaker.name}, over HTTPS", "ms", [first_s * 1000])


def test_only_aliases_that_allow_the_cloud_use_it(house: House) -> None:
    for alias in house.aliases.values():
        if not alias.cloud:
            remote = [name for name in alias.members if not house.models[name].local]
            assert not remote, f"{alias.name} would send requests to {', '.join(remote)}"
