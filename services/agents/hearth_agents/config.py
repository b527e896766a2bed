"""The configuration: who is on the team, its limits, servers and consumers; and the two keys."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from hearth_serving.errors import ServiceError

PREFIX = "agent-"
"""Before the name of an agent where it is offered as a model: an alias may have the same name."""
LEADER = "team"
"""The record of the agent that leads the team."""
MAX_TOOLS = 8
"""A longer list costs a small model seconds to the first token, and it chooses worse."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Text = Annotated[str, StringConstraints(max_length=8000)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentRecord(_Strict):
    """One agent: its model's alias, what it is told, and what it may use."""

    title: Annotated[str, StringConstraints(max_length=60)] = ""
    summary: Annotated[str, StringConstraints(max_length=300)] = ""
    """What it is good at: the leader of the team reads this."""
    alias: Annotated[str, StringConstraints(max_length=100)]
    instructions: Text = ""
    tools: Annotated[tuple[Name, ...], Field(max_length=MAX_TOOLS)] = ()
    specialists: Annotated[tuple[Name, ...], Field(max_length=MAX_TOOLS)] = ()
    words: tuple[str, ...] = ()
    """Words of a task that is meant for it; only used without a model that can lead the team."""


class Limits(_Strict):
    """What one run may cost; its time does not count while a person decides."""

    turns: Annotated[int, Field(ge=1, le=1000)] = 40
    seconds: Annotated[float, Field(gt=0, le=86_400)] = 900
    tool_calls: Annotated[int, Field(ge=1, le=10_000)] = 60
    tokens: Annotated[int, Field(ge=1)] = 200_000
    cloud_eur: Annotated[float, Field(ge=0)] = 0.5


class Price(_Strict):
    """What a model of the cloud costs per million tokens, in euros."""

    input_eur: Annotated[float, Field(ge=0)]
    output_eur: Annotated[float, Field(ge=0)]


class Config(_Strict):
    """The whole configuration; the file is made from the inventory."""

    litellm: str
    """The base address of the models' server, with /v1."""
    broker: str
    """The base address of the broker."""
    consumers: dict[str, Sha256]
    """The SHA-256 of each consumer's key."""
    agents: dict[Name, AgentRecord]
    limits: Limits = Limits()
    prices: dict[str, Price] = {}
    """Prices by the name of the model that answered; a model without one costs nothing here."""
    untrusted: dict[str, str] = {}
    """Aliases whose model was measured and cannot be trusted with tools, each with the reason."""
    chats: tuple[str, ...] = ()
    """The consumers that say which person asks, because people sign in there."""


def load_config(path: Path) -> Config:
    """Read the configuration; raises ServiceError with one line that says what is wrong."""
    try:
        config = Config.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ServiceError(f"{path}: {error.strerror}: run `hearth up`, which writes it") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ServiceError(f"{path}: {place}: {first['msg']}: edit inventory/agents.yml") from None
    _check_team(path, config)
    return config


def _check_team(path: Path, config: Config) -> None:
    """Reject a team without a leader, and specialists that do not exist or lead others."""
    if LEADER not in config.agents:
        raise ServiceError(f"{path}: agents: there is no {LEADER!r}: edit inventory/agents.yml")
    for name, record in config.agents.items():
        for other in record.specialists:
            if other not in config.agents:
                problem = f"there is no agent {other!r}"
            elif config.agents[other].specialists:
                problem = f"{other!r} has specialists itself"
            else:
                continue
            raise ServiceError(
                f"{path}: agents.{name}.specialists: {problem}: edit inventory/agents.yml"
            )


def read_secret(name: str) -> str:
    """Return a key from the unit's credentials; raises ServiceError if there is none."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise ServiceError("CREDENTIALS_DIRECTORY is not set: start this as a systemd service")
    try:
        return (Path(folder) / name).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise ServiceError(f"the credential {name}: {reason}: run `hearth up`") from None
