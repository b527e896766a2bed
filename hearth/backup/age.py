"""Encrypt and decrypt streams in the format of age, and make the house's recovery key.

Only age's native keys are used: a recipient is `age1…`, its identity is `AGE-SECRET-KEY-1…`
(the format is described at https://age-encryption.org/v1).
"""

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from hearth.backup import BackupError

_MAGIC = b"age-encryption.org/v1"
# The format's lines are short; these are the sizes of its binary part.
_LINE_BYTES, _NONCE_BYTES, _PIECE_BYTES, _MARK_BYTES = 4096, 16, 2**16, 16


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


def fault(path: Path) -> str:
    """Return what is wrong with a file's form, as far as it shows without the key; else nothing.

    age encrypts pieces of 64 KiB, each with a mark of 16 bytes; a file that was cut inside of one
    or has no last piece is damaged.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as source:
            if source.readline(_LINE_BYTES).strip() != _MAGIC:
                return "it is not a file that age has encrypted"
            # Recipients, and last the header's own mark.
            while line := source.readline(_LINE_BYTES):
                if line.startswith(b"--- "):
                    break
            body = size - source.tell() - _NONCE_BYTES
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    whole, rest = divmod(body, _PIECE_BYTES + _MARK_BYTES)
    # Only the one piece of an empty file is empty.
    least = _MARK_BYTES if not whole else _MARK_BYTES + 1
    if not line or whole < 0 or (rest < least and (rest or not whole)):
        return f"it was cut off after {size:,} bytes"
    return ""


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


@contextlib.contextmanager
def decrypting(path: Path, identity: str) -> Iterator[IO[bytes]]:
    """Yield the decrypted content of a file as a stream; no file or argument holds the key.

    Each byte that is read is authenticated. The end of the file is checked at the end of the block.

    Raises:
        BackupError: a missing file, another format or key, or damage.
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
        failed: Exception | None = None

        def work() -> None:
            with open(writer, "wb") as sink:
                decrypt_io(source, sink, [x25519.Identity.from_str(identity)])

        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(work)
            try:
                with open(reader, "rb") as pipe:
                    yield pipe
                    while pipe.read(2**20):
                        pass
            except Exception as error:
                failed = error
            damage = ended.exception()
        # Its own error is the reason for what its reader misses; a pipe breaks when that one stops.
        if damage and not isinstance(damage, BrokenPipeError):
            if "No matching keys" in str(damage):
                raise BackupError(f"{path}: this key does not open it: it was made for another key")
            raise BackupError(f"{path}: damaged or cut short: use another backup")
        if failed:
            raise failed
