"""What a client may set: the session, and one response; fields that mean nothing here are ignored.

The names are those of OpenAI's Realtime interface.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from hearth_serving.errors import ServiceError, quoted

SAMPLE_RATE = 24_000
"""Samples per second of all sound, in and out: 16 bit, little-endian, mono."""

_Text = Annotated[str, StringConstraints(max_length=100_000)]
_Name = Annotated[str, StringConstraints(max_length=200)]
Modalities = Annotated[tuple[Literal["text", "audio"], ...], Field(min_length=1, max_length=1)]
_Tokens = Annotated[int, Field(ge=1, le=4096)] | Literal["inf"]
_MERGED = {(), ("audio",), ("audio", "input"), ("audio", "output")}
_METADATA = Field(max_length=16)
_Model = TypeVar("_Model", bound=BaseModel)


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Format(_Lenient):
    """The one format of sound."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Literal[24_000] = 24_000


class Transcription(_Lenient):
    """Whether and how the talker's words are sent to the client."""

    model: _Name | None = None
    language: Annotated[str, StringConstraints(max_length=20)] | None = None
    prompt: Annotated[str, StringConstraints(max_length=4000)] | None = None


class ServerVad(_Lenient):
    """A turn ends after a fixed silence."""

    type: Literal["server_vad"] = "server_vad"
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Field(ge=0, le=5000)] = 300
    silence_duration_ms: Annotated[int, Field(ge=200, le=5000)] = 500
    create_response: bool = True
    interrupt_response: bool = True


class SemanticVad(_Lenient):
    """A turn ends where the talker sounds as if they were done, otherwise after a long silence."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True

    @property
    def longest_silence_ms(self) -> int:
        """The silence that ends a turn however it sounds."""
        return {"low": 4000, "high": 1200}.get(self.eagerness, 2000)

    @property
    def shortest_silence_ms(self) -> int:
        """The silence that ends a turn which sounds complete."""
        return {"low": 700, "high": 300}.get(self.eagerness, 450)


TurnDetection = Annotated[ServerVad | SemanticVad, Field(discriminator="type")] | None


class AudioInput(_Lenient):
    """The microphone."""

    format: Format = Format()
    transcription: Transcription | None = None
    turn_detection: TurnDetection = ServerVad()


class AudioOutput(_Lenient):
    """The voice."""

    format: Format = Format()
    voice: _Name = ""
    speed: Annotated[float, Field(ge=0.25, le=1.5)] = 1.0


class Audio(_Lenient):
    """Both directions of sound."""

    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


class Tool(_Lenient):
    """A function of the client that the model may call."""

    type: Literal["function"]
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    description: _Text = ""
    parameters: dict[str, Any] = {}


class ToolChoice(_Lenient):
    """One function that the model must call."""

    type: Literal["function"]
    name: _Name


class Settings(_Lenient):
    """A session."""

    type: Literal["realtime"] = "realtime"
    model: _Name = ""
    instructions: _Text = ""
    output_modalities: Modalities = ("audio",)
    audio: Audio = Audio()
    tools: Annotated[tuple[Tool, ...], Field(max_length=128)] = ()
    tool_choice: Literal["auto", "none", "required"] | ToolChoice = "auto"
    max_output_tokens: _Tokens = "inf"

    def updated(self, changes: object) -> "Settings":
        """Return the settings with these changes; raises ServiceError that names the field."""
        if not isinstance(changes, Mapping):
            message = "session must be an object"
            raise ServiceError(message, param="session", code="invalid_type")
        merged = _merged(self.model_dump(mode="json"), changes, ())
        return read(Settings, merged, "session")


class _ResponseOutput(_Lenient):
    voice: _Name | None = None


class _ResponseAudio(_Lenient):
    output: _ResponseOutput = _ResponseOutput()


class ResponseSettings(_Lenient):
    """What one response does differently from its session."""

    conversation: Literal["auto", "none"] = "auto"
    input: Annotated[list[Any], Field(max_length=200)] | None = None
    instructions: _Text | None = None
    metadata: Annotated[dict[str, str], _METADATA] | None = None
    output_modalities: Modalities | None = None
    audio: _ResponseAudio = _ResponseAudio()
    tools: Annotated[tuple[Tool, ...], Field(max_length=128)] | None = None
    tool_choice: Literal["auto", "none", "required"] | ToolChoice | None = None
    max_output_tokens: _Tokens | None = None


def read(kind: type[_Model], data: object, where: str) -> _Model:
    """Check data of a client; raises ServiceError that names the first invalid field."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # The name of a union's member is not a field.
        fields = [str(part) for part in first["loc"] if part not in ("server_vad", "semantic_vad")]
        param = ".".join([where, *fields])[:200]
        message = f"invalid value for {quoted(param)}: {first['msg']}"
        raise ServiceError(message, param=param, code="invalid_value") from None


def _merged(
    old: Mapping[str, Any], changes: Mapping[str, Any], path: tuple[str, ...]
) -> dict[str, Any]:
    result = dict(old)
    for name, value in changes.items():
        inner = (*path, str(name))
        if inner in _MERGED and isinstance(value, Mapping) and isinstance(old.get(name), Mapping):
            result[name] = _merged(old[name], value, inner)
        else:
            result[name] = value
    return result
