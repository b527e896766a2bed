"""The keys: read from the unit's credentials, set in this process's environment and no other."""

import os
from pathlib import Path

from hearth_pipelines.errors import PipelinesError

# What opens this server, and what opens the house's models.
OWN, MODELS = "pipelines_key", "models_key"
# Upstream's key where none is given: everybody knows it.
PUBLIC = "0p3n-w3bu!"
SHORTEST = 20


def own_key(credentials: Path) -> str:
    """Return the key that opens this server.

    Raises:
        PipelinesError: there is none, everybody knows it, or it can be guessed.
    """
    key = _read(credentials / OWN)
    again = f"`hearth secret set {OWN}`, or take it out of the vault and a random one is made"
    if key == PUBLIC:
        raise PipelinesError(f"{OWN} is upstream's public default, which everybody knows: {again}")
    if len(key) < SHORTEST:
        raise PipelinesError(f"{OWN} has {len(key)} characters, which can be guessed: {again}")
    return key


def export(credentials: Path, models_url: str) -> None:
    """Let pipelines find the house's models and their own secrets, as programs usually do.

    Set here and not by the unit: what a process sets later stands in no /proc/PID/environ.
    """
    os.environ["OPENAI_BASE_URL"] = models_url
    os.environ["OPENAI_API_KEY"] = _read(credentials / MODELS)
    for path in credentials.iterdir():
        if path.name not in (OWN, MODELS):
            os.environ[path.name.upper()] = _read(path)


def folder() -> Path:
    """Return where systemd laid the credentials."""
    name = os.environ.get("CREDENTIALS_DIRECTORY")
    if not name:
        raise PipelinesError("CREDENTIALS_DIRECTORY is not set: start me as a systemd service")
    return Path(name)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise PipelinesError(f"credential {path.name}: {reason}") from None
