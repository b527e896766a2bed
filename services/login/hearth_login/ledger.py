"""Which sessions were ended before their time, in one small file.

The file holds an epoch, a random word that every cookie is signed with, and the ids of sessions
that were signed out. "Everywhere" is a new epoch. An epoch rather than a list of the living ones:
nothing is written at a sign-in, so the file cannot be filled by signing in, and a lost or broken
file makes a new epoch, which signs everybody out instead of letting an ended session live again.
"""

import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("hearth_login")

REMEMBERED = 1000


class Ledger:
    """Remembers ended sessions until their cookies are too old anyway."""

    def __init__(self, path: Path | None, now: Callable[[], float] = time.time) -> None:
        """Read the file, or begin anew; without a path everything ends with the process."""
        self._path, self._now = path, now
        self.epoch, self._ended = _read(path) or (secrets.token_urlsafe(16), {})
        # Also says at the start, not at the first logout, when the folder cannot be written.
        self._write()

    def ended(self, session: str) -> bool:
        """Say whether this session was signed out."""
        return session in self._ended

    def end(self, session: str, keep_s: float) -> None:
        """End one session and remember it for `keep_s` seconds."""
        now = self._now()
        self._ended = {known: until for known, until in self._ended.items() if until > now}
        self._ended[session] = now + keep_s
        if len(self._ended) > REMEMBERED:
            # Only who is signed in gets here, so this is somebody's loop. Forgetting one would
            # bring a session back to life; signing everybody out is the safe bound.
            self.end_all()
        else:
            self._write()

    def end_all(self) -> None:
        """End every session on every name of the house."""
        self.epoch, self._ended = secrets.token_urlsafe(16), {}
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        text = json.dumps({"epoch": self.epoch, "ended": self._ended})
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
                f.write(text)
                f.flush()
                os.fsync(f.fileno())
            fresh.replace(self._path)
        except OSError as error:
            # It holds in memory; a full disk must not keep anybody signed in, nor out.
            log.error(
                "%s: cannot be written (%s); logouts last until the next start of the login",
                self._path,
                error.strerror,
            )


def _read(path: Path | None) -> tuple[str, dict[str, float]] | None:
    if path is None or not path.exists():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        epoch, ended = raw["epoch"], raw["ended"]
        if isinstance(epoch, str) and len(epoch) >= 16:
            return epoch, {str(session): float(until) for session, until in ended.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    log.warning("%s: is broken; everybody must sign in again", path)
    return None
