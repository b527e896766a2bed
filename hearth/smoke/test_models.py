"""Every alias answers over HTTPS, thinks as it should and calls tools; speed is measured."""

import asyncio
import json
import math
import re
import time
from typing import Any, get_args

import httpx
import pytest

from hearth.bench.accelerator import NO_GPU, NOT_MEASURED, SOFTWARE, Proof, on, prove
from hearth.bench.turns import Comparison, added_text, compare
from hearth.catalogue.house import Alias, House, Model
from hearth.catalogue.schema import Capability
from hearth.clients.endpoints import Answer, Edge, sse
from hearth.clients.llm import (
    Reply,
    devices_of,
    direct_and_gateway,
    least_thought,
    local_model,
    server_api,
    thought,
    thought_alone,
)
from hearth.clients.loaded import is_cardless
from hearth.clients.models import NOT_OFFERED, PENDING, READY, Overview, key_of
from hearth.smoke.hosts import ask
from hearth.smoke.plugin import Notes, NotMeasured, Pending, wait_for

pytestmark = pytest.mark.home

CHAT = "/v1/chat/completions"
# Enough for a median beside everything else; `hearth bench llm` takes a hundred.
PAIRS = 5
WITHIN_S, RECORDED_S = 60.0, 5.0
REAL_GPUS = ("cuda", "vulkan")
ANSWERED_BY = "x-hearth-model"
FIRST_TOKEN = "gen_ai_server_time_to_first_token_seconds"
RIDDLE = "Which is larger, 9.11 or 9.9? Think step by step."
WEATHER = "What is the weather in Paris? Use the tool."
TOKENS, CALL_TOKENS, THOUGHT_TOKENS = 16, 256, 1024
TOOL_NAME = "get_weather"
TOOL = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "Get the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
# A red square of 32 by 32.
PICTURE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mM4oaFBU8QwasGoBaMWjFow"
    "asGoBaMWjFowasGoBaMWDBULABo2YD0ttAhSAAAAAElFTkSuQmCC"
)


