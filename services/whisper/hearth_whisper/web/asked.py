"""What a request for a text asks for, and OpenAI's words for what is wrong with it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hearth_serving.errors import ServiceError, quoted
from hearth_whisper.languages import read_language
from hearth_whisper.recognising import Options

OPENAI_MODEL = "whisper-1"
"""The name that OpenAI's clients ask for; here it means the one model there is."""

# Whisper reads the last 224 tokens of a prompt; so much text is never fewer.
_MOST_PROMPT = 4_000
_LISTS = ("timestamp_granularities",)

Format = Literal["json", "text", "srt", "vtt", "verbose_json"]


class Asked(BaseModel):
    """The fields of a form; those of other servers are ignored, and so are empty ones."""

    model_config = ConfigDict(frozen=True)

    model: str = OPENAI_MODEL
    language: str | None = None
    prompt: str = ""
    temperature: float = Field(0, ge=0, le=1, allow_inf_nan=False)
    response_format: Format = "json"
    timestamp_granularities: tuple[Literal["word", "segment"], ...] = ()
    stream: bool = False

    @field_validator("language")
    @classmethod
    def _known(cls, language: str) -> str:
        return read_language(language)

    @field_validator("prompt")
    @classmethod
    def _end_of(cls, prompt: str) -> str:
        return prompt[-_MOST_PROMPT:]

    @model_validator(mode="after")
    def _streamable(self) -> "Asked":
        if self.stream and self.response_format in ("srt", "vtt"):
            raise ValueError("stream sends events; for timestamps use response_format=verbose_json")
        if self.timed and "word" in self.timestamp_granularities:
            raise ValueError("stream sends timestamps of segments, not of words")
        return self

    @property
    def timed(self) -> bool:
        """Whether a stream tells when each segment was said."""
        return self.stream and self.response_format == "verbose_json"

    def options(self, *, translate: bool) -> Options:
        """Return what the model is told."""
        return Options(
            language=self.language,
            prompt=self.prompt,
            temperature=self.temperature or None,
            translate=translate,
            words="word" in self.timestamp_granularities,
        )


def read_asked(fields: Mapping[str, Sequence[str]]) -> Asked:
    """Read a form's fields; raises ServiceError naming the first that is wrong."""
    found: dict[str, Any] = {}
    for key, values in fields.items():
        name = key.removesuffix("[]")
        given = [value for value in values if value.strip()]
        if given and name in Asked.model_fields:
            found[name] = [*found.get(name, ()), *given] if name in _LISTS else given[-1]
    try:
        return Asked.model_validate(found)
    except ValidationError as error:
        raise _refusal(error) from None


def check_model(asked: str, name: str) -> None:
    """Refuse the name of a model that is not the one here."""
    if asked not in (name, OPENAI_MODEL):
        message = f"there is no model {quoted(asked)}; use {name} or {OPENAI_MODEL}"
        raise ServiceError(message, status=404, param="model", code="model_not_found")


def _refusal(error: ValidationError) -> ServiceError:
    first = error.errors(include_url=False, include_input=False)[0]
    field = str(first["loc"][0]) if first["loc"] else "stream"
    said = first["msg"].removeprefix("Value error, ")
    return ServiceError(f"{field}: {said}", param=field, code="invalid_value")
