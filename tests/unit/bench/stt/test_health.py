"""Only who says that he is well counts as well, however quickly another one answers."""

from __future__ import annotations

import asyncio

import pytest

from hearth.bench.stt.word_errors import SttServer
from hearth.clients.endpoints import Endpoint
from tests.unit.bench.stt.scripted import Scripted


@pytest.mark.parametrize(("habit", "well"), [("steady", True), ("ill", False)])
async def test_health_is_polled_during_the_run(scripted: Scripted, habit: str, well: bool) -> None:
    server = Endpoint(habit, scripted.at(habit), "whisper-1")
    async with server.client() as client:
        target = SttServer(server, client)
        async with target.watched():
            while len(target.health_s) < 3:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.001)
    assert [took is not None for took in target.health_s[:3]] == [well] * 3
