"""What a client may say on `WS /v1/audio/stream`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from hearth_serving.errors import ServiceError


class Text(BaseModel):
    """More text to speak."""

    type: Literal["text"]
    text: str


class Order(BaseModel):
    """Speak all you have; drop all you have; or speak all and end."""

    type: Literal["flush", "cancel", "end"]


_MESSAGE: TypeAdapter[Text | Order] = TypeAdapter(
    Annotated[Text | Order, Field(discriminator="type")]
)


def read_order(message: str | None) -> Text | Order:
    """Read one message, None for a binary one; raises ServiceError for anything else."""
    if message is None:
        raise ServiceError("send JSON as text, not binary", code="invalid_json")
    try:
        return _MESSAGE.validate_json(message)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            raise ServiceError("the message is not valid JSON", code="invalid_json") from None
        said = 'send {"type": "text", "text": "..."} or a type of flush, cancel or end'
        raise ServiceError(said, code="invalid_message") from None
