"""Every limit ends a run with a message that says what was reached."""

import asyncio
import time
from typing import Any

import pytest

from .conftest import Start, eventually
from .servers import Call


def once_more(body: dict[str, Any]) -> Any:
    """A leader that never ends: one more call with other arguments, again and again."""
    count = sum(one["role"] == "tool" for one in body["messages"])
    if body["model"] == "orchestrator":
        return [Call("researcher", {"input": f"task {count}"})]
    return "found something"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"turns": 5}, "the limit of 5 turns is reached"),
        ({"tool_calls": 3}, "the limit of 3 tool calls is reached"),
        ({"tokens": 100}, "the limit of 100 tokens is reached"),
        ({"cloud_eur": 0.01}, "the limit of 0.01 EUR for the cloud is reached"),
    ],
)
async def test_a_run_ends_at_each_limit(start: Start, limits: dict[str, Any], reason: str) -> None:
    price = {"input_eur": 100.0, "output_eur": 300.0}
    house = await start(once_more, limits=limits, prices={"qwen3.5": price})
    answer = await house.ask("never end")
    assert answer.text.startswith(f"I stopped here: {reason}.")
    assert "Reached: " in answer.text
    assert "- Researcher: found something" in answer.text
    assert answer.finish == "stop"
    assert answer.is_done
    assert [step["kind"] for step in answer.steps][-1] == "limit"
    assert len(house.provider.requests) <= 12


async def test_an_unknown_price_costs_nothing(start: Start) -> None:
    house = await start(once_more, limits={"cloud_eur": 0.0, "turns": 4})
    assert "4 turns" in (await house.ask("never end")).text


async def test_a_slow_model_ends_at_the_limit_of_seconds(start: Start) -> None:
    async def sleep() -> str:
        await asyncio.sleep(30)
        return "too late"

    house = await start(lambda _: sleep(), limits={"seconds": 0.5})
    began_s = time.monotonic()
    answer = await house.ask("hurry")
    assert time.monotonic() - began_s < 3
    assert "the limit of 0.5 s is reached" in answer.text
    await eventually(lambda: house.provider.gone == ["orchestrator"])


async def test_the_same_call_again_and_again_is_ended(start: Start) -> None:
    def loop(body: dict[str, Any]) -> Any:
        return [Call("service_status", {"service": "kokoro"})]

    house = await start(loop)
    answer = await house.ask("loop", model="caretaker")
    assert "Caretaker called service_status 6 times with the same arguments" in answer.text
    # The broker was not asked again after the third; the model was told so.
    assert len(house.broker.of("service_status")) == 3
    assert "You have made this call" in str(house.provider.requests[-1]["messages"])


async def test_a_model_that_does_not_count_is_counted(start: Start) -> None:
    house = await start(lambda _: "word " * 200, limits={"tokens": 100})
    house.provider.usage = (0, 0)
    assert "the limit of 100 tokens" in (await house.ask("talk")).text


async def test_ten_tools_at_once_are_called_a_few_at_a_time(start: Start) -> None:
    running, most = 0, 0

    async def fetch() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return "fetched"

    def ten(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "user":
            # Small models give every call of an answer the same id.
            return [Call("web_fetch", {"url": f"https://example.org/{n}"}) for n in range(10)]
        return "all ten"

    house = await start(ten)
    house.broker.answers["web_fetch"] = lambda *_: fetch()
    answer = await house.ask("ten", model="researcher")
    assert answer.text == "all ten"
    assert len(house.broker.of("web_fetch")) == 10
    assert 1 < most <= 4
    results = [one for one in house.provider.requests[-1]["messages"] if one["role"] == "tool"]
    assert len(results) == 10
    assert len({one["tool_call_id"] for one in results}) == 10


async def test_a_hundred_megabytes_of_a_tool_are_dropped(start: Start) -> None:
    from starlette.responses import Response

    def fetch(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "user":
            return [Call("web_fetch", {"url": "https://example.org/"})]
        return str(body["messages"][-1]["content"])

    house = await start(fetch)
    house.broker.answers["web_fetch"] = Response(b"x" * 100_000_000)
    answer = await house.ask("fetch", model="researcher")
    assert "its answer was longer than 1024 KiB and was dropped" in answer.text


async def test_a_long_result_is_cut_visibly(start: Start) -> None:
    def fetch(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "user":
            return [Call("web_fetch", {"url": "https://example.org/"})]
        return "ok"

    house = await start(fetch)
    house.broker.answers["web_fetch"] = {"text": "a" * 200_000, "origin": "outside: x"}
    await house.ask("fetch", model="researcher")
    seen = house.provider.requests[-1]["messages"][-1]["content"]
    assert len(seen) < 25_000
    assert "of 200000 characters are cut here" in seen


async def test_a_hundred_megabytes_of_a_model_are_cut(start: Start) -> None:
    from starlette.responses import StreamingResponse

    def endless(body: dict[str, Any]) -> Any:
        async def events() -> Any:
            from .servers import _chunk

            piece = _chunk({"content": "x" * 100_000})
            for _ in range(1000):
                yield piece

        return StreamingResponse(events(), media_type="text/event-stream")

    house = await start(endless)
    answer = await house.ask("talk")
    assert "a model's answer was longer than 16 MiB and was cut" in answer.text
    assert len(answer.text) < 17_000_000
    assert answer.is_done
