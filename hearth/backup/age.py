"""Encrypt and decrypt streams in the format of age, and make the house's recovery key.

Only age's native keys are used: a recipient is `age1…`, its identity is `AGE-SECRET-KEY-1…`
(the format is described at https://age-encryption.org/v1).
"""

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

from hearth.backup import BackupError

_MAGIC = b"age-encryption.org/v1"


def new_key() -> tuple[str, str]:
    """Make a random key; return the identity (keep it secret) and its recipient."""
    from pyrage import x25519

    key = x25519.Identity.generate()
    return str(key), str(key.to_public())


def recipient_of(identity: str) -> str:
    """Return the recipient of an identity; BackupError when it is not a valid one."""
    from pyrage import IdentityError, x25519

    try:
        key = x25519.Identity.from_str(identity)
        # pyrage accepts lower case too; the program age does not.
        if str(key) == identity:
            return str(key.to_public())
    except IdentityError:
        pass
    raise BackupError(
        "this is not a valid recovery key: one starts with AGE-SECRET-KEY-1 and has 74 "
        "characters, and one of them is wrong or missing"
    )


def read_identity(text: str) -> str:
    """Find the recovery key in a text: the key alone, or a file as age-keygen writes it."""
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if len(found) != 1:
        raise BackupError("give one recovery key, a line that starts with AGE-SECRET-KEY-1")
    recipient_of(found[0])
    return found[0]


@contextlib.contextmanager
def encrypting(recipient: str, target: IO[bytes]) -> Iterator[IO[bytes]]:
    """Give a stream whose encrypted content goes into `target`, an open file.

    Raises:
        BackupError: the disk is full.
    """
    from pyrage import encrypt_io, x25519

    recipients = [x25519.Recipient.from_str(recipient)]
    reader, writer = os.pipe()
    broken: BaseException | None = None

    def work() -> None:
        with open(reader, "rb") as source:
            encrypt_io(source, target, recipients)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(work)
        try:
            with open(writer, "wb") as sink:
                yield sink
        except BrokenPipeError as error:
            broken = error
        # Its own error is the reason; a broken pipe is only the consequence.
        if failed := ended.exception() or broken:
            raise BackupError(f"writing failed: {str(failed).rpartition('] ')[2]}")


class Decrypted:
    """The decrypted content of a file; every error names the file."""

    def __init__(self, path: Path, pipe: IO[bytes], ended: Future[None]) -> None:
        self._path, self._pipe, self._ended = path, pipe, ended

    def read(self, size: int = -1) -> bytes:
        """Return decrypted bytes, each authenticated; none at the end, which is checked."""
        piece = self._pipe.read(size)
        if len(piece) < size or not piece:
            self.finish()
        return piece

    def finish(self) -> None:
        """Read to the end and raise when the file is damaged."""
        while self._pipe.read(2**20):
            pass
        if error := self._ended.exception():
            if "No matching keys" in str(error):
                raise BackupError(
                    f"{self._path}: this key does not open it: it was made for another key"
                )
            raise BackupError(f"{self._path}: damaged or cut short: use another backup")


@contextlib.contextmanager
def decrypting(path: Path, identity: str) -> Iterator[Decrypted]:
    """Yield the decrypted content of a file as a stream; no file or argument holds the key.

    Raises:
        BackupError: a missing file, another format or key, or damage (while it is read).
    """
    from pyrage import decrypt_io, x25519

    try:
        source = path.open("rb")
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from None
    with source:
        if source.read(len(_MAGIC)) != _MAGIC:
            raise BackupError(f"{path}: not a backup of a house: age did not encrypt it")
        source.seek(0)
        reader, writer = os.pipe()

        def work() -> None:
            with open(writer, "wb") as sink:
                decrypt_io(source, sink, [x25519.Identity.from_str(identity)])

        with ThreadPoolExecutor(1) as pool, open(reader, "rb") as pipe:
            yield Decrypted(path, pipe, pool.submit(work))
