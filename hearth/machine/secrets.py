"""The house's secrets: made at random on first use, kept in one ansible-vault file.

The vault is a mapping of name to value under the key `hearth_secrets`, as `ansible-vault view`
shows it; tasks read it with the lookup `house_secret`. The password file lies outside the
repository: this protects the repository and its backups, not a stolen disk.
"""

import functools
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import yaml

from hearth.catalogue import secret_rules
from hearth.files import LockHeldError, locked, write_atomic

KEY = "hearth_secrets"
Kind = Literal["random", "given"]

_NONE: Mapping[str, str] = MappingProxyType({})
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
# No characters that people confuse when reading aloud: i, l, o, 0, 1. 16 of them are 79 bits.
_TYPEABLE = "23456789abcdefghjkmnpqrstuvwxyz"


class SecretsError(Exception):
    """One line for a person: what is wrong with which file, and what to do."""


def make_random(name: str) -> str:
    """Make a secret for `name`: 32 random bytes, or one that people can type for a `_password`."""
    if name.endswith("_password"):
        groups = ("".join(secrets.choice(_TYPEABLE) for _ in range(4)) for _ in range(4))
        return "-".join(groups)
    return secrets.token_urlsafe(32)


def _refuse(problems: Iterable[str | None]) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise SecretsError("\n".join(found))


def _missing(
    values: Mapping[str, str], names: Mapping[str, Kind], needed: Mapping[str, str]
) -> list[str]:
    """Return the missing random secrets, after checking the others."""
    wrong = (secret_rules.weak(name, values[name]) for name in names if name in values)
    _refuse([*wrong, *secret_rules.missing(values, needed)])
    return sorted(n for n, kind in names.items() if kind == "random" and n not in values)


# A fifth of a second each; Ansible forks for each task, and its tasks share this cache.
@functools.lru_cache(maxsize=2)
def _opened(encrypted: bytes, password: bytes) -> bytes:
    from ansible.parsing.vault import VaultLib, VaultSecret

    plain: bytes = VaultLib([("default", VaultSecret(password))]).decrypt(encrypted)
    return plain


