"""One recognition of an utterance, which may turn out to be in vain."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from hearth_whisper.recognising import Options, Samples, Stop
from hearth_whisper.recognising.work import Recognised

Tell = Callable[[dict[str, Any]], Awaitable[None]]
"""Takes one event to the client; it may wait for a slow one."""


class Works(Protocol):
    """What listening needs of `Work`."""

    async def final(self, samples: Samples, options: Options, stop: Stop) -> Recognised:
        """Recognise a whole utterance."""
        ...

    async def partial(self, samples: Samples, options: Options) -> Recognised | None:
        """Recognise what was said until now, if there is capacity for it."""
        ...


class Take:
    """A recognition that has begun; whoever speaks on makes it worthless."""

    def __init__(self, work: Works, samples: Samples, options: Options) -> None:
        """Begin it."""
        self._stop = Stop()
        self.task = asyncio.create_task(work.final(samples, options, self._stop))
        # One that is dropped fails with nobody looking.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def failed(self) -> bool:
        """Whether it ended without a text."""
        task = self.task
        return task.done() and (task.cancelled() or task.exception() is not None)

    def drop(self) -> None:
        """Stop it before its next step."""
        self._stop.set()
        self.task.cancel()
