"""The login's three secrets, handed in by systemd as files."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from .errors import LoginError

# A right key is let in however many wrong ones came from the same address (see keys.py), which is
# safe only for keys that nobody can guess at line speed; the random ones have 32 bytes and more.
KEY_LENGTH = 24
PASSWORD_LENGTH = 12
COOKIE_SECRET_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """What must never be shown: `repr` leaves every value out."""

    consumer_keys: Mapping[str, str] = field(repr=False)
    house_password: str = field(repr=False)
    cookie_secret: str = field(repr=False)


def load_credentials(folder: Path, consumers: Iterable[str]) -> Credentials:
    """Read the secrets of `folder`; every consumer must have a key of its own.

    Keys of names that are no consumer (any more) are left out: they open nothing.
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
            raise LoginError(f"{path}: {owners[key]} and {name} have the same key; make one anew")
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
            f"{path}: cannot be read ({error.strerror}); systemd's LoadCredential= puts it there"
        ) from None
    except UnicodeDecodeError:
        raise LoginError(f"{path}: is not UTF-8 text; write it anew") from None
