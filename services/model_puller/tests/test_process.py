"""The real process resumes a download after SIGTERM and after SIGKILL."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from fake_ollama import MB, FakeOllama, House, model, wait_until

PACKAGE = Path(__file__).parent.parent


async def start(house: House, fake: FakeOllama) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-m", "hearth_model_puller"),
        *("--models", str(house.models_file), "--state", str(house.folder), "--url", fake.url),
        *("--disk", str(house.folder), "--margin-bytes", "0"),
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        stderr=asyncio.subprocess.PIPE,
    )


async def start_and_wait_for_half(house: House, fake: FakeOllama) -> asyncio.subprocess.Process:
    fake.registry["m:latest"] = ("a" * 64, 8 * MB)
    fake.faults["m:latest"] = ["hold 1"]
    house.want(model("m", 8 * MB))
    process = await start(house, fake)
    await wait_until(lambda: fake.partial.get("m:latest") == 4 * MB)
    return process


async def finish(house: House, fake: FakeOllama) -> None:
    process = await start(house, fake)
    await wait_until(lambda: house.progress().get("m", {}).get("state") == "ready")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    assert fake.started_at == [0, 4 * MB]
    assert house.pulled()["m:latest"]["state"] == "pulled"


async def test_sigterm_stops_at_once_and_loses_nothing(house: House, fake: FakeOllama) -> None:
    process = await start_and_wait_for_half(house, fake)
    process.send_signal(signal.SIGTERM)
    _, output = await asyncio.wait_for(process.communicate(), 5)
    assert (process.returncode, b"Traceback" in output) == (0, False)
    entry = house.progress()["m"]
    assert (entry["state"], entry["reason"]) == ("waiting", "the puller was stopped")
    await finish(house, fake)


async def test_a_killed_download_is_resumed(house: House, fake: FakeOllama) -> None:
    process = await start_and_wait_for_half(house, fake)
    process.kill()
    await process.communicate()
    assert house.progress()["m"]["state"] == "pulling"
    assert house.pulled()["m:latest"]["state"] == "pulling"
    await finish(house, fake)
