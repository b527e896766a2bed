"""What a verb is, who calls it, and what it answers; modules of verbs import only this."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pydantic

HOUSE = "house"
"""The origin of what the house itself says."""
OUTSIDE = "outside: "
"""The start of an origin of text that others than the house may have written."""
TEXT_BYTES = 64 * 1024
"""The longest text of a reply."""
EXCERPT = 200

Kind = Literal["free", "sandbox", "change"]


class RefusedError(Exception):
    """One line for a person: why nothing was done, and what to do instead.

    `origin` says who wrote it: without one, somebody outside may have.
    """

    def __init__(self, text: str, origin: str = "") -> None:
        super().__init__(text)
        self.origin = origin


class Arguments(pydantic.BaseModel):
    """The base of all arguments: no unknown field, no conversion, no change after reading."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True)
class Read:
    """A text from outside that a run read; `at` is a Unix time.

    Of one that is not `whole`, only the start is kept: anything else may have been in it.
    """

    origin: str
    at: float
    text: str
    whole: bool = True

    @property
    def excerpt(self) -> str:
        """Return the start of the text, in one line."""
        return " ".join(self.text[: 4 * EXCERPT].split())[:EXCERPT]


@dataclass(slots=True)
class Call:
    """Who calls, for which agent, run and chat; `reads` is what this run read from outside.

    Only the consumer is proved, by its key; the others are what it says. `client` and `person` are
    who gave it the task, which only a program of the house says.
    """

    consumer: str
    agent: str = ""
    run: str = ""
    chat: str = ""
    reads: Sequence[Read] = ()
    client: str = ""
    person: str = ""


@dataclass(slots=True)
class Reply:
    """The answer: a text for a model, data for a program, and who wrote them.

    `origin` is `house`, or `outside: ` and where the text comes from.
    """

    text: str
    data: Mapping[str, Any] | Sequence[Any] | None = None
    origin: str = HOUSE


Run = Callable[[Call, Any], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that the broker does; `run` gets the call and the checked arguments.

    A `change` only makes a proposal, which waits for a person.
    """

    name: str
    summary: str
    arguments: type[pydantic.BaseModel]
    kind: Kind
    run: Run
    within_s: float = 30
    """How long one call may take."""
    text_bytes: int = TEXT_BYTES
    """The longest text of its reply."""