def question(alias: Alias, overview: Overview) -> dict[str, Any]:
    """Return a small request for an alias, once its model is ready."""
    state = overview.aliases[alias.name]
    if state.state == PENDING:
        wait_for(state)
    if state.state == NOT_OFFERED:
        raise NotMeasured(state.reason)
    content: Any = "What is 2 + 2? Answer in one word."
    if "vision" in alias.capabilities:
        content = [
            {"type": "text", "text": "Which colour is this? Answer in one word."},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
    message = {"role": "user", "content": content}
    return {"model": alias.name, "messages": [message], "max_tokens": TOKENS}


def without_thought(house: House, alias: Alias, tokens: int) -> dict[str, Any]:
    """Return the fields of a request for an answer at once; some models think all the same."""
    thinks = any(house.models[name].always_thinks for name in alias.members)
    return {"reasoning_effort": "none", "max_tokens": THOUGHT_TOKENS if thinks else tokens}


def check_text(house: House, model: str, text: str, thoughts: str) -> None:
    """Check that an answer has text; one that used all its tokens for reasoning is reported so."""
    if text.strip():
        return
    assert thoughts, "the answer is empty"
    if house.models[model].always_thinks:
        raise NotMeasured(thought_alone(model))
    pytest.fail(thought_alone(model))


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
            paths = direct_and_gateway(client, house, model, key, least_thought(model))
            return await compare([paths], "gateway", PAIRS, timeout_s=WITHIN_S)

    report = asyncio.run(measure())
    for path in (report.direct, report.through):
        figures = ("first token", "ms", "first_ms"), ("generated", "tokens/s", "tokens_per_s")
        for name, unit, field in figures:
            if (spread := path[field]) is not None:
                notes.figure(f"{name}, {path.case}", unit, spread, model.name, model.name)
        assert not path.errors, f"{path.case}: {path.errors[0]}"
    if report.added_first_ms is None:
        raise NotMeasured(report.stopped or "no pair of calls was answered")
    added = report.added_first_ms
    what = "added by the gateway to the first token"
    notes.figure(what, "ms", [added.median], added_text(added), model.name)


def test_the_accelerator_is_the_configured_one(house: House, model: Model, notes: Notes) -> None:
    server = house.services[model.service or ""]

    async def measure() -> Proof:
        async with httpx.AsyncClient(trust_env=False) as client:
            call, cardless = server_api(client, house, model), is_cardless(server)
            return await prove(call, model.id, cardless=cardless, timeout_s=WITHIN_S)

    proof = on(asyncio.run(measure()), devices_of(house, model))
    notes.accelerator.update(
        measured=proof.verdict,
        device=", ".join(proof.devices) or "not named",
        model=proof.model,
        reason=proof.reason,
        ratio=round(proof.ratio, 2) if proof.ratio else "not measured",
    )
    wanted = server.gpu
    if wanted in REAL_GPUS:
        assert proof.verdict not in (NO_GPU, SOFTWARE), f"gpu is {wanted}: {proof.reason}"
    # Software rendering must be configured by name, and never pass for a card.
    assert (proof.verdict == SOFTWARE) == (wanted == SOFTWARE), f"gpu is {wanted}: {proof.devices}"
    if proof.verdict == NOT_MEASURED:
        raise NotMeasured(proof.reason)


def test_an_alias_answers(
    house: House, alias: Alias, overview: Overview, gateway: str, edge: Edge, key: str
) -> None:
    path, send = CHAT, question(alias, overview) | without_thought(house, alias, TOKENS)
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
    check_member(answer, data["model"], alias)
    if alias.kind != "embed":
        message = data["choices"][0]["message"]
        check_text(house, data["model"], message.get("content") or "", thought(message))


def streamed(
    alias: Alias, gateway: str, edge: Edge, key: str, send: dict[str, Any]
) -> tuple[Reply, float]:
    """Return a streamed answer of a member of the alias, and after how many seconds it started."""
    start, reply = time.monotonic(), Reply()
    with edge.stream(gateway, CHAT, alias.timeout_s, key, send | {"stream": True}) as (
        head,
        chunks,
    ):
        if head.status_code != 200:
            pytest.fail(f"HTTP {head.status_code}: {b''.join(chunks)[:300]!r}")
        for event in sse(chunks):
            reply.add(event, time.monotonic() - start)
            assert not reply.error, f"the stream ends in an error: {reply.error}"
    assert reply.first_s is not None, "the stream has neither text, nor thought, nor a tool call"
    assert len(reply.models) == 1, f"the stream names several models: {reply.models}"
    check_member(Answer(head.status_code, head.headers, b""), reply.model, alias)
    return reply, reply.first_s


def check_figures(house: House, alias: Alias) -> None:
    """Check that the gateway has recorded the time to the first token of an answer of the alias."""
    (service, *_) = house.offering("models")
    if service.metrics_port is None:
        return  # one of somebody else, outside of the house
    pattern = rf'(?m)^{FIRST_TOKEN}_count{{[^}}]*gen_ai_request_model="{re.escape(alias.name)}"'
    end = time.monotonic() + RECORDED_S
    # An answer is recorded a moment after its last event.
    while True:
        page = httpx.get(f"{service.url}/metrics", timeout=WITHIN_S, trust_env=False).text
        if re.search(pattern, page):
            return
        assert time.monotonic() < end, f"the figures of {service.name} have no {alias.name}"
        time.sleep(0.1)


def test_an_alias_streams(
    house: House,
    speaker: Alias,
    overview: Overview,
    gateway: str,
    edge: Edge,
    key: str,
    notes: Notes,
) -> None:
    # As people ask: with the alias's own thinking, whose tokens count as well.
    reply, first_s = streamed(speaker, gateway, edge, key, question(speaker, overview))
    what = f"first token of {speaker.name}, over HTTPS"
    notes.figure(what, "ms", [first_s * 1000], conditions=", ".join(reply.models))
    check_figures(house, speaker)


def test_an_alias_that_should_not_think_does_not(
    house: House, unthinking: Alias, overview: Overview, gateway: str, edge: Edge, key: str
) -> None:
    send = question(unthinking, overview)
    send["messages"] = [{"role": "user", "content": RIDDLE}]
    reply, _ = streamed(unthinking, gateway, edge, key, send)
    assert not reply.thought, f"{reply.model} thinks, although `thinking` is off"
    # A model whose thinking is not known to its server writes it into the answer.
    assert "<think>" not in reply.text, f"{reply.model} writes its thought into the answer"
    check_text(house, reply.model, reply.text, reply.thought)


def check_call(function: dict[str, str]) -> None:
    """Check that a call names the tool and has readable arguments."""
    assert function["name"] == TOOL_NAME, f"it calls {function['name']!r}"
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        pytest.fail(f"its arguments are not a JSON object: {function['arguments'][:100]!r}")


def test_an_alias_calls_a_tool_and_answers_from_its_result(
    house: House, tool_user: Alias, overview: Overview, gateway: str, edge: Edge, key: str
) -> None:
    send = question(tool_user, overview) | without_thought(house, tool_user, CALL_TOKENS)
    send |= {"tools": [TOOL], "messages": [{"role": "user", "content": WEATHER}]}
    reply, _ = streamed(tool_user, gateway, edge, key, send)
    able = [name for name in tool_user.members if "tools" in house.models[name].capabilities]
    assert reply.model in able, f"{reply.model} got the tools, and only {', '.join(able)} can call"
    if not reply.calls:
        check_text(house, reply.model, reply.text, reply.thought)
        raise NotMeasured(f"{reply.model} answered without calling the tool, as small models do")
    check_call(reply.calls[0]["function"])
    assert reply.finish == "tool_calls", f"the stream ends in {reply.finish!r}"
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "sunny, 21 degrees"}
        for call in reply.calls
    ]
    called = {"role": "assistant", "content": reply.text or None, "tool_calls": reply.calls}
    send["messages"] = [*send["messages"], called, *results]
    after, _ = streamed(tool_user, gateway, edge, key, send)
    if not after.calls:
        check_text(house, after.model, after.text, after.thought)


