"""The login's three secrets, which systemd provides as files, and the check of keys."""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from .config import LoginError

# A correct key is accepted however many wrong ones came from its address (see check.py), which is
# safe only for keys that are too long to guess; the random ones have 32 bytes and more.
KEY_LENGTH = 24
PASSWORD_LENGTH = 12
COOKIE_SECRET_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secrets; `repr` omits every value."""

    consumer_keys: Mapping[str, str] = field(repr=False)
    house_password: str = field(repr=False)
    cookie_secret: str = field(repr=False)


def load_credentials(folder: Path, consumers: Iterable[str]) -> Credentials:
    """Read the secrets of `folder`; every consumer must have a key of its own.

    Keys of names that are not (or no longer) consumers are dropped.
    """
    return Credentials(
        consumer_keys=_keys(folder / "consumer_keys", consumers),
        house_password=_secret(folder / "house_password", PASSWORD_LENGTH),
        cookie_secret=_secret(folder / "cookie_secret", COOKIE_SECRET_LENGTH),
    )


def _keys(path: Path, consumers: Iterable[str]) -> Mapping[str, str]:
    try:
        raw = json.loads(_read(path))
    except ValueError:
        # The parser's own message quotes what it read.
        raise LoginError(f"{path}: is not JSON; write a mapping of names to keys") from None
    if not isinstance(raw, dict):
        raise LoginError(f"{path}: must be a mapping of names to keys")
    keys: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name in consumers:
        key = raw.get(name)
        if not isinstance(key, str) or len(key) < KEY_LENGTH:
            raise LoginError(f"{path}: {name} needs a key of {KEY_LENGTH} characters or more")
        if owners.setdefault(key, name) != name:
            raise LoginError(f"{path}: {owners[key]} and {name} have the same key; make a new one")
        keys[name] = key
    return MappingProxyType(keys)


def _secret(path: Path, length: int) -> str:
    value = _read(path).strip()
    if len(value) < length:
        raise LoginError(f"{path}: must have {length} characters or more")
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LoginError(
            f"{path}: cannot be read ({error.strerror}); systemd's LoadCredential= provides it"
        ) from None
    except UnicodeDecodeError:
        raise LoginError(f"{path}: is not UTF-8 text; write it again") from None


class Keyring:
    """Digests of the keys; the response time reveals nothing about any key."""

    def __init__(self, keys: Mapping[str, str]) -> None:
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
    """Return the SHA-256 of a secret: its fixed length hides the secret's own in comparisons."""
    # A header may contain any byte; "surrogatepass" keeps even invalid text comparable.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
