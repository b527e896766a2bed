"""What the puller learns from its machine: room, memory, clocks, chance."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hearth_model_puller import room

MARGIN_BYTES = 10**9


@dataclass(frozen=True, slots=True)
class World:
    """What the puller learns from its machine, so that a test can say it instead."""

    free_bytes: Callable[[], int]
    memory_bytes: Callable[[], int] = room.memory_bytes
    margin_bytes: int = MARGIN_BYTES
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.SystemRandom().random
