"""Signed cookies: issued for one host and one password, valid for thirty days."""

import hashlib
import secrets
from typing import Final

from itsdangerous import BadData, TimestampSigner

from .credentials import Credentials, digest
from .ledger import Ledger

COOKIE: Final = "__Host-hearth"
LIFE_S: Final = 30 * 24 * 3600
# A page left open over night shows the form again instead of "wrong".
FORM_LIFE_S: Final = 3600


class Sessions:
    """Issues and checks cookies; a cookie proves the house's password on its host."""

    def __init__(self, credentials: Credentials, ledger: Ledger) -> None:
        self._secret = credentials.cookie_secret
        self._password = digest(credentials.house_password).hex()
        self._ledger = ledger

    def start(self, host: str) -> str:
        """Return a new cookie for this host."""
        return self._signer("session", host).sign(secrets.token_urlsafe(16)).decode()

    def holder(self, host: str, cookie: str) -> str | None:
        """Return the session's id, or None if the cookie is not valid here and now."""
        session = _unsign(self._signer("session", host), cookie, LIFE_S)
        return None if session is None or self._ledger.ended(session) else session

    def end(self, session: str) -> None:
        """Sign this session out, including copies of its cookie."""
        # Twice its life: a clock that was days off must not revive it.
        self._ledger.end(session, 2 * LIFE_S)

    def end_all(self) -> None:
        """Sign out every browser on every name of the house."""
        self._ledger.end_all()

    def form(self, host: str) -> str:
        """Return a token for one form of this host, which proves the form's origin."""
        return self._signer("form", host).sign(secrets.token_urlsafe(8)).decode()

    def form_good(self, host: str, token: str) -> bool:
        """Return whether this token was issued for this host within the last hour."""
        return _unsign(self._signer("form", host), token, FORM_LIFE_S) is not None

    def _signer(self, purpose: str, host: str) -> TimestampSigner:
        # Host, password and epoch are in the key, not in the cookie: changing one invalidates all
        # older cookies, and a cookie contains nothing for an offline attack.
        salt = "\n".join(("hearth-login", purpose, host, self._password, self._ledger.epoch))
        return TimestampSigner(
            self._secret, salt=salt, key_derivation="hmac", digest_method=hashlib.sha256
        )


def _unsign(signer: TimestampSigner, value: str, life_s: int) -> str | None:
    try:
        return signer.unsign(value.encode("utf-8", "surrogatepass"), max_age=life_s).decode()
    except (BadData, UnicodeDecodeError):
        return None
