"""The keys: read from the unit's credentials, set in this process's environment and no other."""

import os
from pathlib import Path

from hearth_pipelines.errors import PipelinesError

# What opens this server, and what opens the house's models.
OWN, MODELS = "pipelines_key", "models_key"
# Upstream's key where none is given: everybody knows it.
PUBLIC = "0p3n-w3bu!"
SHORTEST = 20
# What is set for upstream's server, beside all that its unit has set.
SERVER = {"PIPELINES_DIR", "PIPELINES_API_KEY", "GLOBAL_LOG_LEVEL"}


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

    Raises:
        PipelinesError: a secret of theirs has the name of a variable that is taken.
    """
    os.environ["OPENAI_BASE_URL"] = models_url
    os.environ["OPENAI_API_KEY"] = _read(credentials / MODELS)
    taken = SERVER | os.environ.keys()
    for path in sorted(credentials.iterdir()):
        name = path.name.upper()
        if path.name in (OWN, MODELS):
            continue
        if name in taken:
            text = f"the secret {path.name} would stand in {name}, which has a meaning already: "
            raise PipelinesError(f"{text}give it another name in inventory/local/services.yml")
        os.environ[name] = _read(path)


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
