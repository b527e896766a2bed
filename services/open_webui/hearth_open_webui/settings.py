"""Read Open WebUI's settings from a file, and its secrets from systemd credentials."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Separates the values of a variable that takes several.
SEPARATOR = ";"
_PLACE = re.compile(r"\{secret:(\w+)\}")


class SettingsError(Exception):
    """One line for a person: which setting is not valid, and what to do."""


def read_settings(path: Path, credentials: Path | None) -> dict[str, str]:
    """Return the environment variables for Open WebUI.

    In the file, `environment` maps a name to its value, and `secrets` maps a name to the list of
    credentials whose values are joined. `documents` maps a name to a JSON text, in whose strings
    `{secret:NAME}` is a credential's value.

    Raises:
        SettingsError: the file or a credential is missing or not valid.
    """
    environment, secrets, documents = _sections(path)
    if (secrets or documents) and credentials is None:
        raise SettingsError(
            "CREDENTIALS_DIRECTORY is not set: systemd sets it for a unit with LoadCredential"
        )
    folder = credentials or Path()

    def filled(found: re.Match[str]) -> str:
        # As it is written inside a string of JSON.
        return json.dumps(_credential(folder, found[1]))[1:-1]

    return (
        environment
        | {
            name: SEPARATOR.join(_credential(folder, item) for item in names)
            for name, names in secrets.items()
        }
        | {name: _PLACE.sub(filled, text) for name, text in documents.items()}
    )


def _sections(path: Path) -> tuple[dict[str, str], dict[str, list[str]], dict[str, str]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}: run `hearth up`") from None
    except ValueError as error:
        raise SettingsError(f"{path}: is not JSON: {error}: run `hearth up`") from None
    environment, secrets = (_mapping(path, data, key) for key in ("environment", "secrets"))
    documents = _mapping(path, {"documents": {}} | data, "documents")
    for name, value in {**environment, **documents}.items():
        if not isinstance(value, str):
            raise SettingsError(f"{path}: {name} is not a string: run `hearth up`")
    for name, value in secrets.items():
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{path}: {name} is not a list of names: run `hearth up`")
    return environment, secrets, documents


def _mapping(path: Path, data: Any, key: str) -> dict[str, Any]:
    section = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(section, dict):
        raise SettingsError(f"{path}: {key} is missing: run `hearth up`")
    return section


def _credential(folder: Path, name: str) -> str:
    try:
        value = (folder / name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{folder / name}: {error.strerror}: run `hearth up`") from None
    if not value:
        raise SettingsError(f"{folder / name}: is empty: run `hearth secret set {name}`")
    return value
