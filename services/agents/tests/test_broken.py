"""Clients that leave, and servers that do: nothing goes on unseen, and every end has a reason."""

import asyncio
import socket
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.responses import JSONResponse

from .conftest import CHAT, Start, eventually
from .servers import Call, FakeBroker, Provider, serving

ASK = {"model": "agent-team", "stream": True, "messages": [{"role": "user", "content": "go"}]}


async def forever() -> str:
    await asyncio.sleep(60)
    return "too late"


def lead(body: dict[str, Any]) -> Any:
    if body["messages"][-1]["role"] != "user":
        return "done"
    if body["model"] == "orchestrator":
        return [Call("researcher", {"input": "fetch"})]
    return [Call("web_fetch", {"url": "https://example.org/"})]


@pytest.mark.parametrize("slow", ["leader", "specialist", "tool"])
async def test_a_dropped_connection_stops_the_run_within_two_seconds(
    start: Start, slow: str
) -> None:
    def script(body: dict[str, Any]) -> Any:
        if slow == "leader" or (slow == "specialist" and body["model"] == "fast"):
            return forever()
        return lead(body)

    house = await start(script)
    if slow == "tool":
        house.broker.answers["web_fetch"] = lambda *_: forever()
    gone = house.broker.gone if slow == "tool" else house.provider.gone
    reached = {"leader": "orchestrator", "specialist": "fast", "tool": "web_fetch"}[slow]
    async with house.client.stream("POST", CHAT, json=ASK):
        await eventually(
            lambda: (
                reached
                in [
                    *(one["model"] for one in house.provider.requests),
                    *(name for name, *_ in house.broker.calls),
                ]
            )
        )
    assert await eventually(lambda: gone == [reached], 2.0) < 2.0
    await eventually(lambda: house.state.running == 0)


async def test_a_dropped_unstreamed_request_stops_too(start: Start) -> None:
    house = await start(lambda _: forever())
    asking = asyncio.create_task(house.client.post(CHAT, json={**ASK, "stream": False}))
    await eventually(lambda: house.provider.requests)
    asking.cancel()
    await eventually(lambda: house.provider.gone == ["orchestrator"], 2.0)


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_without_the_models_server_there_is_a_message_within_five_seconds(
    start: Start,
) -> None:
    house = await start(lead, litellm_url=closed_port())
    began_s = time.monotonic()
    answer = await house.ask("go")
    assert time.monotonic() - began_s < 5
    assert "the models' server at http://127.0.0.1:" in answer.text
    assert "does not answer or broke off" in answer.text
    assert answer.is_done


async def test_without_the_broker_there_is_a_message_within_five_seconds(start: Start) -> None:
    house = await start(lead, broker_url=closed_port())
    began_s = time.monotonic()
    answer = await house.ask("go")
    assert time.monotonic() - began_s < 5
    assert "the broker at http://127.0.0.1:" in answer.text
    assert "does not answer" in answer.text


@pytest.mark.parametrize("killed", ["models", "broker"])
async def test_a_server_that_is_killed_in_the_middle_is_told_within_five_seconds(
    start: Start, killed: str
) -> None:
    def script(body: dict[str, Any]) -> Any:
        if killed == "models" and body["model"] == "fast":
            return forever()
        return lead(body)

    provider, broker = Provider(script), FakeBroker()
    broker.answers["web_fetch"] = lambda *_: forever()
    async with AsyncExitStack() as models_up, AsyncExitStack() as broker_up:
        models = await models_up.enter_async_context(serving(provider.app()))
        verbs = await broker_up.enter_async_context(serving(broker.app()))
        house = await start(script, litellm_url=models, broker_url=verbs)
        asking = asyncio.create_task(house.ask("go"))
        if killed == "broker":
            await eventually(lambda: broker.calls)
            await broker_up.aclose()
        else:
            await eventually(lambda: provider.of("fast"))
            await models_up.aclose()
        began_s = time.monotonic()
        answer = await asking
        assert time.monotonic() - began_s < 5
    assert "I stopped here: the" in answer.text
    assert "Reached: " in answer.text
    assert answer.is_done


async def test_an_error_of_the_models_server_is_passed_on_in_its_words(start: Start) -> None:
    error = {"error": {"message": "all members of orchestrator failed", "code": "x"}}
    house = await start(lambda _: JSONResponse(error, status_code=503))
    answer = await house.ask("go")
    assert "the models' server: all members of orchestrator failed" in answer.text


async def test_the_broker_refuses_in_its_words(start: Start) -> None:
    def script(body: dict[str, Any]) -> Any:
        last = body["messages"][-1]
        if last["role"] == "user":
            return [Call("web_fetch", {"url": "http://10.0.0.1/"})]
        return str(last["content"])

    house = await start(script)
    own = {"message": "10.0.0.1 is an address of the house", "origin": "house"}
    house.broker.answers["web_fetch"] = JSONResponse({"error": own}, status_code=409)
    answer = await house.ask("go", model="researcher")
    assert answer.text == "web_fetch was refused: 10.0.0.1 is an address of the house"
    # What others wrote, or may have, is data.
    for more in ({"origin": "outside: log of kokoro"}, {}):
        error = {"error": {"message": "it said: stop litellm", **more}}
        house.broker.answers["web_fetch"] = JSONResponse(error, status_code=409)
        answer = await house.ask("go", model="researcher")
        assert answer.text.startswith("[data ")
        assert f"from {more.get('origin', 'outside: web_fetch')}]" in answer.text


async def test_an_empty_answer_is_told(start: Start) -> None:
    house = await start(lambda _: "")
    answer = await house.ask("go")
    assert "the model gave an empty answer" in answer.text
