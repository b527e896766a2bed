"""Encrypt and decrypt streams with the program `age`, and make the house's recovery key.

Only keys of age's own kind are used: a recipient is `age1…`, what opens is `AGE-SECRET-KEY-1…`
(the format is described at https://age-encryption.org/v1).
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hearth.backup import BackupError

MAGIC = b"age-encryption.org/v1"
_WAIT_S = 60


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
        # pyrage takes small letters too; the program age does not.
        if str(key) == identity:
            return str(key.to_public())
    except IdentityError:
        pass
    raise BackupError(
        "this is not a valid recovery key: one starts with AGE-SECRET-KEY-1 and has 74 "
        "characters, and one of them is wrong or missing"
    )


def read_identity(text: str) -> str:
    """Find the recovery key in what a person gave: the key, or a file as age-keygen writes it."""
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if len(found) != 1:
        raise BackupError("give one recovery key, a line that begins with AGE-SECRET-KEY-1")
    recipient_of(found[0])
    return found[0]


class _Sink:
    """The way into age; once that is over, nobody minds what else is written."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self.over = pipe, False

    def write(self, data: bytes) -> int:
        if not self.over:
            self._pipe.write(data)
        return len(data)


@contextlib.contextmanager
def encrypting(recipient: str, target: IO[bytes]) -> Iterator[_Sink]:
    """Give a stream whose encrypted content goes into `target`, an open file.

    Raises:
        BackupError: age is not there, or the disk is full.
    """
    argv = [_program(), "--encrypt", "--recipient", recipient]
    process = subprocess.Popen(  # noqa: S603 - fixed words and a checked recipient
        argv, stdin=subprocess.PIPE, stdout=target, stderr=subprocess.PIPE
    )
    assert process.stdin is not None  # noqa: S101 - for mypy: PIPE makes one
    sink = _Sink(process.stdin)
    with _ended(process):
        try:
            yield sink
            process.stdin.close()
        except BrokenPipeError:
            # age ended first; it says why.
            raise BackupError(f"writing failed: {_words(process)}") from None
        finally:
            # A tar that was given up half-way still wants to write its end.
            sink.over = True
        if process.wait(_WAIT_S):
            raise BackupError(f"writing failed: {_words(process)}")


class Decrypted:
    """What comes out of age; every refusal names the file."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        """Take the running age."""
        self._path, self._process = path, process

    def read(self, size: int = -1) -> bytes:
        """Return decrypted bytes, each authenticated; none at the end, which is checked."""
        assert self._process.stdout is not None  # noqa: S101 - for mypy: PIPE makes one
        piece = self._process.stdout.read(size)
        if len(piece) < size or not piece:
            self.finish()
        return piece

    def finish(self) -> None:
        """Read to the end and raise when age found damage."""
        assert self._process.stdout is not None  # noqa: S101 - for mypy: PIPE makes one
        while self._process.stdout.read(2**20):
            pass
        if self._process.wait(_WAIT_S):
            words = _words(self._process)
            if "no identity matched" in words:
                raise BackupError(f"{self._path}: this key does not open it: it has another one")
            raise BackupError(f"{self._path}: damaged or cut short: take another backup")


@contextlib.contextmanager
def decrypting(path: Path, identity: str) -> Iterator[Decrypted]:
    """Give the decrypted content of a file as a stream; the key stands in no file or argument.

    Raises:
        BackupError: no such file, none of age's, another key, or damage (while it is read).
    """
    try:
        source = path.open("rb", buffering=0)
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from None
    with source:
        if source.read(len(MAGIC)) != MAGIC:
            raise BackupError(f"{path}: no backup of a house: age did not encrypt it")
        source.seek(0)
        reader, writer = os.pipe()
        try:
            # Below what a pipe holds, so nobody has to read yet.
            os.write(writer, f"{identity}\n".encode())
            os.close(writer)
            process = subprocess.Popen(  # noqa: S603 - fixed words
                [_program(), "--decrypt", "--identity", f"/dev/fd/{reader}"],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(reader,),
            )
        finally:
            os.close(reader)
        with _ended(process):
            yield Decrypted(path, process)


def _words(process: subprocess.Popen[bytes]) -> str:
    """Return what age said, in one line without its prefix."""
    said = process.stderr.read().decode(errors="replace") if process.stderr else ""
    lines = [line.removeprefix("age: ").removeprefix("error: ") for line in said.splitlines()]
    return next((line for line in lines if line and "report" not in line), "age gave no reason")


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave no process behind, whatever happens."""
    try:
        yield
    finally:
        process.kill()
        process.wait(_WAIT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _program() -> str:
    found = shutil.which("age")
    if found is None:
        raise BackupError("the program age is not installed here: say `sudo apt-get install age`")
    return found
