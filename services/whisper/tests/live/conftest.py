"""Sessions that are closed with their test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ..web.conftest import open_server
from .client import connect_stream
from .scripted import ScriptedScheduler, SessionDriver, StartSession

__all__ = ["connect_stream", "open_server", "start_session"]


@pytest.fixture
async def start_session() -> AsyncIterator[StartSession]:
    drivers: list[SessionDriver] = []

    def opened(scheduler: ScriptedScheduler, **parameters: Any) -> SessionDriver:
        drivers.append(SessionDriver(scheduler, **parameters))
        return drivers[-1]

    yield opened
    for one in drivers:
        one.sending.cancel()
        await one.session.close()
