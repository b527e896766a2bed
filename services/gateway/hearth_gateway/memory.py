"""Refuses a load before it begins where it would take the memory that speech needs.

`hearth plan` says what speech leaves for models, and what each of them takes until the model server
has said it: what it has in memory counts, and what a model took when it was there last. Models that
rest are unloaded for the next one. Without a plan nothing is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from hearth_gateway.errors import MemberError, member_error
from hearth_gateway.settings import Memory, Name

NO_MEMORY = "no_memory"
_STATUS = 507
_ASK_S, _UNLOAD_S = 2.0, 20.0
# One that has just answered is still there: a chat's next request need not wait for the question.
_KNOWN_S = 10.0
_GIB = 2**30
_NO_ANSWER = (httpx.HTTPError, TimeoutError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(slots=True)
class Rooms:
    """What is in the memory of each model server, and which models answer now."""

    names: Mapping[str, Name]
    transport: httpx.AsyncBaseTransport | None = None
    clock: Callable[[], float] = time.monotonic
    _busy: Counter[str] = field(default_factory=Counter)
    _seen: dict[str, float] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    """What each model really took, by its key."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def admitted(self, member: str) -> AsyncIterator[None]:
        """Let a member answer while the block runs.

        Raises:
            MemberError: it would be loaded, and has no room; the text says why.
        """
        memory = self.names[member].memory
        if memory is None:
            yield
            return
        self._busy[member] += 1
        try:
            if self.clock() - self._seen.get(member, float("-inf")) > _KNOWN_S:
                await self._make_room(member, memory)
            yield
            self._seen[member] = self.clock()
        finally:
            self._busy[member] -= 1

    async def _make_room(self, member: str, memory: Memory) -> None:
        async with (
            self._locks.setdefault(memory.url, asyncio.Lock()),
            httpx.AsyncClient(
                transport=self.transport, base_url=memory.url, trust_env=False
            ) as client,
        ):
            # A server that does not answer, or not as it should, has its own error later.
            with contextlib.suppress(*_NO_ANSWER):
                await self._unload_others(client, member, memory)
                return
        if memory.refused:
            raise _refused(member, memory)

    async def _unload_others(self, client: httpx.AsyncClient, member: str, memory: Memory) -> None:
        """Unload models that rest, those that end soonest first, until there is room."""
        async with asyncio.timeout(_ASK_S):
            found = (await client.get("/api/ps", timeout=_ASK_S)).json()
        there = {_key(one.get("name")): one for one in found.get("models") or ()}
        sizes = {key: _size(one, memory) for key, one in there.items()}
        self._sizes |= sizes
        wanted = _key(self.names[member].id)
        if wanted in there:
            return
        # A plan may be older than the model, or know it by its size only.
        if memory.refused and self._sizes.get(wanted, memory.needed_bytes) > memory.room_bytes:
            raise _refused(member, memory)
        needed, used = self._needed(self.names[member], memory), sum(sizes.values())
        own = {_key(name.id): key for key, name in self.names.items() if name.memory}
        # What was admitted a moment ago is not there yet.
        used += sum(
            self._needed(other, other.memory)
            for key, other in self.names.items()
            if other.memory and other.memory.url == memory.url
            if self._busy[key] and key != member and _key(other.id) not in there
        )
        resting = [key for key in there if not self._busy[own.get(key, "")]]
        if used - sum(sizes[key] for key in resting) + needed > memory.room_bytes:
            # Nothing is unloaded for what has no room all the same.
            busy = [key for key, count in self._busy.items() if count and key != member]
            raise _full(member, replace(memory, needed_bytes=needed), busy)
        for key in sorted(resting, key=lambda key: str(there[key].get("expires_at"))):
            if used + needed <= memory.room_bytes:
                return
            async with asyncio.timeout(_UNLOAD_S):
                body = {"model": there[key]["name"], "keep_alive": 0}
                (
                    await client.post("/api/generate", json=body, timeout=_UNLOAD_S)
                ).raise_for_status()
            self._seen.pop(own.get(key, ""), None)
            used -= sizes[key]

    def _needed(self, name: Name, memory: Memory) -> int:
        """Return what a model takes: what it took when it was there last, or else as planned."""
        if memory.needed_bytes == memory.room_bytes and not memory.refused:
            # It is planned to fill a card, and to spill what does not fit.
            return memory.room_bytes
        return self._sizes.get(_key(name.id), memory.needed_bytes)


def _refused(member: str, memory: Memory) -> MemberError:
    return member_error(_STATUS, f"{member} is not loaded: {memory.refused}", NO_MEMORY)


def _full(member: str, memory: Memory, busy: list[str]) -> MemberError:
    need, room = (size / _GIB for size in (memory.needed_bytes, memory.room_bytes))
    text = f"{member} is not loaded: it needs {need:.1f} GiB of the {room:.1f} GiB for models"
    if busy:
        text += f", of which {', '.join(busy)} answers others now"
    return member_error(_STATUS, text, NO_MEMORY)


def _size(entry: Mapping[str, Any], memory: Memory) -> int:
    """Return what a loaded model takes of the room: of a card, without its part on the host."""
    size = int(entry.get("size") or 0)
    return min(size, int(entry.get("size_vram") or 0)) if memory.on_card else size


def _key(name: Any) -> str:
    """Return one spelling for all that the server accepts for a model."""
    key = str(name).lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return key if ":" in key.rsplit("/", 1)[-1] else f"{key}:latest"
