"""The configuration, made from the inventory, and the key for the models."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from hearth_serving.errors import ServiceError

LITELLM_KEY = "litellm_key"
"""The credential of the unit."""

INSTRUCTIONS = (
    "You talk with a person in their house, by voice. Answer at once, in one to three short "
    "spoken sentences, in the person's language: no lists, no headings, no Markdown, no emoji. "
    "If a word makes no sense, it was probably misheard: ask briefly. Use a tool only when the "
    "answer needs it, and say in a few words that you are looking before you do."
)
"""What the model is told where a client says nothing."""

_Url = Annotated[str, StringConstraints(pattern=r"^https?://[^/?#]+$")]


class Config(BaseModel):
    """Where the parts are, which model answers, and in which voices."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    litellm: _Url
    whisper: _Url
    kokoro: _Url
    model: str = "voice"
    """The alias that answers."""
    voices: dict[str, str] = {"en": "af_heart"}
    """The voice of each language, by its code; the first one is the default."""
    instructions: str = INSTRUCTIONS
    calls: Annotated[int, Field(ge=1, le=64)] = 4
    """Calls at once; one more is refused."""
    call_s: Annotated[float, Field(gt=0)] = 3600
    """The longest call."""
    idle_s: Annotated[float, Field(gt=0)] = 600
    """A call without any event from its client ends after this time."""

    @property
    def default_voice(self) -> str:
        """The voice of a session that names none."""
        return next(iter(self.voices.values()))


def load_config(path: Path) -> Config:
    """Read the configuration; raises ServiceError with one line that says what is wrong."""
    try:
        return Config.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}; is --config right?") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise ServiceError(f"{path}: {where}: {first['msg']}") from None


def read_secret(name: str) -> str:
    """Return a credential of the unit, empty where there is none; raises ServiceError."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return ""
    try:
        return (Path(folder) / name).read_text().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise ServiceError(f"the credential {name}: {reason}") from None
