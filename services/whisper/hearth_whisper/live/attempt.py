"""One recognition of an utterance, which may turn out to be in vain."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from hearth_whisper.recognising import Options, Samples, Stop
from hearth_whisper.recognising.finals import Claim, Talker
from hearth_whisper.recognising.work import WholeText

Tell = Callable[[dict[str, Any]], Awaitable[None]]
"""Takes one event to the client; it may wait for a slow one."""


class Works(Protocol):
    """What listening needs of `Work`."""

    async def final(
        self, samples: Samples, options: Options, stop: Stop, claim: Claim | None = None
    ) -> WholeText:
        """Recognise a whole utterance."""
        ...

    def wake(self) -> None:
        """Load the model, if it is not, because somebody will need it soon."""
        ...

    async def partial(self, samples: Samples, options: Options) -> WholeText | None:
        """Recognise what was said until now, if there is capacity for it."""
        ...


class Attempt:
    """A recognition that has begun; whoever speaks on makes it worthless."""

    def __init__(self, work: Works, samples: Samples, options: Options, talker: Talker) -> None:
        """Begin it; nobody waits for it yet."""
        self._stop, self._claim = Stop(), Claim(talker, due=False)
        self.task = asyncio.create_task(work.final(samples, options, self._stop, self._claim))
        # One that is dropped fails with nobody looking.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def failed(self) -> bool:
        """Whether it ended without a text."""
        task = self.task
        return task.done() and (task.cancelled() or task.exception() is not None)

    def wanted(self) -> None:
        """Let it come before those that nobody waits for: the speech is over."""
        self._claim.due = True

    def drop(self) -> None:
        """Stop it before its next step."""
        self._stop.set()
        self.task.cancel()
