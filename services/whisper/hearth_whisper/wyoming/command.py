"""One recording: heard while it is spoken, so that its text is there when it stops.

It is listened to as a live stream is: what is said is recognised in the first short silence. The
satellite waits longer than that before it says that the command is over; then the text is ready.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from wyoming.asr import Transcript, TranscriptChunk, TranscriptStart, TranscriptStop

from hearth_serving.errors import ServiceError
from hearth_whisper.live.attempt import Works
from hearth_whisper.live.listener import Listener
from hearth_whisper.live.orders import Start
from hearth_whisper.live.vad import Hears
from hearth_whisper.wyoming.chunks import Chunks
from hearth_whisper.wyoming.link import Left, Link

# Written without spaces between words.
_CLOSE = frozenset(["zh", "ja", "th", "lo", "my", "bo", "km", "yue"])
_STATUS = {"rate_limit_error": 429, "service_unavailable_error": 503, "server_error": 500}


class Command:
    """What a satellite says from one start to its stop."""

    def __init__(
        self,
        ear: Hears,
        work: Works,
        asked: Start,
        link: Link,
        most_s: float,
        waited: Callable[[float], None],
    ) -> None:
        """Listen; `close` ends it, whatever came of it. `waited` hears each final's latency."""
        self._text, self._language = "", asked.language
        self._chunks, self._link = Chunks(most_s), link
        self._listener = Listener(ear, work, asked, self._told, waited=waited)
        self._answering = asyncio.create_task(self._listener.answer())

    @property
    def seconds(self) -> float:
        """How long it is by now."""
        return self._chunks.seconds

    async def hear(self, data: Mapping[str, Any], sound: bytes) -> None:
        """Take the next chunk; raises ServiceError and Left."""
        kind = (data.get("rate"), data.get("width"), data.get("channels"))
        await self._unless_left(self._listener.hear(self._chunks.read(*kind, sound)))

    async def finish(self) -> None:
        """Tell the rest of the text, and all of it; raises ServiceError and Left."""
        await self._unless_left(self._listener.flush("done"))
        await self._unless_left(asyncio.wait({self._answering}))
        if not self._text:
            await self._link.tell(TranscriptStart(language=self._language))
        # Who knows no streaming waits for this one.
        await self._link.tell(Transcript(self._text, language=self._language), TranscriptStop())

    async def close(self) -> None:
        """Drop what is still done for it."""
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)
        await self._listener.close()

    async def _told(self, event: dict[str, Any]) -> None:
        if event["type"] == "error":
            error = event["error"]
            status = _STATUS.get(error["type"], 400)
            raise ServiceError(error["message"], status=status, code=error["code"])
        if event["type"] != "final" or not event["text"]:
            return
        self._language = event["language"]
        piece = event["text"]
        if not self._text:
            await self._link.tell(TranscriptStart(language=self._language))
        elif self._language not in _CLOSE:
            piece = f" {piece}"
        self._text += piece
        await self._link.tell(TranscriptChunk(piece))

    async def _unless_left(self, doing: Coroutine[Any, Any, Any]) -> None:
        """Wait until it is done; raises what went wrong beside it, and Left at a hang-up."""
        task, ahead = asyncio.ensure_future(doing), self._link.ahead()
        waiting: set[asyncio.Future[Any]] = {task, ahead, self._answering}
        try:
            while not task.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if ahead in done and not ahead.exception() and ahead.result() is None:
                    raise Left
                if self._answering in done:
                    self._answering.result()
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
