"""The arguments of the verbs that change the house, as programs send them."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from hearth.approvals import ApprovalError

FILE_BYTES = 64 * 1024
# Only records of services, models and aliases; docs/decisions/051 says why no other file.
FILES = ("services.yml", "models.yml", "aliases.yml")
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]


def _word(text: str) -> str:
    if text in ("and", "or", "not"):
        raise ValueError("this is no name of a test, but a word between names")
    return text


_Check = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{2,60}$"), AfterValidator(_word)]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class OneService(_Arguments):
    """A service or part."""

    service: _Name = Field(description="Name of the service, such as `kokoro`.")


class OneModel(_Arguments):
    """A model in memory."""

    model: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$",
        description="Name of the model, such as `qwen3.5:4b`.",
    )


class NewFiles(_Arguments):
    """Files of inventory/local with their whole new text."""

    files: dict[
        Literal["services.yml", "models.yml", "aliases.yml"],
        Annotated[str, StringConstraints(max_length=FILE_BYTES)],
    ] = Field(
        min_length=1,
        description="Whole new text of each file below inventory/local that changes.",
    )
    why: str = Field(min_length=1, max_length=2000, description="Reason, for the person.")
    checks: list[_Check] = Field(
        default_factory=list,
        max_length=8,
        description="Words in the names of the smoke tests that decide; without any, all tests.",
    )

    @property
    def texts(self) -> dict[str, str]:
        """The text of each file, as it is written."""
        return {
            name: text if not text or text.endswith("\n") else f"{text}\n"
            for name, text in self.files.items()
        }


Verb = Literal["restart", "start", "stop", "unload_model", "propose"]
ARGUMENTS: dict[Verb, type[OneService] | type[OneModel] | type[NewFiles]] = {
    "restart": OneService,
    "start": OneService,
    "stop": OneService,
    "unload_model": OneModel,
    "propose": NewFiles,
}
_VERB: TypeAdapter[Verb] = TypeAdapter(Verb)


def checked(verb: str, arguments: Any) -> tuple[Verb, OneService | OneModel | NewFiles]:
    """Return the verb and its arguments, or raise ApprovalError with the first problem."""
    try:
        known = _VERB.validate_python(verb)
        return known, ARGUMENTS[known].model_validate(arguments)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise ApprovalError(f"{verb[:40]}: {where or 'verb'}: {first['msg']}") from None
