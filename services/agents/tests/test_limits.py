"""Every limit ends a run with a message that says what was reached."""

import asyncio
import re
import time
from pathlib import Path
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


async def test_the_last_line_says_what_the_run_cost_and_each_hand_off_its_own(
    start: Start,
) -> None:
    def once(body: dict[str, Any]) -> Any:
        done = any(one["role"] == "tool" for one in body["messages"])
        return "The end." if done or body["model"] != "orchestrator" else once_more(body)

    house = await start(once, prices={"qwen3.5": {"input_eur": 100.0, "output_eur": 300.0}})
    answer = await house.ask("find it")
    assert answer.text == "The end."
    *_, came_back, last = answer.thoughts.splitlines()
    # 10 tokens read and 5 written of each of three answers.
    assert re.fullmatch(r"Done: \d+\.\d s, 45 tokens, 0\.0075 EUR for the cloud", last)
    assert re.search(r"\(\d+\.\d s, 15 tokens, 0\.0025 EUR\): The end\.", came_back)
    assert [step.get("eur") for step in answer.steps[-2:]] == [0.0025, 0.0075]
    free = await (await start(once)).ask("find it")
    assert free.thoughts.splitlines()[-1].endswith("45 tokens")


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


OWN = """
import agents
def agent(house):
    tools = house.tools("spender", "service_status")
    return agents.Agent(name="spender", model=house.model("fast"), tools=tools)
"""


@pytest.mark.parametrize("usage", [(1_000, 10), (0, 10), None])
async def test_what_an_agent_of_ones_own_costs_counts(
    start: Start, tmp_path: Path, usage: tuple[int, int] | None
) -> None:
    """It asks for no usage, and some servers do not count what they read."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/spender.py").write_text(OWN)

    def spend(body: dict[str, Any]) -> Any:
        return [Call("service_status", {"service": f"x{len(body['messages'])}"})]

    # Nothing but what is read costs money, and there is much of it.
    price = {"input_eur": 10.0, "output_eur": 0.0}
    limits = {"cloud_eur": 0.05, "turns": 20}
    house = await start(spend, own=tmp_path / "own", limits=limits, prices={"qwen3.5": price})
    house.provider.usage = usage
    answer = await house.ask("spend " * 10_000, model="spender")
    assert "the limit of 0.05 EUR for the cloud" in answer.text


async def test_answers_that_break_off_count(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth_agents.models.MAX_BYTES", 40_000)

    def again(body: dict[str, Any]) -> Any:
        if body["model"] == "fast":
            return "word " * 20_000
        return [Call("researcher", {"input": f"task {len(body['messages'])}"})]

    house = await start(again, limits={"tokens": 1000, "turns": 20})
    answer = await house.ask("go")
    assert "the limit of 1000 tokens" in answer.text


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
