"""The form of a transcription request, and OpenAI's errors for invalid fields."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hearth_serving.errors import ServiceError, quoted
from hearth_whisper.languages import read_language
from hearth_whisper.recognition import Options

OPENAI_MODEL = "whisper-1"
"""The name in requests of OpenAI's clients; here it means the one model there is."""

# Whisper uses the last 224 tokens of a prompt, which are always fewer characters than this.
_MAX_PROMPT = 4_000
_LISTS = ("timestamp_granularities",)

ResponseFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]


class TranscriptionRequest(BaseModel):
    """The fields of a form; unknown and empty ones are ignored."""

    model_config = ConfigDict(frozen=True)

    model: str = OPENAI_MODEL
    language: str | None = None
    prompt: str = ""
    temperature: float = Field(0, ge=0, le=1, allow_inf_nan=False)
    response_format: ResponseFormat = "json"
    timestamp_granularities: tuple[Literal["word", "segment"], ...] = ()
    stream: bool = False

    @field_validator("language")
    @classmethod
    def _language_code(cls, language: str) -> str:
        return read_language(language)

    @field_validator("prompt")
    @classmethod
    def _end_of_prompt(cls, prompt: str) -> str:
        return prompt[-_MAX_PROMPT:]

    @model_validator(mode="after")
    def _streamable(self) -> "TranscriptionRequest":
        if self.stream and self.response_format in ("srt", "vtt"):
            raise ValueError("stream sends events; for timestamps use response_format=verbose_json")
        if self.streams_segments and "word" in self.timestamp_granularities:
            raise ValueError("stream sends timestamps of segments, not of words")
        return self

    @property
    def streams_segments(self) -> bool:
        """Whether the stream has events with the times of segments."""
        return self.stream and self.response_format == "verbose_json"

    def options(self, *, translate: bool) -> Options:
        """Return the options of the recogniser."""
        return Options(
            language=self.language,
            prompt=self.prompt,
            temperature=self.temperature or None,
            translate=translate,
            word_timestamps="word" in self.timestamp_granularities,
        )


def read_request(fields: Mapping[str, Sequence[str]]) -> TranscriptionRequest:
    """Parse a form's fields; raises ServiceError that names the first invalid one."""
    values: dict[str, Any] = {}
    for key, sent in fields.items():
        name = key.removesuffix("[]")
        nonempty = [value for value in sent if value.strip()]
        if nonempty and name in TranscriptionRequest.model_fields:
            is_list = name in _LISTS
            values[name] = [*values.get(name, ()), *nonempty] if is_list else nonempty[-1]
    try:
        return TranscriptionRequest.model_validate(values)
    except ValidationError as error:
        raise _invalid(error) from None


def check_model(requested: str, name: str, candidates: Collection[str] = ()) -> None:
    """Raise ServiceError for a name that is neither the model's here nor one of `candidates`."""
    if requested not in (name, OPENAI_MODEL, *candidates):
        message = f"there is no model {quoted(requested)}; use {name} or {OPENAI_MODEL}"
        raise ServiceError(message, status=404, param="model", code="model_not_found")


def _invalid(error: ValidationError) -> ServiceError:
    first = error.errors(include_url=False, include_input=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "stream"
    reason = first["msg"].removeprefix("Value error, ")
    return ServiceError(f"{field}: {reason}", param=field, code="invalid_value")
