"""One stream's listener: sound in, events out.

The text of an utterance is begun after a short silence, before it is sure that nobody speaks
again: so the recognition hides behind the wait for the end of speech.
"""

import asyncio
import time
from collections.abc import Callable

from hearth_serving.errors import ServiceError, log_unexpected, outcome_of
from hearth_whisper.live.attempt import Attempt, Tell, Works
from hearth_whisper.live.guesses import Guesses
from hearth_whisper.live.orders import Start
from hearth_whisper.live.ring_buffer import RingBuffer
from hearth_whisper.live.turns import FRAME, PRE_ROLL, Cue, Ended, Paused, Resumed, Started, Turns
from hearth_whisper.live.utterance import Utterance
from hearth_whisper.live.vad import Hears
from hearth_whisper.recognising import SAMPLE_RATE, Samples, Stopped
from hearth_whisper.recognising.finals import Talker

# So many utterances may wait for their texts; then no more sound is taken until one has its.
_WAITING = 2
_AT_ONCE = 16 * FRAME


class Listener:
    """Hears one talker; `answer` runs beside `hear`, and `close` drops what neither has ended."""

    def __init__(
        self,
        ear: Hears,
        work: Works,
        asked: Start,
        tell: Tell,
        *,
        clock: Callable[[], float] = time.monotonic,
        waited: Callable[[float], None] = lambda latency_s: None,
    ) -> None:
        """Take who hears, who recognises and what was asked.

        `waited` is told how long each final took to come.
        """
        self._ear, self._work, self._asked = ear, work, asked
        self._tell, self._clock = tell, clock
        self._waited = waited
        self._turns = Turns(asked.end_of_speech_ms)
        self._guesses = Guesses(work, asked, tell)
        self._tape = RingBuffer()
        self._judged = 0
        self._now: Utterance | None = None
        self._ended: asyncio.Queue[Utterance | str] = asyncio.Queue(_WAITING)
        self._talker, self._attempts = Talker(), set[Attempt]()
        self.finals = self.failures = 0

    @property
    def heard_s(self) -> float:
        """How much sound came."""
        return self._tape.end / SAMPLE_RATE

    @property
    def is_speech(self) -> bool:
        """Whether an utterance is open."""
        return self._now is not None

    @property
    def is_busy(self) -> bool:
        """Whether an utterance is open or has no text yet."""
        return self.is_speech or bool(self._attempts)

    async def hear(self, samples: Samples) -> None:
        """Take sound; waits while too many utterances wait for their texts."""
        now = self._clock()
        # A long message is many short ones: others get their turns between them.
        for begin in range(0, samples.size, _AT_ONCE):
            self._tape.add(samples[begin : begin + _AT_ONCE], now)
            while self._whole >= self._turns.patience:
                await self._judge(self._whole)
            if self._now:
                self._guesses.perhaps(self._now, self._tape)
            self._tape.forget(self._now.begin if self._now else self._judged - 2 * PRE_ROLL)
            await asyncio.sleep(0)

    async def flush(self, then: str = "") -> None:
        """End what is being said; its final comes at once, and then an event of type `then`."""
        if self._whole:
            await self._judge(self._whole)
        for cue in self._turns.flush(self._tape.end):
            await self._act(cue)
        if then:
            await self._ended.put(then)

    async def answer(self) -> None:
        """Tell the finals in order; ends after `done`."""
        while True:
            item = await self._ended.get()
            if isinstance(item, Utterance):
                await self._answer(item)
                continue
            await self._tell({"type": item})
            if item == "done":
                return

    async def close(self) -> None:
        """Drop all work: nobody waits for it any more."""
        attempts = list(self._attempts)
        for attempt in attempts:
            attempt.drop()
        await self._guesses.close()
        await asyncio.gather(*(attempt.task for attempt in attempts), return_exceptions=True)

    @property
    def _whole(self) -> int:
        return (self._tape.end - self._judged) // FRAME

    async def _judge(self, count: int) -> None:
        begin, self._judged = self._judged, self._judged + count * FRAME
        for frame in self._ear.hear(self._tape.between(begin, self._judged)):
            for cue in self._turns.hear(frame):
                await self._act(cue)

    async def _act(self, cue: Cue) -> None:
        if isinstance(cue, Started):
            self._now = Utterance(cue.utterance, cue.at, cue.begin, cue.cut)
            # One that was unloaded in a long silence is loaded while somebody speaks.
            self._work.wake()
            await self._tell(self._now.started())
        elif self._now is None:
            return
        elif isinstance(cue, Paused):
            self._start_attempt(self._now, cue.upto)
        elif isinstance(cue, Resumed):
            self._drop_attempt(self._now)
        elif isinstance(cue, Ended):
            utterance, self._now = self._now, None
            await self._end(utterance, cue)

    def _start_attempt(self, utterance: Utterance, upto: int) -> None:
        utterance.upto = upto
        sound = self._tape.between(utterance.begin, upto)
        attempt = utterance.attempt = Attempt(
            self._work, sound, self._asked.options(), self._talker
        )
        self._attempts.add(attempt)
        attempt.task.add_done_callback(lambda _: self._attempts.discard(attempt))
        self._guesses.foretell(utterance, attempt)

    def _drop_attempt(self, utterance: Utterance) -> None:
        if utterance.attempt:
            utterance.attempt.drop()
            utterance.attempt = None

    async def _end(self, utterance: Utterance, cue: Ended) -> None:
        utterance.end, utterance.arrived = cue.at, self._tape.arrived(cue.at)
        # One that failed was perhaps too early, while others were served.
        if utterance.attempt is None or utterance.attempt.failed:
            self._start_attempt(utterance, cue.upto)
        assert utterance.attempt  # noqa: S101 - it was begun now, or in the pause
        utterance.attempt.wanted()
        await self._tell(utterance.ended(cut=cue.cut))
        await self._ended.put(utterance)

    async def _answer(self, utterance: Utterance) -> None:
        assert utterance.attempt  # noqa: S101 - what has ended has one
        try:
            recognised = await utterance.attempt.task
        except ServiceError as error:
            utterance.over = True
            # Here, once for an utterance: those who are told hear no more than that it broke.
            self.failures += outcome_of(error) == "failed"
            await self._tell(utterance.failed(error))
        except Stopped:
            utterance.over = True
            stopping = ServiceError("the server is stopping", status=503, code="stopping")
            await self._tell(utterance.failed(stopping))
        except Exception as caught:
            utterance.over = True
            self.failures += 1
            await self._tell(utterance.failed(log_unexpected(caught)))
        else:
            utterance.over = True
            latency_s = max(0.0, self._clock() - utterance.arrived)
            await self._tell(utterance.final(recognised, latency_s))
            self._waited(latency_s)
            self.finals += 1
