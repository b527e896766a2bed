"""The common part of the servers' commands: the log, the key, the state folder."""

import contextlib
import ipaddress
import logging
import os
import sys
import tempfile
from pathlib import Path

from hearth_serving.errors import ServiceError


def configure_logging() -> None:
    """Log for people, on standard error."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # uvicorn's own lines are about malformed requests and lost connections.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)


def read_key(file: Path | None, variable: str) -> str | None:
    """Return the key in `file`, or in an environment variable, or None; raises ServiceError."""
    if file is None:
        return os.environ.get(variable) or None
    try:
        key = file.read_text().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise ServiceError(f"--key-file {file}: {reason}") from None
    if not key or "\n" in key:
        raise ServiceError(f"--key-file {file}: write one key in it, in one line")
    return key


def warn_if_open(host: str, key: str | None, variable: str) -> None:
    """Warn when other machines can reach a server without a key."""
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if key is None and not inside:
        message = "no key: everyone who can reach %s may use this server (%s)"
        logging.warning(message, host, variable)


def state_folder(program: str) -> Path:
    """Return a program's state folder: its unit's, or one in the user's cache."""
    if folder := os.environ.get("STATE_DIRECTORY"):
        return Path(folder)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with contextlib.suppress(RuntimeError):  # a user without a home
        caches = caches.expanduser()
    return caches / program


def writable_folder(folder: Path) -> Path | None:
    """Return the folder, created if missing; None with a warning if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        reason = error.strerror or str(error)
        logging.warning("%s: %s; so it is measured at every start (--state)", folder, reason)
        return None
