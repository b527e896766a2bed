"""The partials of a stream: one at a time, where there is capacity, and never in a final's way."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hearth_serving.errors import ServiceError, log_unexpected
from hearth_whisper.live.attempt import Attempt, Tell, Works
from hearth_whisper.live.orders import Start
from hearth_whisper.live.ring_buffer import RingBuffer
from hearth_whisper.live.turns import PRE_ROLL
from hearth_whisper.live.utterance import Utterance
from hearth_whisper.recognising import SAMPLE_RATE, Samples, Stopped

_FIRST = PRE_ROLL + SAMPLE_RATE // 2
_EVERY = SAMPLE_RATE // 4


class Guesses:
    """Asks for guesses at an utterance that goes on; each may be asked too much."""

    def __init__(self, work: Works, asked: Start, tell: Tell) -> None:
        """Take who guesses, what was asked and who hears of it."""
        self._work, self._asked, self._tell = work, asked, tell
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = False

    def perhaps(self, utterance: Utterance, tape: RingBuffer) -> None:
        """Ask for a partial of what was said until now, if enough was said since the last."""
        end = tape.end
        # While its whole text is made, a guess would come later and be worse.
        wanted = self._asked.partials and utterance.attempt is None and not self._busy
        if wanted and end >= max(utterance.begin + _FIRST, utterance.tried + _EVERY):
            utterance.tried = end
            self._busy = True
            self._go(self._ask(utterance, end, tape.between(utterance.begin, end)))

    def foretell(self, utterance: Utterance, attempt: Attempt) -> None:
        """Show the text of an attempt early: it is final if nobody speaks again."""
        if self._asked.partials:
            self._go(self._foretell(utterance, attempt))

    async def close(self) -> None:
        """Drop all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        # A guess that fails is missed by nobody: the final says what is wrong.
        try:
            await work
        except (ServiceError, Stopped, ConnectionError):
            pass
        except Exception as error:
            log_unexpected(error)

    async def _ask(self, utterance: Utterance, end: int, sound: Samples) -> None:
        try:
            guess = await self._work.partial(sound, self._asked.options(quick=True))
        finally:
            self._busy = False
        if guess and not utterance.over:
            await self._tell(utterance.partial(guess.text, end))

    async def _foretell(self, utterance: Utterance, attempt: Attempt) -> None:
        await asyncio.wait({attempt.task})
        # Once speech has ended, the final says the same.
        if utterance.attempt is attempt and not utterance.end and not attempt.failed:
            await self._tell(utterance.partial(attempt.task.result().text, utterance.upto))
