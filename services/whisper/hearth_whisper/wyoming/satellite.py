"""One satellite: what it says is heard until it stops, and answered with the text."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wyoming.error import Error
from wyoming.event import Event
from wyoming.ping import Pong

from hearth_serving.errors import BROKEN, ServiceError, log_unexpected, outcome_of
from hearth_whisper.live.attempt import Works
from hearth_whisper.live.orders import Start
from hearth_whisper.live.vad import Hears
from hearth_whisper.recognising import Options
from hearth_whisper.wyoming.command import Command
from hearth_whisper.wyoming.info import info_of
from hearth_whisper.wyoming.limits import SatelliteLimits
from hearth_whisper.wyoming.link import Left, Link
from hearth_whisper.wyoming.transcribe import USUAL, read_transcribe

log = logging.getLogger(__name__)


class Listens(Works, Protocol):
    """What satellites need of recognising.work.Work."""

    def describe(self) -> dict[str, Any]:
        """Say which model it is, and its languages."""
        ...

    def check(self, options: Options) -> None:
        """Raise ServiceError for what the model, once it is known, cannot do."""
        ...


@dataclass(slots=True)
class Satellite:
    """A conversation with whoever is at the other end of `link`."""

    work: Listens
    link: Link
    limits: SatelliteLimits
    ear: Callable[[], Awaitable[Hears]]
    """Returns what hears one recording."""
    ended: Callable[[str], None] = lambda _: None
    """Is told how each recording ended, in the words of the metrics."""
    waited: Callable[[float], None] = lambda _: None
    """Is told how long each final took to come."""
    _asked: Start = USUAL
    _command: Command | None = None
    _until: float = 0.0

    async def serve(self) -> None:
        """Answer until the satellite leaves, or says something that cannot be answered."""
        outcome = "left"
        try:
            while (event := await self.link.hear(self._within_s())) is not None:
                await self._obey(event)
        except Left:
            pass
        except ServiceError as error:
            outcome = outcome_of(error)
            await self._refuse(error)
        except Exception as error:
            outcome = "failed"
            await self._refuse(log_unexpected(error))
        finally:
            await self._end(outcome)

    def _within_s(self) -> float:
        """Return how long the next event may take: a recording has its end in sight."""
        if self._command is None:
            return self.limits.idle_s
        return min(self.limits.idle_s, self._until - time.monotonic())

    async def _obey(self, event: Event) -> None:
        data = event.data
        match event.type:
            case "describe":
                await self.link.tell(info_of(self.work.describe()))
            case "ping":
                text = data.get("text")
                await self.link.tell(Pong(text if isinstance(text, str) else None))
            case "transcribe":
                # Who asks will speak at once: a model that rests is loaded by then.
                self.work.wake()
                asked = read_transcribe(data, self.work.describe().get("model"))
                self.work.check(asked.options())
                self._asked = asked
            case "audio-start":
                await self._begin()
            case "audio-chunk":
                command = self._command or await self._begin()
                await command.hear(data, event.payload or b"")
            case "audio-stop":
                await self._answer(self._command or await self._begin())
            # What a newer satellite says besides is not for us.

    async def _begin(self) -> Command:
        await self._end("left")
        self.work.wake()
        self._until = time.monotonic() + self.limits.turn_s
        ear, most_s = await self.ear(), self.limits.audio_s
        command = Command(ear, self.work, self._asked, self.link, most_s, self.waited)
        self._command = command
        return command

    async def _answer(self, command: Command) -> None:
        """Send the text of what was recorded, and be ready for the next one."""
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                await command.finish()
        except TimeoutError:
            message = f"no text within {self.limits.timeout_s:g} s"
            raise ServiceError(message, status=504, code="too_slow") from None
        self._asked = USUAL
        await self._end("done")

    async def _end(self, outcome: str) -> None:
        """Count the recording under way, if any, and drop what is done for it."""
        command, self._command = self._command, None
        if command is not None:
            self.ended(outcome)
            log.info("satellite %s audio=%.1fs", outcome, command.seconds)
            await command.close()

    async def _refuse(self, error: ServiceError) -> None:
        """Say what is wrong. Satellites wait for their text all the same, so we hang up then."""
        said = BROKEN if error.status == 500 else str(error)
        with contextlib.suppress(Left):
            await self.link.tell(Error(said, error.code))
