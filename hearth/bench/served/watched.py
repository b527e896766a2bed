"""One server while it is measured: its health and its memory meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx

from hearth.clients import ClientError
from hearth.clients.endpoints import Endpoint, fetch_json, is_healthy

# So many failures in a row are no accident: asking on would only take hours.
FAILURES = 3
HEALTH_EVERY_S = 0.025
_HEALTH_S = 5.0


@dataclass(slots=True)
class Watched:
    """One server with what it says of itself; `stopped` says why it is not asked any more."""

    weigh_every: ClassVar[int]
    """How many questions for health come before the next for memory."""

    server: Endpoint
    client: httpx.AsyncClient
    health_s: list[float | None] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int | None = None
    stopped: str = ""

    async def begin(self) -> None:
        """Learn what the server says of itself.

        Raises:
            ClientError: nobody answers there.
        """
        await self.weigh()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Ask for health and memory while the body runs, on a connection of its own."""
        async with self.server.client() as client:
            asking = asyncio.create_task(self._watch(client))
            try:
                yield
            finally:
                asking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asking

    async def _watch(self, client: httpx.AsyncClient) -> None:
        # The first question opens the connection; what a server does is in those that follow.
        await is_healthy(client, _HEALTH_S)
        for turn in itertools.count():
            if self.stopped:
                return
            # What it takes is seen while it works: afterwards it has given most of it back.
            if turn % self.weigh_every == 0 and self.memory_bytes is not None:
                with contextlib.suppress(ClientError):
                    await self.weigh(client)
            start = time.perf_counter()
            well = await is_healthy(client, _HEALTH_S)
            self.health_s.append(time.perf_counter() - start if well else None)
            await asyncio.sleep(HEALTH_EVERY_S)

    async def weigh(self, client: httpx.AsyncClient | None = None) -> int | None:
        """Ask what the server says of itself; return its memory in bytes, where it says that.

        Raises:
            ClientError: nobody answers there.
        """
        self.status = await fetch_json(client or self.client, "/status") or self.status
        size = self.status.get("memory_bytes")
        if not isinstance(size, int) or not size:
            return None
        self.memory_bytes = max(size, self.memory_bytes or 0)
        return size
