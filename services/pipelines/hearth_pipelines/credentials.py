"""The keys: read from the unit's credentials, and set in this process's environment only."""

import os
from collections.abc import Mapping
from pathlib import Path

from hearth_pipelines.errors import SetupError

# The key for this server, and the key for the house's models.
SERVER_KEY, MODELS_KEY = "pipelines_key", "models_key"
# Upstream's default key, which is public.
PUBLIC_KEY = "0p3n-w3bu!"
MIN_LENGTH = 20
# The variables that this program sets for upstream's server.
SERVER_VARIABLES = {"PIPELINES_DIR", "PIPELINES_API_KEY", "GLOBAL_LOG_LEVEL"}


def server_key(credentials: Path) -> str:
    """Return the key for this server.

    Raises:
        SetupError: there is none, it is public, or it is short enough to be guessed.
    """
    key = _read(credentials / SERVER_KEY)
    fix = f"run `hearth secret set {SERVER_KEY}`, or remove it from the vault for a random one"
    if key == PUBLIC_KEY:
        raise SetupError(f"{SERVER_KEY} is upstream's public default, which everyone knows: {fix}")
    if len(key) < MIN_LENGTH:
        raise SetupError(f"{SERVER_KEY} has {len(key)} characters, which can be guessed: {fix}")
    return key


def export(credentials: Path, urls: Mapping[str, str]) -> None:
    """Set the variables by which pipelines find models, agents and their own secrets.

    They are set here, not by the unit, so that /proc/PID/environ does not contain them.

    Raises:
        SetupError: a secret has the name of a variable that is in use.
    """
    os.environ.update(urls)
    os.environ["OPENAI_API_KEY"] = _read(credentials / MODELS_KEY)
    reserved = SERVER_VARIABLES | os.environ.keys()
    for path in sorted(credentials.iterdir()):
        name = path.name.upper()
        if path.name in (SERVER_KEY, MODELS_KEY):
            continue
        if name in reserved:
            problem = f"the secret {path.name} would replace the variable {name}, which is in use"
            raise SetupError(f"{problem}: rename it in inventory/local/services.yml")
        os.environ[name] = _read(path)


def credentials_folder() -> Path:
    """Return the folder in which systemd provides the credentials."""
    name = os.environ.get("CREDENTIALS_DIRECTORY")
    if not name:
        raise SetupError(
            "CREDENTIALS_DIRECTORY is not set: start this program as a systemd service"
        )
    return Path(name)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not valid text"
        raise SetupError(f"credential {path.name}: {reason}") from None
