"""`POST /v1/audio/transcriptions` and `/translations`."""

import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from hearth_serving.errors import ServiceError, error_response, outcome_of
from hearth_serving.forms import Form, read_form
from hearth_serving.metrics import recorder
from hearth_serving.streaming import StreamedResponse
from hearth_whisper.audio.decode import open_upload
from hearth_whisper.recognition.transcription import FileTranscription, Transcript
from hearth_whisper.web import formats
from hearth_whisper.web.requests import TranscriptionRequest, check_model, read_request
from hearth_whisper.web.state import ServerState, WhisperMetrics

log = logging.getLogger(__name__)

Task = Literal["transcribe", "translate"]


async def create_transcription(request: Request) -> Response:
    """Transcribe a file."""
    return await _respond(request, "transcribe")


async def create_translation(request: Request) -> Response:
    """Transcribe a file into English."""
    return await _respond(request, "translate")


async def _respond(request: Request, task: Task) -> Response:
    """Read the form; the response transcribes the file while it is sent."""
    state: ServerState = request.app.state.server
    metrics = recorder(state.metrics, request.scope)
    form: Form | None = None
    try:
        form = await read_form(request, state.limits, state.uploads)
        fields = read_request(form.fields)
        _check(state, form, fields, task)
    except ServiceError as error:
        if form:
            form.close()
        metrics.ended(outcome_of(error))
        return error_response(error)
    return _TranscriptionResponse(state, metrics, form, fields, task)


def _check(state: ServerState, form: Form, fields: TranscriptionRequest, task: Task) -> None:
    """Raise ServiceError for a request that fails without the model."""
    if not form.upload:
        message = "file is missing: send the audio in the form field `file`"
        raise ServiceError(message, param="file", code="missing_required_parameter")
    if not form.size:
        raise ServiceError("the file is empty", param="file", code="empty_file")
    _check_model(state, fields)
    state.scheduler.check(fields.options(translate=task == "translate"))


def _check_model(state: ServerState, fields: TranscriptionRequest) -> None:
    """Reject another model's name; before the selection, no name is known.

    A model that was not selected is a valid name: the selected one answers, and a header names it.
    """
    if name := state.scheduler.describe().get("model"):
        check_model(fields.model, str(name), state.candidates)


class _TranscriptionResponse(StreamedResponse):
    """The response to one file."""

    def __init__(
        self,
        state: ServerState,
        metrics: WhisperMetrics,
        form: Form,
        fields: TranscriptionRequest,
        task: Task,
    ) -> None:
        super().__init__(state.limits, "the transcription did not finish")
        self._state, self._metrics = state, metrics
        self._form, self._fields, self._task = form, fields, task
        self._started_at, self._audio_s = time.monotonic(), 0.0

    def ended(self, outcome: str) -> None:
        """Delete the file, count the request and log its figures, never its text."""
        self._form.close()
        duration_s = time.monotonic() - self._started_at
        self._metrics.ended(outcome)
        if outcome == "done":
            self._metrics.observe_file(duration_s, self._audio_s)
        log.info(
            "%s %s audio_s=%.1f format=%s total_ms=%.0f",
            self._task,
            outcome,
            self._audio_s,
            self._fields.response_format,
            duration_s * 1000,
        )

    async def produce(self, send: Send) -> None:
        """Transcribe to the end of the file."""
        async with self._transcription() as output:
            await (self._stream if self._fields.stream else self._send_whole)(output, send)

    def interrupted(self, error: ServiceError) -> tuple[bytes, str]:
        """Return the error as an event: only streams start before they are complete."""
        return formats.error_event(error), formats.EVENT_STREAM

    @asynccontextmanager
    async def _transcription(self) -> AsyncIterator[FileTranscription]:
        audio = await open_upload(self._form.file, self._state.limits.audio_s)
        try:
            options = self._fields.options(translate=self._task == "translate")
            transcription = await self._state.scheduler.transcribe_file(audio, options)
            async with aclosing(transcription) as output:
                _check_model(self._state, self._fields)
                if name := self._state.scheduler.describe().get("model"):
                    self._more_headers = {"x-hearth-model": str(name)}
                yield output
        finally:
            audio.close()
            self._audio_s = audio.seconds

    async def _send_whole(self, output: FileTranscription, send: Send) -> None:
        segments = tuple([segment async for segment in output])
        transcript = Transcript(
            segments, output.language, output.language_probability, output.audio_s, output.seconds
        )
        match self._fields.response_format:
            case "json":
                content = json.dumps(formats.json_content(transcript))
            case "verbose_json":
                granularities = self._fields.timestamp_granularities
                verbose = formats.verbose_content(transcript, self._task, granularities)
                content = json.dumps(verbose)
            case "text":
                content = formats.text_content(transcript)
            case "srt":
                content = formats.srt_content(transcript)
            case "vtt":
                content = formats.vtt_content(transcript)
        media_type = formats.MEDIA_TYPES.get(self._fields.response_format, "application/json")
        data = content.encode()
        await self.write(send, data, media_type, last=True, length=len(data))

    async def _stream(self, output: FileTranscription, send: Send) -> None:
        text, number = "", 0
        async for segment in output:
            # Whisper's segments start with a space, which the first delta must not have.
            delta = segment.text if text else segment.text.lstrip()
            if not delta:
                continue
            timed = self._fields.streams_segments
            times = formats.segment_event(number, segment) if timed else b""
            await self.write(send, formats.delta_event(delta) + times, formats.EVENT_STREAM)
            text, number = text + delta, number + 1
        await self.write(send, formats.done_event(text), formats.EVENT_STREAM, last=True)
