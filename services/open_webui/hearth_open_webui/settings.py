"""Read what the house has decided for Open WebUI: a file of settings, and credentials beside it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Where one variable takes several values, this stands between them.
SEPARATOR = ";"


class SettingsError(Exception):
    """One line for a person: what of the settings cannot be used, and what to do."""


def read(path: Path, credentials: Path | None) -> dict[str, str]:
    """Return every variable that Open WebUI shall see.

    The file has `environment`, name to text, and `secrets`, name to the credentials whose values
    stand in it, in order.

    Raises:
        SettingsError: The file or a credential is missing or is no such thing.
    """
    environment, secrets = _parts(path)
    if secrets and credentials is None:
        raise SettingsError(
            "CREDENTIALS_DIRECTORY is not set: systemd sets it for a unit with LoadCredential"
        )
    return environment | {
        name: SEPARATOR.join(_credential(credentials or Path(), wanted) for wanted in names)
        for name, names in secrets.items()
    }


def _parts(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}: converge the house again") from None
    except ValueError as error:
        raise SettingsError(f"{path}: no JSON: {error}: converge the house again") from None
    environment, secrets = (_mapping(path, data, key) for key in ("environment", "secrets"))
    for name, value in environment.items():
        if not isinstance(value, str):
            raise SettingsError(f"{path}: {name} is no text: converge the house again")
    for name, value in secrets.items():
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{path}: {name} is no list of names: converge the house again")
    return environment, secrets


def _mapping(path: Path, data: Any, key: str) -> dict[str, Any]:
    part = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(part, dict):
        raise SettingsError(f"{path}: {key} is missing: converge the house again")
    return part


def _credential(folder: Path, name: str) -> str:
    try:
        value = (folder / name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(
            f"{folder / name}: {error.strerror}: converge the house again"
        ) from None
    if not value:
        raise SettingsError(f"{folder / name}: is empty: hearth secret set {name}")
    return value
