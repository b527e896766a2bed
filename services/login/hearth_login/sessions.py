"""Sessions: signed cookies for one host and one password, and a small file of ended ones.

The file contains an epoch, a random string in the signing key of every cookie, and the ids of
sessions that were signed out. "Everywhere" replaces the epoch. The file does not list active
sessions: a sign-in writes nothing, so it cannot be filled. If it is lost or damaged, a new epoch
signs everyone out instead of reviving ended sessions.
"""

import hashlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from itsdangerous import BadData, TimestampSigner

from .credentials import Credentials, digest

log = logging.getLogger("hearth_login")

COOKIE: Final = "__Host-hearth"
LIFE_S: Final = 30 * 24 * 3600
# A page left open over night shows the form again instead of "wrong".
FORM_LIFE_S: Final = 3600
MAX_ENDED: Final = 1000


class EndedSessions:
    """Remembers ended sessions until their cookies have expired; without a path, in memory only."""

    def __init__(self, path: Path | None, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self.epoch, self._ended = _read(path) or (secrets.token_urlsafe(16), {})
        # If the folder is not writable, log that at the start, not at the first sign-out.
        self._write()

    def __contains__(self, session: str) -> bool:
        """Return whether this session was signed out."""
        return session in self._ended

    def end(self, session: str, keep_s: float) -> None:
        """End one session and remember it for `keep_s` seconds."""
        now = self._now()
        self._ended = {known: until for known, until in self._ended.items() if until > now}
        self._ended[session] = now + keep_s
        if len(self._ended) > MAX_ENDED:
            # Only a signed-in client gets here, so it is a loop. Forgetting an id would revive a
            # session; signing everyone out is the safe limit.
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
        new = self._path.with_name(self._path.name + ".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            with os.fdopen(os.open(new, flags, 0o600), "w") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(self._path)
        except OSError as error:
            # The state in memory applies; a full disk must not keep anyone signed in or out.
            log.error(
                "%s: cannot be written (%s); logouts last until the next start of the login",
                self._path,
                error.strerror,
            )


class Sessions:
    """Issues and checks cookies; a cookie proves the house's password on its host."""

    def __init__(self, credentials: Credentials, ended: EndedSessions) -> None:
        self._secret = credentials.cookie_secret
        self._password = digest(credentials.house_password).hex()
        self._ended = ended

    def start(self, host: str) -> str:
        """Return a new cookie for this host."""
        return self._signer("session", host).sign(secrets.token_urlsafe(16)).decode()

    def holder(self, host: str, cookie: str) -> str | None:
        """Return the session's id, or None if the cookie is not valid here and now."""
        session = _unsign(self._signer("session", host), cookie, LIFE_S)
        return None if session is None or session in self._ended else session

    def end(self, session: str) -> None:
        """Sign this session out, including copies of its cookie."""
        # Twice its life: a clock that was days off must not revive it.
        self._ended.end(session, 2 * LIFE_S)

    def end_all(self) -> None:
        """Sign out every browser on every name of the house."""
        self._ended.end_all()

    def form(self, host: str) -> str:
        """Return a token for one form of this host, which proves the form's origin."""
        return self._signer("form", host).sign(secrets.token_urlsafe(8)).decode()

    def form_good(self, host: str, token: str) -> bool:
        """Return whether this token was issued for this host within the last hour."""
        return _unsign(self._signer("form", host), token, FORM_LIFE_S) is not None

    def _signer(self, purpose: str, host: str) -> TimestampSigner:
        # Host, password and epoch are in the key, not in the cookie: changing one invalidates all
        # older cookies, and a cookie contains nothing for an offline attack.
        salt = "\n".join(("hearth-login", purpose, host, self._password, self._ended.epoch))
        return TimestampSigner(
            self._secret, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256
        )


def _unsign(signer: TimestampSigner, value: str, life_s: int) -> str | None:
    try:
        return signer.unsign(value.encode("utf-8", "surrogatepass"), max_age=life_s).decode()
    except (BadData, UnicodeDecodeError):
        return None


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
    log.warning("%s: is damaged; everyone must sign in again", path)
    return None
