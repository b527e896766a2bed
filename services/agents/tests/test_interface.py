"""OpenAI's interface as its own client reads it, keys, models and requests that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from hearth_agents.__main__ import main

from .conftest import CHAT, KEY, Start
from .servers import Call


def lead(body: dict[str, Any]) -> Any:
    if body["messages"][-1]["role"] != "user":
        return "It is well."
    if body["model"] == "orchestrator":
        return [Call("caretaker", {"input": "look"})]
    return [Call("service_status", {"service": "kokoro"})]


def client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


async def test_a_leader_that_was_measured_and_is_not_trusted_gets_no_tools(start: Start) -> None:
    why = "qwen3.5 cannot be trusted with tools (30 of 50 tasks right)"
    house = await start(lambda body: f"by {body['model']}", untrusted={"orchestrator": why})
    answer = await house.ask("Write a python script.")
    assert answer.text == "by coder"
    assert f"Agent Team → Coder by rules, without tools: {why}" in answer.thoughts
    assert all("tools" not in one for one in house.provider.requests)
    # One agent alone is the person's own choice.
    await house.ask("Is kokoro well?", model="agent-caretaker")
    assert "tools" in house.provider.requests[-1]


async def test_the_openai_client_reads_a_chat(start: Start) -> None:
    house = await start(lead)
    async with client_of(house.url) as client:
        assert [one.id async for one in await client.models.list()][:2] == [
            "agent-team",
            "agent-researcher",
        ]
        whole = await client.chat.completions.create(
            model="agent-team", messages=[{"role": "user", "content": "how is it?"}]
        )
        assert whole.choices[0].message.content == "It is well."
        assert whole.usage
        assert whole.usage.total_tokens == 60
        steps = (whole.model_extra or {})["hearth"]["steps"]
        assert [step["kind"] for step in steps][:3] == ["handoff", "handoff", "tool"]
        streamed = await client.chat.completions.create(
            model="agent-team",
            messages=[{"role": "user", "content": "how is it?"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in streamed]
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == "It is well."
        assert chunks[-1].usage
        assert chunks[-1].usage.total_tokens == 60


async def test_the_openai_client_reads_responses(start: Start) -> None:
    house = await start(lead)
    async with client_of(house.url) as client:
        whole = await client.responses.create(model="agent-team", input="how is it?")
        assert whole.output_text == "It is well."
        async with client.responses.stream(
            model="agent-team", input=[{"role": "user", "content": "how is it?"}]
        ) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
    assert final.output_text == "It is well."
    assert final.output[0].type == "reasoning"
    assert "Agent Team → Caretaker: look" in final.output[0].summary[0].text
    assert kinds[0] == "response.created"
    assert "response.reasoning_summary_text.delta" in kinds
    assert kinds[-1] == "response.completed"


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {KEY}", 200),
        (f"bearer  {KEY}", 200),
        ("", 401),
        ("Bearer wrong", 401),
        (f"Bearer {KEY[:-1]}", 401),
        (f"Basic {KEY}", 401),
    ],
)
async def test_only_a_consumers_key_opens_it(start: Start, authorization: str, status: int) -> None:
    house = await start(lead)
    headers = {"authorization": authorization}
    for path in ("/v1/models", CHAT):
        response = await house.client.get(path, headers=headers)
        assert response.status_code == (405 if path == CHAT and status == 200 else status)
    for path in ("/health", "/metrics"):
        assert (await house.client.get(path, headers={"authorization": ""})).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "line"),
    [
        (b"{", 400, "the body must be one JSON object"),
        (b"[" * 100_000, 400, "the body must be one JSON object"),
        ({"model": "x", "messages": [{"role": "user", "content": "a"}]}, 404, "there is no agent"),
        ({"model": "agent-team", "messages": []}, 400, "messages must be a list"),
        ({"model": "agent-team", "messages": [1]}, 400, "each message must be an object"),
        (
            {"model": "agent-team", "messages": [{"role": "assistant", "content": "a"}]},
            400,
            "the last message must be the user's",
        ),
        (
            {
                "model": "agent-team",
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "http://10.0.0.1/a"}}
                        ],
                    }
                ],
            },
            400,
            "a picture must be sent as a data: URL",
        ),
    ],
)
async def test_a_bad_request_is_refused_in_one_line(
    start: Start, body: Any, status: int, line: str
) -> None:
    house = await start(lead)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await house.client.post(CHAT, content=content)
    assert response.status_code == status
    assert line in response.json()["error"]["message"]
    assert house.provider.requests == []


async def test_a_request_of_a_hundred_megabytes_is_refused(start: Start) -> None:
    house = await start(lead)
    response = await house.client.post(CHAT, content=b"x" * 20_000_000)
    assert response.status_code == 413


async def test_figures_count_steps_and_tokens(start: Start) -> None:
    house = await start(lead)
    await house.ask("how is it?")
    page = (await house.client.get("/metrics")).text
    assert 'hearth_agents_steps_total{kind="tool"} 1.0' in page
    assert "hearth_agents_tokens_total 60.0" in page
    assert 'hearth_agents_requests_total{outcome="done"} 1.0' in page
    assert "hearth_agents_runs 0.0" in page


async def test_a_model_that_cannot_call_tools_leads_by_rules(start: Start) -> None:
    from starlette.responses import JSONResponse

    def script(body: dict[str, Any]) -> Any:
        if body.get("tools"):
            message = "no model of orchestrator can use tools"
            error = {"error": {"message": message, "code": "unsupported_capability"}}
            return JSONResponse(error, status_code=400)
        return f"I am {body['model']}"

    house = await start(script)
    answer = await house.ask("write a Python script, please")
    assert answer.text == "I am coder"
    assert "Agent Team → Coder by rules, without tools: " in answer.thoughts
    assert (await house.ask("find the OpenSSH flaws")).text == "I am fast"
    # Nothing matches: the first one gets it.
    assert (await house.ask("hm")).text == "I am fast"
    assert "tools" not in house.provider.requests[-1]


OWN = '''"""It doubles."""

import agents


@agents.function_tool
def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def agent(team):
    """Return an agent that doubles, with the house's models and tools."""
    return agents.Agent(
        name="doubler",
        instructions="Double.",
        model=team.model("fast"),
        tools=[double, *team.tools("doubler", "web_fetch"), team.specialist("coder")],
    )
