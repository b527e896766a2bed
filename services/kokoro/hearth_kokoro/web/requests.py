"""The requests for speech and the messages of the WebSocket, checked with OpenAI's error codes."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from hearth_kokoro.web.limits import Limits
from hearth_serving.errors import ServiceError, quoted

MODELS = ("kokoro", "tts-1", "tts-1-hd")
"""The names of the one model: its own, and two that OpenAI's clients request."""

OPENAI_VOICES = {
    "alloy": "af_alloy",
    "ash": "am_adam",
    "ballad": "bm_george",
    "cedar": "am_michael",
    "coral": "af_sarah",
    "echo": "am_echo",
    "fable": "bm_fable",
    "marin": "af_heart",
    "nova": "af_nova",
    "onyx": "am_onyx",
    "sage": "af_river",
    "shimmer": "af_bella",
    "verse": "am_puck",
}
"""OpenAI's voices: Kokoro's voice of the same name, or the most similar one."""

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
_Name = Annotated[str, StringConstraints(max_length=500)]


class VoiceId(BaseModel):
    """OpenAI's object for a voice."""

    id: _Name


class SpeechRequest(BaseModel):
    """The body of `POST /v1/audio/speech`; the fields of other servers are ignored."""

    model_config = ConfigDict(frozen=True)

    input: str
    model: _Name = "kokoro"
    voice: _Name | VoiceId = "af_heart"
    response_format: Format = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False)
    stream: bool = True
    stream_format: Literal["audio", "sse"] = "audio"
    early: bool = False
    """Whether the first sound comes at once even where the speech will then stall."""
    # Kokoro does not support instructions; OpenAI's tts-1 ignores them too.
    instructions: str | None = None

    @property
    def voice_name(self) -> str:
        """The name of the voice or blend, with OpenAI's names replaced."""
        return voice_name(self.voice.id if isinstance(self.voice, VoiceId) else self.voice)


class JobRequest(BaseModel):
    """The body of `POST /v1/audio/jobs`: a long text that becomes a file."""

    model_config = ConfigDict(frozen=True)

    input: str
    model: _Name = "kokoro"
    voice: _Name = "af_heart"
    response_format: Format = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False)

    @property
    def voice_name(self) -> str:
        """The name of the voice or blend, with OpenAI's names replaced."""
        return voice_name(self.voice)


class StreamQuery(BaseModel):
    """The query of `WS /v1/audio/stream`."""

    model_config = ConfigDict(frozen=True)

    model: _Name = "kokoro"
    voice: _Name = "af_heart"
    response_format: Format = "pcm"
    speed: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False)
    early: bool = False

    @property
    def voice_name(self) -> str:
        """The name of the voice or blend, with OpenAI's names replaced."""
        return voice_name(self.voice)


class TextMessage(BaseModel):
    """A WebSocket message with more text to speak."""

    type: Literal["text"]
    text: str


class ControlMessage(BaseModel):
    """A WebSocket message: speak all text, drop all text, or speak all text and end."""

    type: Literal["flush", "cancel", "end"]


_MESSAGE: TypeAdapter[TextMessage | ControlMessage] = TypeAdapter(
    Annotated[TextMessage | ControlMessage, Field(discriminator="type")]
)


_Request = TypeVar("_Request", SpeechRequest, JobRequest)


def parse_speech_request(body: bytes, limits: Limits) -> SpeechRequest:
    """Parse a request; raises ServiceError that names the first invalid field."""
    request = _parse(SpeechRequest, body, limits.text_characters)
    if request.stream_format == "sse" and not request.stream:
        raise ServiceError(
            "stream_format sse needs stream: true, which is the default", param="stream"
        )
    return request


def parse_job_request(body: bytes, limits: Limits) -> JobRequest:
    """Parse a request for a file; raises ServiceError that names the first invalid field."""
    return _parse(JobRequest, body, limits.job_characters)


def _parse(kind: type[_Request], body: bytes, characters: int) -> _Request:
    """Parse a request for speech with a text of at most so many characters."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(error) from None
    check_model(request.model)
    _check_text(request.input, characters)
    return request


def parse_stream_query(query: dict[str, str]) -> StreamQuery:
    """Parse the query of a WebSocket; raises ServiceError that names the first invalid field."""
    try:
        parsed = StreamQuery.model_validate(query)
    except ValidationError as error:
        raise _invalid(error) from None
    check_model(parsed.model)
    return parsed


def parse_message(message: str | None) -> TextMessage | ControlMessage:
    """Parse a WebSocket message, None for a binary one; raises ServiceError if it is invalid."""
    if message is None:
        raise ServiceError("send JSON as text, not binary", code="invalid_json")
    try:
        return _MESSAGE.validate_json(message)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            raise ServiceError("the message is not valid JSON", code="invalid_json") from None
        expected = 'send {"type": "text", "text": "..."} or a type of flush, cancel or end'
        raise ServiceError(expected, code="invalid_message") from None


def voice_name(name: str) -> str:
    """Return Kokoro's voice for one of OpenAI's names; any other name unchanged."""
    return OPENAI_VOICES.get(name.strip().lower(), name)


def check_model(name: str) -> None:
    """Raise ServiceError 404 if the model does not exist."""
    if name not in MODELS:
        message = f"there is no model {quoted(name)}; use {', '.join(MODELS)}"
        raise ServiceError(message, status=404, param="model", code="model_not_found")


def no_words_error() -> ServiceError:
    """Return the error for a text without words."""
    return ServiceError("input has no words to speak", param="input", code="empty_input")


def _check_text(text: str, limit: int) -> None:
    if not text.strip():
        raise no_words_error()
    if len(text) > limit:
        message = f"input has {len(text)} characters; the limit is {limit}"
        raise ServiceError(message, param="input", code="string_above_max_length")


def _invalid(error: ValidationError) -> ServiceError:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return ServiceError("the body is not valid JSON", code="invalid_json")
    # For a union, `loc` also names the member; its first item is the field of the request.
    field = str(first["loc"][0]) if first["loc"] else None
    if field is None:
        return ServiceError("the body is not a JSON object", code="invalid_json")
    if first["type"] == "missing":
        return ServiceError(f"{field} is missing", param=field, code="missing_required_parameter")
    return ServiceError(f"{field}: {first['msg']}", param=field, code="invalid_value")
