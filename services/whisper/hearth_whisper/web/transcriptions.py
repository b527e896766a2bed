"""`POST /v1/audio/transcriptions` and `/translations`."""

import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from hearth_serving.errors import ServiceError, error_response, outcome_of
from hearth_serving.forms import Form, read_form
from hearth_serving.streaming import StreamedResponse
from hearth_whisper.audio.opening import open_apart
from hearth_whisper.recognising.work import FileText
from hearth_whisper.web import formats, sse
from hearth_whisper.web.asked import Asked, check_model, read_asked
from hearth_whisper.web.state import ServerState

log = logging.getLogger(__name__)

Task = Literal["transcribe", "translate"]


async def transcriptions(request: Request) -> Response:
    """Write down what is said in a file."""
    return await _begin(request, "transcribe")


async def translations(request: Request) -> Response:
    """Write down in English what is said in a file."""
    return await _begin(request, "translate")


async def _begin(request: Request, task: Task) -> Response:
    """Read what is asked for; the answer does the listening."""
    desk: ServerState = request.app.state.server
    form: Form | None = None
    try:
        form = await read_form(request, desk.limits, desk.uploads)
        asked = read_asked(form.fields)
        _check(desk, form, asked, task)
    except ServiceError as error:
        if form:
            form.close()
        desk.metrics.ended(outcome_of(error))
        return error_response(error)
    return _Answer(desk, form, asked, task)


def _check(desk: ServerState, form: Form, asked: Asked, task: Task) -> None:
    """Refuse what no model need be asked about."""
    if not form.upload:
        message = "file is missing: send the audio in the form field `file`"
        raise ServiceError(message, param="file", code="missing_required_parameter")
    if not form.size:
        raise ServiceError("the file is empty", param="file", code="empty_file")
    _check_model(desk, asked)
    desk.work.check(asked.options(translate=task == "translate"))


def _check_model(desk: ServerState, asked: Asked) -> None:
    """Refuse another model than the one here; while it is being chosen, nobody knows which."""
    if here := desk.work.describe().get("model"):
        check_model(asked.model, str(here))


@dataclass(slots=True)
class _Figures:
    """What the log says of one file; never a word of it."""

    began: float
    audio_s: float = 0.0


class _Answer(StreamedResponse):
    """The answer to one file."""

    def __init__(self, desk: ServerState, form: Form, asked: Asked, task: Task) -> None:
        """Nothing is recognised before somebody listens."""
        super().__init__(desk.limits, "the transcription did not finish")
        self._state, self._form, self._asked, self._task = desk, form, asked, task
        self._figures = _Figures(time.monotonic())

    def ended(self, outcome: str) -> None:
        """Forget the file and note how it went."""
        self._form.close()
        took_s = time.monotonic() - self._figures.began
        self._state.metrics.ended(outcome)
        if outcome == "done":
            self._state.metrics.file(took_s, self._figures.audio_s)
        log.info(
            "%s %s audio_s=%.1f format=%s total_ms=%.0f",
            self._task,
            outcome,
            self._figures.audio_s,
            self._asked.response_format,
            took_s * 1000,
        )

    async def produce(self, send: Send) -> None:
        """Listen to the end of the file."""
        async with self._listening() as text:
            await (self._stream if self._asked.stream else self._whole)(text, send)

    def interrupted(self, error: ServiceError) -> tuple[bytes, str]:
        """Say it as an event: only streams have begun before they are whole."""
        return sse.failed(error), sse.MEDIA_TYPE

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[FileText]:
        source, most_s = self._form.file, self._state.limits.audio_s
        recording = await open_apart(source, most_s)
        try:
            options = self._asked.options(translate=self._task == "translate")
            async with aclosing(await self._state.work.file(recording, options)) as text:
                _check_model(self._state, self._asked)
                yield text
        finally:
            recording.close()
            self._figures.audio_s = recording.seconds

    async def _whole(self, text: FileText, send: Send) -> None:
        segments = [segment async for segment in text]
        written = formats.Written(segments, text.language, text.audio_s)
        match self._asked.response_format:
            case "json":
                content = json.dumps(formats.plain(written))
            case "verbose_json":
                granularities = self._asked.timestamp_granularities
                content = json.dumps(formats.verbose(written, self._task, granularities))
            case "text":
                content = formats.text(written)
            case "srt":
                content = formats.srt(written)
            case "vtt":
                content = formats.vtt(written)
        kind = formats.MEDIA_TYPES.get(self._asked.response_format, "application/json")
        data = content.encode()
        await self.write(send, data, kind, last=True, length=len(data))

    async def _stream(self, text: FileText, send: Send) -> None:
        whole, number = "", 0
        async for segment in text:
            # Between two segments stands the second one's own space; before the first, nothing.
            said = segment.text if whole else segment.text.lstrip()
            if not said:
                continue
            timed = sse.segment(number, segment) if self._asked.timed else b""
            await self.write(send, sse.delta(said) + timed, sse.MEDIA_TYPE)
            whole, number = whole + said, number + 1
        await self.write(send, sse.done(whole), sse.MEDIA_TYPE, last=True)