'''


async def test_an_agent_of_ones_own_is_one_file(start: Start, tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Any:
        last = body["messages"][-1]
        if last["role"] == "user":
            return [Call("double", {"number": 21})]
        return str(last["content"])

    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "doubler.py").write_text(OWN)
    (folder / "broken.py").write_text("import nothing_that_exists\n")
    house = await start(script, own=folder)
    models = (await house.client.get("/v1/models")).json()["data"]
    assert [one["id"] for one in models][-1] == "agent-doubler"
    # In a chat they stand beside aliases with names such as Coder.
    assert (models[0]["name"], models[-1]["name"]) == ("Agent Team", "Agent: Doubler")
    shown = [one["info"]["meta"]["description"] for one in models]
    assert shown[-1] == "It doubles."
    answer = await house.ask("21", model="agent-doubler")
    assert answer.text == "42"
    assert answer.kinds("tool", "return") == [("doubler", "double"), ("doubler", "double")]
    names = [tool["function"]["name"] for tool in house.provider.requests[0]["tools"]]
    assert names == ["double", "web_fetch", "coder"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"agents": {}}, "there is no 'team'"),
        ({"limits": {"turns": 0}}, "limits.turns"),
        ({"unknown": 1}, "unknown"),
        (
            {"agents": {"team": {"alias": "a", "specialists": ["nobody"]}}},
            "there is no agent 'nobody'",
        ),
    ],
)
def test_a_wrong_configuration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], line: str
) -> None:
    config = {
        "litellm": "http://127.0.0.1:1/v1",
        "broker": "http://127.0.0.1:2",
        "consumers": {},
        "agents": {"team": {"alias": "orchestrator"}},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | change))
    assert main(["--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