def test_models_can_do_what_the_inventory_says(
    house: House, overview: Overview, notes: Notes
) -> None:
    ready = [
        model
        for model in house.models.values()
        if model.pulled and model.kind == "chat" and overview.models[model.name].state == READY
    ]
    if not ready:
        raise Pending(0, "no model is downloaded yet")

    async def listed() -> dict[tuple[str | None, str], set[str]]:
        """Return what each server lists for its models; their descriptions are not open."""
        servers = {model.service: model for model in ready}
        async with httpx.AsyncClient(trust_env=False) as client:
            lists = await asyncio.gather(
                *(server_api(client, house, model)("/api/tags", None) for model in servers.values())
            )
        return {
            (service, key_of(entry["name"])): set(entry.get("capabilities") or ())
            for service, tags in zip(servers, lists, strict=True)
            for entry in tags["models"]
        }

    wrong, known = [], asyncio.run(listed())
    for model in ready:
        can, declared = known.get((model.service, key_of(model.id)), set()), set(model.capabilities)
        if missing := declared - can:
            wrong.append(f"{model.name}: no {', '.join(sorted(missing))}: take it out")
        if more := can & set(get_args(Capability)) - declared:
            notes.remark(
                f"{model.name} can also do {', '.join(sorted(more))}: add it to its capabilities "
                "in inventory/models.yml"
            )
    assert not wrong, f"capabilities in inventory/models.yml: {'; '.join(wrong)}"


def test_only_aliases_that_allow_the_cloud_use_it(house: House) -> None:
    for alias in house.aliases.values():
        if not alias.cloud:
            remote = [name for name in alias.members if not house.models[name].local]
            assert not remote, f"{alias.name} would send requests to {', '.join(remote)}"
