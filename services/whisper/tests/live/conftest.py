"""Talks that are ended with their test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ..web.conftest import open_house
from .line import dial
from .scripted import ScriptedWork, Talk, Talks

__all__ = ["dial", "open_house", "talk"]


@pytest.fixture
async def talk() -> AsyncIterator[Talks]:
    talks: list[Talk] = []

    def opened(work: ScriptedWork, **asked: Any) -> Talk:
        talks.append(Talk(work, **asked))
        return talks[-1]

    yield opened
    for one in talks:
        one.answering.cancel()
        await one.listener.close()
