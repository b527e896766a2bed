"""The broker's configuration: digests of keys with their verbs, and places on the machine."""

import json
from collections.abc import Mapping
from pathlib import Path

import pydantic

from hearth.catalogue.house import House, from_vars
from hearth.paths import HOUSE_FILE, WATCH_FOLDER


class BrokerError(Exception):
    """One line for a person: why the broker cannot serve."""


class Consumer(pydantic.BaseModel):
    """Who may call: the SHA-256 of its key, and the names of its verbs.

    Only a program of the house (`inside`) is believed which run it calls for.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    sha256: str = pydantic.Field(pattern="^[0-9a-f]{64}$")
    verbs: tuple[str, ...]
    inside: bool = False


class Config(pydantic.BaseModel):
    """Everything that the house's description does not say."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    consumers: Mapping[str, Consumer]
    project: Path
    """The checkout with `scripts/hearth`, which carries out what was approved."""
    home: str = "home.lan"
    """The site of the approvals' pages; also the relying party of passkeys."""
    chats: Mapping[str, str] = {}
    """The site of each chat UI, by its consumer."""
    house: Path = HOUSE_FILE
    snapshot: Path = WATCH_FOLDER / "snapshot.json"
    state: Path = Path("/var/lib/hearth/broker")
    """The folder of the audit log."""
    approvals: Path = Path("/var/lib/hearth/approvals")
    search_key: Path | None = None
    """The file with the key of the search server, if it needs one."""


def load_config(path: Path) -> Config:
    """Read `path`.

    Raises:
        BrokerError: the file is missing or not valid.
    """
    try:
        return Config.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BrokerError(f"{path}: {error.strerror}: run `hearth up`") from None
    except pydantic.ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BrokerError(f"{path}: {where}: {first['msg']}: run `hearth up`") from None
    except ValueError as error:
        raise BrokerError(f"{path}: {error}: run `hearth up`, which writes it") from None


def read_house(path: Path) -> House:
    """Return the house as it was last converged.

    Raises:
        BrokerError: the file is missing or not valid.
    """
    try:
        return from_vars(House, json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BrokerError(f"{path}: {error.strerror}: run `hearth up`") from None
    except ValueError:
        raise BrokerError(f"{path}: it is not a house: run `hearth up`, which writes it") from None
