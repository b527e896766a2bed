"""The programs in docs/write-your-own-agent.md work as the page says, with a scripted model."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from hearth.machine.pki import make_house_authority
from tests.forged import LEAF_KEY_PEM, leaf_for
from tests.mock_upstreams.scripted.server import Memory, application

from .conftest import Start
from .servers import FakeBroker, serving

PAGE = (Path(__file__).parents[3] / "docs/write-your-own-agent.md").read_text()
OWN, PROGRAM = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TASK = 'call service_status {"service": "kokoro"}'
PROGRAM_S = 60


async def test_the_program_of_twenty_lines_calls_a_tool_and_streams(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(PROGRAM)
    # Over HTTPS, with the root that the house gives its devices, and its limits.
    house = make_house_authority("localhost", datetime.now(UTC))
    leaf = leaf_for("localhost", house.intermediate_cert_pem, house.intermediate_key_pem)
    chain = tmp_path / "chain.pem"
    chain.write_text(leaf + house.intermediate_cert_pem + LEAF_KEY_PEM)
    (tmp_path / "hearth-root.crt").write_text(house.root_cert_pem)
    broker, memory = FakeBroker(answers={"service_status": "kokoro is well"}), Memory()
    async with (
        serving(application(memory), chain) as models,
        serving(broker.app(), chain) as verbs,
    ):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "guard.py",
            TASK,
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(sys.path),
                "HOUSE_KEY": "k" * 32,
                "HOUSE_MODELS": f"{models}/v1",
                "HOUSE_BROKER": verbs,
                "SSL_CERT_FILE": "hearth-root.crt",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PROGRAM_S):
                out, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, errors.decode()[-2000:]
    assert b"Done." in out
    assert b"kokoro is well" in out
    ((name, arguments, headers),) = broker.calls
    assert (name, arguments) == ("service_status", {"service": "kokoro"})
    assert headers["authorization"] == f"Bearer {'k' * 32}"
    assert all(body["stream"] and body["model"] == "orchestrator" for body in memory.bodies)
    lines = [line for line in PROGRAM.splitlines() if line.strip()]
    assert len(lines) <= 20, "the page promises twenty lines"
    assert "SSL_CERT_FILE=$PWD/hearth-root.crt" in PAGE


async def test_the_file_becomes_an_agent_with_the_houses_tools(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "door_keeper.py").write_text(OWN)
    broker = FakeBroker(answers={"service_status": "all is well"})
    async with serving(application()) as models:
        house = await start(lambda _: "unused", own=folder, broker=broker, litellm_url=models)
        answer = await house.ask(TASK, model="door_keeper")
    assert answer.text == "Done. all is well"
    assert broker.of("service_status") == [{"service": "kokoro"}]
    assert broker.calls[0][2]["x-hearth-agent"] == "door_keeper"
