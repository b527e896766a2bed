"""Whose key is this: constant time over all consumers."""

import hashlib
import hmac
from collections.abc import Mapping


class Keyring:
    """Knows digests of the keys only; the time of an answer tells nothing about any of them."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        """Take the consumers' keys: name to key."""
        self._digests = tuple((name, digest(key)) for name, key in keys.items())

    def owner(self, presented: str) -> str | None:
        """Return the consumer whose key this is; every digest is compared, found or not."""
        wanted = digest(presented)
        found: str | None = None
        for name, known in self._digests:
            if hmac.compare_digest(wanted, known):
                found = name
        return found


def digest(secret: str) -> bytes:
    """Return the SHA-256 of a secret: of one length, so comparing it hides the secret's length."""
    # A header may hold any byte; "surrogatepass" keeps even a broken text comparable.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