@dataclass(frozen=True, slots=True)
class Vault:
    """One ansible-vault file and the password file that opens it."""

    path: Path
    password_file: Path

    def ensure(
        self,
        names: Mapping[str, Kind],
        needed: Mapping[str, str] = _NONE,
        *,
        write: bool = True,
    ) -> list[str]:
        """Make every missing random secret; return the names of those made, sorted.

        A `given` one stays absent until `set` is called; an existing one is never changed. If one
        of `needed` (a given one to its service) is missing or one is easily guessed, none is made:
        SecretsError has one line for each. Without `write` none is made either.
        """
        if not write:
            return _missing(self.values(), names, needed)
        with self._change() as values:
            missing = _missing(values, names, needed)
            for name in missing:
                values[_checked_name(name)] = make_random(name)
        return missing

    def values(self) -> dict[str, str]:
        """Return all secrets by name; empty when the house has none yet."""
        try:
            encrypted = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except PermissionError:
            raise _not_yours(self.path) from None
        return _parse(self._decrypt(encrypted), self.path)

    def names(self) -> frozenset[str]:
        """Return the names of all secrets that have a value."""
        return frozenset(self.values())

    def get(self, name: str) -> str:
        """Return the value of `name`; the SecretsError tells how to set it."""
        try:
            return self.values()[name]
        except KeyError:
            raise SecretsError(
                f"{self.path}: secret {name} has no value: set it with `hearth secret set {name}`"
            ) from None

    def set(self, name: str, value: str) -> None:
        """Give `name` a value; the white space that pasting leaves around it is dropped."""
        value = value.strip()
        if value:
            _refuse([secret_rules.weak(name, value)])
        self.update({name: value})

    def update(self, new: Mapping[str, str]) -> None:
        """Write several secrets at once, all or none, without changing them."""
        for name, value in new.items():
            _checked_name(name)
            if not value or "\0" in value:
                raise SecretsError(f"secret {name}: an empty value or a NUL: give it a value")
        _refuse(secret_rules.public(name, value) for name, value in new.items())
        with self._change() as values:
            values.update(new)

    def remove(self, name: str) -> None:
        """Remove `name`, if it is there."""
        with self._change() as values:
            values.pop(name, None)

    @contextmanager
    def _change(self) -> Iterator[dict[str, str]]:
        """Yield the secrets under the lock; write them back if they changed."""
        self.password_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # Beside the password, not beside the vault: git never sees it there.
            with locked(self.password_file.with_name(f"{self.password_file.name}.lock")):
                values = self.values()
                before = dict(values)
                yield values
                if values != before:
                    write_atomic(self.path, self._encrypt(values), 0o600)
        except LockHeldError as error:
            raise SecretsError(str(error)) from None

    def _encrypt(self, values: Mapping[str, str]) -> bytes:
        from ansible.parsing.vault import VaultLib, VaultSecret  # 0.3 s, so imported late

        if not self.password_file.exists():
            self._make_password()
        plain = yaml.safe_dump({KEY: values}, allow_unicode=True)
        secret = VaultSecret(self._password())
        encrypted: bytes = VaultLib().encrypt(plain, secret=secret)
        return encrypted

    def _decrypt(self, encrypted: bytes) -> str:
        from ansible.errors import AnsibleError
        from ansible.parsing.vault import is_encrypted

        if not is_encrypted(encrypted):
            raise SecretsError(
                f"{self.path}: this is not an ansible-vault file: put it back from a backup, "
                "or move it away and every secret is made again"
            )
        try:
            plain = _opened(encrypted, self._password())
        # A cut file fails in the decoder before Ansible looks at it.
        except (AnsibleError, ValueError, IndexError):
            raise SecretsError(
                f"{self.path}: the password in {self.password_file} does not open it (another "
                "password, or a damaged file): restore both files from the same backup"
            ) from None
        return plain.decode()

    def _make_password(self) -> None:
        repository = _repository(self.password_file)
        if repository and repository == _repository(self.path):
            raise SecretsError(
                f"{self.password_file}: the vault's password would lie in the repository of the "
                "vault it opens: name a file outside, e.g. ~/.config/hearth/vault-password"
            )
        write_atomic(self.password_file, f"{secrets.token_urlsafe(32)}\n".encode(), 0o600)

    def _password(self) -> bytes:
        try:
            handle = os.open(self.password_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SecretsError(
                f"{self.password_file}: the password of {self.path} is missing: put this file back "
                "from a backup, or move the vault away and every secret is made again"
            ) from None
        except PermissionError:
            raise _not_yours(self.password_file) from None
        with os.fdopen(handle, "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode & 0o777
            content = stream.read().strip()
        # An executable one would be run by Ansible, not read.
        if mode & 0o177:
            raise SecretsError(
                f"{self.password_file}: other users have access to the vault's password "
                f"(mode {mode:04o}): run `chmod 600 {self.password_file}`"
            )
        if not content:
            raise SecretsError(
                f"{self.password_file}: the vault's password file is empty: put it back from a "
                f"backup, or remove it together with {self.path}"
            )
        return content


def _not_yours(path: Path) -> SecretsError:
    return SecretsError(f"{path}: only its owner may read this: put `sudo` before the command")


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SecretsError(f"secret {name!r}: use only lower-case letters, digits, _ and -")
    return name


def _repository(path: Path) -> Path | None:
    return next((p for p in path.resolve().parents if (p / ".git").exists()), None)


def _parse(plain: str, path: Path) -> dict[str, str]:
    """Return the mapping in the vault's text; SecretsError when an edit made it something else."""
    try:
        loaded = yaml.safe_load(plain)
    except yaml.YAMLError as error:
        # The parser's text quotes the line, which is a secret.
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise SecretsError(f"{path}: not YAML inside{where}: `ansible-vault edit` it") from None
    values = loaded.get(KEY) if isinstance(loaded, dict) else None
    if not isinstance(values, dict) or set(loaded) != {KEY}:
        raise SecretsError(
            f"{path}: it must hold one mapping, {KEY}, of names to values: `ansible-vault edit` it"
        )
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SecretsError(
                f"{path}: secret {name} is not text: quote its value with `ansible-vault edit`"
            )
    return values
