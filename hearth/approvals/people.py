"""The people who may approve: their passkeys, and one-time codes that let them enrol one.

A code comes from root's terminal only. What it proves is kept as a digest.
"""

import contextlib
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hearth.approvals import ApprovalError
from hearth.files import locked, write_atomic
from hearth.machine.secrets import make_random
from hearth.paths import APPROVALS

CODE_S = 600
_TRIES = 10
_PASSKEYS, _CODE, _LOCK = "passkeys.list", "code.one", ".people.lock"
_NAME_LENGTH = 40
_MOST = 50


@dataclass(frozen=True, slots=True)
class Passkey:
    """One passkey of a person; texts are base64url. `count` is the authenticator's counter."""

    name: str
    id: str
    public_key: str
    count: int
    made: int


@dataclass(frozen=True, slots=True)
class Code:
    """The code that is valid now: whom it enrols, its digest, and the challenge to sign."""

    name: str
    digest: str
    challenge: str
    expires: int
    tries: int = 0


_LIST = TypeAdapter(list[Passkey])
_ONE = TypeAdapter(Code)


class People:
    """The passkeys of a house, in a folder that only root can read."""

    def __init__(self, folder: Path = APPROVALS, clock: Callable[[], float] = time.time) -> None:
        self.folder, self._clock = folder, clock

    def passkeys(self) -> list[Passkey]:
        """Return all passkeys; ApprovalError if their file is damaged."""
        path = self.folder / _PASSKEYS
        try:
            return _LIST.validate_json(path.read_bytes())
        except FileNotFoundError:
            return []
        except ValidationError:
            raise ApprovalError(f"{path}: damaged: remove it, and enrol everybody again") from None

    def invite(self, name: str) -> str:
        """Return a new code with which this person enrols a passkey; an older one ends."""
        shown = " ".join(name.split())
        if not shown.isprintable() or not 0 < len(shown) <= _NAME_LENGTH:
            raise ApprovalError(f"a person's name has 1 to {_NAME_LENGTH} visible characters")
        code = make_random("enrolment_password")
        expires = int(self._clock()) + CODE_S
        with self._changing():
            self._write(_CODE, asdict(Code(shown, _digest(code), secrets.token_hex(32), expires)))
        return code

    def invited(self, code: str) -> Code:
        """Return what this code is for.

        Raises:
            ApprovalError: it is wrong, too old or used; ten wrong ones end it.
        """
        with self._changing():
            return self._checked(code)

    def enrol(self, code: str, passkey: Callable[[Code], Passkey]) -> Passkey:
        """Use up a code for the passkey that this function verifies, and return that."""
        with self._changing():
            made = passkey(self._checked(code))
            known = self.passkeys()
            if made.id in {one.id for one in known}:
                raise ApprovalError("this passkey is enrolled already")
            if len(known) >= _MOST:
                raise ApprovalError(f"{_MOST} passkeys are enrolled: forget one first")
            (self.folder / _CODE).unlink()
            self._write(_PASSKEYS, [asdict(one) for one in [*known, made]])
        return made

    def counted(self, id_: str, verify: Callable[[Passkey], int]) -> Passkey:
        """Return the passkey of this ID after `verify`, which returns its new counter.

        One at a time: of two copies of an assertion, the second sees the first one's counter.
        """
        with self._changing():
            known = self.passkeys()
            found = next((one for one in known if one.id == id_), None)
            if found is None:
                raise ApprovalError("this passkey is not enrolled here")
            new = replace(found, count=verify(found))
            self._write(_PASSKEYS, [asdict(new if one is found else one) for one in known])
        return new

    def forget(self, name: str) -> int:
        """Remove the passkeys of a person, and return how many there were."""
        with self._changing():
            known = self.passkeys()
            left = [one for one in known if one.name != name]
            self._write(_PASSKEYS, [asdict(one) for one in left])
        return len(known) - len(left)

    def _checked(self, code: str) -> Code:
        path = self.folder / _CODE
        wrong = ApprovalError("this code is wrong, used or older than ten minutes: make a new one")
        try:
            known = _ONE.validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            raise wrong from None
        if self._clock() >= known.expires or known.tries >= _TRIES:
            path.unlink()
            raise wrong
        if not hmac.compare_digest(_digest(code.strip()), known.digest):
            self._write(_CODE, asdict(replace(known, tries=known.tries + 1)))
            raise wrong
        return known

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.folder / _LOCK, 10):
            yield

    def _write(self, name: str, value: object) -> None:
        write_atomic(self.folder / name, json.dumps(value).encode(), 0o600)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()
