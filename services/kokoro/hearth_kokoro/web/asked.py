"""What a request for speech asks for, and OpenAI's words for what is wrong with it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from hearth_kokoro.web.settings import Limits
from hearth_serving.errors import ServiceError, quoted

MODELS = ("kokoro", "tts-1", "tts-1-hd")
"""Names of the one model: its own, and the two that OpenAI's clients ask for."""

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
"""OpenAI's voices: Kokoro's of the same name where there is one, else the nearest in kind."""

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
_Name = Annotated[str, StringConstraints(max_length=500)]


class VoiceId(BaseModel):
    """OpenAI's other way to name a voice."""

    id: _Name


class Asked(BaseModel):
    """The body of `POST /v1/audio/speech`; fields of other servers are ignored."""

    model_config = ConfigDict(frozen=True)

    input: str
    model: _Name = "kokoro"
    voice: _Name | VoiceId = "af_heart"
    response_format: Format = "mp3"
    speed: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False)
    stream: bool = True
    stream_format: Literal["audio", "sse"] = "audio"
    # Kokoro takes no directions; OpenAI's tts-1 ignores them too.
    instructions: str | None = None

    @property
    def voice_name(self) -> str:
        """The voice by Kokoro's name, or a blend, or whatever was asked for."""
        return voice_name(self.voice.id if isinstance(self.voice, VoiceId) else self.voice)


class AskedLive(BaseModel):
    """The query of `WS /v1/audio/stream`."""

    model_config = ConfigDict(frozen=True)

    model: _Name = "kokoro"
    voice: _Name = "af_heart"
    response_format: Format = "pcm"
    speed: float = Field(1.0, ge=0.25, le=4.0, allow_inf_nan=False)

    @property
    def voice_name(self) -> str:
        """The voice by Kokoro's name, or a blend, or whatever was asked for."""
        return voice_name(self.voice)


def read_asked(body: bytes, limits: Limits) -> Asked:
    """Read the body of a request; raises ServiceError naming the first field that is wrong."""
    try:
        asked = Asked.model_validate_json(body)
    except ValidationError as error:
        raise _refusal(error) from None
    check_model(asked.model)
    check_text(asked.input, limits.text_characters)
    if asked.stream_format == "sse" and not asked.stream:
        raise ServiceError(
            "stream_format sse needs stream: true, which is the default", param="stream"
        )
    return asked


def read_live(query: dict[str, str]) -> AskedLive:
    """Read the query of a WebSocket; raises ServiceError naming the first field that is wrong."""
    try:
        asked = AskedLive.model_validate(query)
    except ValidationError as error:
        raise _refusal(error) from None
    check_model(asked.model)
    return asked


def voice_name(asked: str) -> str:
    """Return Kokoro's voice for one of OpenAI's names; every other name as it is."""
    return OPENAI_VOICES.get(asked.strip().lower(), asked)


def check_model(name: str) -> None:
    """Refuse the name of a model that is not here."""
    if name not in MODELS:
        message = f"there is no model {quoted(name)}; use {', '.join(MODELS)}"
        raise ServiceError(message, status=404, param="model", code="model_not_found")


def check_text(text: str, most: int) -> None:
    """Refuse a text that is empty or too long."""
    if not text.strip():
        raise nothing_to_say()
    if len(text) > most:
        message = f"input has {len(text)} characters; the limit is {most}"
        raise ServiceError(message, param="input", code="string_above_max_length")


def nothing_to_say() -> ServiceError:
    """Return the refusal of a text without a word."""
    return ServiceError("input has no words to speak", param="input", code="empty_input")


def _refusal(error: ValidationError) -> ServiceError:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return ServiceError("the body is not valid JSON", code="invalid_json")
    # A union's errors carry the member's name behind the field's; the field is what people wrote.
    field = str(first["loc"][0]) if first["loc"] else None
    if field is None:
        return ServiceError("the body is not a JSON object", code="invalid_json")
    if first["type"] == "missing":
        return ServiceError(f"{field} is missing", param=field, code="missing_required_parameter")
    return ServiceError(f"{field}: {first['msg']}", param=field, code="invalid_value")
