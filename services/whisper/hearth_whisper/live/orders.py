"""What a talker's program may say on the WebSocket beside sound."""

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from hearth_serving.errors import ServiceError, quoted
from hearth_whisper.languages import read_language
from hearth_whisper.live.rate import HIGHEST_RATE, LOWEST_RATE
from hearth_whisper.recognising import SAMPLE_RATE, Options

SHAPES = 'send audio as binary messages, or {"type": "start"}, {"type": "flush"}, {"type": "end"}'


class Start(BaseModel):
    """How to listen; may be said once, before any sound."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["start"] = "start"
    sample_rate: Annotated[int, Field(ge=LOWEST_RATE, le=HIGHEST_RATE)] = SAMPLE_RATE
    language: str | None = None
    prompt: Annotated[str, Field(max_length=4000)] = ""
    end_of_speech_ms: Annotated[int, Field(ge=100, le=5000)] = 500
    """So much silence ends an utterance."""
    partials: bool = True
    words: bool = False
    """Tell each word's times in the final, which makes it a little later."""

    @field_validator("language")
    @classmethod
    def _known(cls, language: str | None) -> str | None:
        return read_language(language) if language else None

    def options(self, *, quick: bool = False) -> Options:
        """Return what the recogniser is asked for."""
        return Options(
            language=self.language,
            prompt=self.prompt,
            words=self.words and not quick,
            vad=False,
            quick=quick,
        )


class Order(BaseModel):
    """Make the text of what was said until now; or do so and end."""

    type: Literal["flush", "end"]


_MESSAGE: TypeAdapter[Start | Order] = TypeAdapter(
    Annotated[Start | Order, Field(discriminator="type")]
)


def read_order(message: str) -> Start | Order:
    """Read one text message; raises ServiceError for anything else."""
    try:
        return _MESSAGE.validate_json(message)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise ServiceError("the message is not valid JSON", code="invalid_json") from None
        if len(first["loc"]) < 2:
            raise ServiceError(SHAPES, code="invalid_message") from None
        name = str(first["loc"][1])
        said = first["msg"].removeprefix("Value error, ")
        message = f"start: {quoted(name)}: {said}"
        raise ServiceError(message, param=name[:40], code="invalid_message") from None
