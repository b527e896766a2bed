"""OpenAI's agents for JavaScript talk with the server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.npm import modules

from ..conftest import OpenHouse
from ..parts import Gateway
from ..sounds import pcm, spoken
from .conftest import cache_folder

HERE = Path(__file__).with_name("agents_js")
LONG = "The kettle is on, and the kitchen is warm, and the soup is on the table. " * 4
_WITHIN_S = 120


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script beside the packages that it imports."""
    folder = modules(HERE, cache_folder(tmp_path_factory) / "agents_js")
    target = folder / "talk.mjs"
    target.write_bytes((HERE / "talk.mjs").read_bytes())
    return target


async def talked(script: Path, url: str, *files: Path) -> dict[str, Any]:
    """Run the script; return what it found."""
    address = url.replace("http", "ws", 1) + "/v1/realtime?model=voice"
    process = await asyncio.create_subprocess_exec(
        *("node", str(script), address, *map(str, files)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_WITHIN_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()[-2000:]
    return dict(json.loads(output))


async def test_it_calls_a_function_is_heard_and_interrupted(
    open_house: OpenHouse, script: Path, tmp_path: Path
) -> None:
    files = []
    for name, text in (("question", "How much tea is left?"), ("stop", "No, stop, I meant milk.")):
        files.append(tmp_path / f"{name}.pcm")
        files[-1].write_bytes(pcm(spoken(text)))
    called = {"name": "look_up", "arguments": '{"what": "tea"}'}

    # Each answer by what was asked last: an early text may be asked twice.
    def answer(body: dict[str, Any]) -> Any:
        asked = [message["role"] for message in body["messages"]]
        if asked[-1] == "tool":
            return LONG
        return "As you like." if "tool" in asked else called

    gateway = Gateway(answers=[answer] * 9)
    async with open_house(gateway=gateway) as house:
        found = await talked(script, house.url, *files)
    assert found["errors"] == []
    assert found["called"] == ["tea"]
    assert found["interrupted"] >= 1
    assert found["sound"] > 48_000
    kinds = [item["type"] for item in found["history"]]
    assert kinds.count("function_call") == 1
    # The model was told the function's result, and then what was heard of the answer to it.
    told = [
        message["content"]
        for message in gateway.requests[-1]["messages"]
        if message["role"] == "assistant" and message["content"]
    ]
    assert told
    assert LONG.startswith(told[-1])
    assert len(told[-1]) < len(LONG) - 50
