"""Encrypt and decrypt streams with the program `age`, and make the house's recovery key.

Only age's native keys are used: a recipient is `age1…`, its identity is `AGE-SECRET-KEY-1…`
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


class _Input:
    """The input of age; once `closed`, further writes are dropped."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self.closed = pipe, False

    def write(self, data: bytes) -> int:
        if not self.closed:
            self._pipe.write(data)
        return len(data)


@contextlib.contextmanager
def encrypting(recipient: str, target: IO[bytes]) -> Iterator[_Input]:
    """Give a stream whose encrypted content goes into `target`, an open file.

    Raises:
        BackupError: age is not installed, or the disk is full.
    """
    with _age("--encrypt", "--recipient", recipient, stdout=target) as process:
        assert process.stdin is not None  # noqa: S101 - for mypy: PIPE makes one
        stream = _Input(process.stdin)
        try:
            yield stream
            process.stdin.close()
        except BrokenPipeError:
            # age ended first; its error output has the reason.
            raise BackupError(f"writing failed: {_error_line(process)}") from None
        finally:
            # A tar that was abandoned half-way still writes its end.
            stream.closed = True
        if process.wait(_WAIT_S):
            raise BackupError(f"writing failed: {_error_line(process)}")


class Decrypted:
    """The output of a running age; every error names the file."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - for mypy: PIPE makes one
        self._path, self._process, self._output = path, process, process.stdout

    def read(self, size: int = -1) -> bytes:
        """Return decrypted bytes, each authenticated; none at the end, which is checked."""
        piece = self._output.read(size)
        if len(piece) < size or not piece:
            self.finish()
        return piece

    def finish(self) -> None:
        """Read to the end and raise when age found damage."""
        while self._output.read(2**20):
            pass
        if self._process.wait(_WAIT_S):
            if "no identity matched" in _error_line(self._process):
                raise BackupError(f"{self._path}: this key does not open it: it has another key")
            raise BackupError(f"{self._path}: damaged or cut short: use another backup")


@contextlib.contextmanager
def decrypting(path: Path, identity: str) -> Iterator[Decrypted]:
    """Yield the decrypted content of a file as a stream; no file or argument holds the key.

    Raises:
        BackupError: a missing file, another format or key, or damage (while it is read).
    """
    try:
        source = path.open("rb", buffering=0)
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from None
    with source:
        if source.read(len(MAGIC)) != MAGIC:
            raise BackupError(f"{path}: not a backup of a house: age did not encrypt it")
        source.seek(0)
        reader, writer = os.pipe()
        try:
            # It fits into the pipe's buffer, so it does not wait for a reader.
            os.write(writer, f"{identity}\n".encode())
            os.close(writer)
            arguments = ("--decrypt", "--identity", f"/dev/fd/{reader}")
            with _age(*arguments, stdin=source, pass_fds=(reader,)) as process:
                yield Decrypted(path, process)
        finally:
            os.close(reader)


def _error_line(process: subprocess.Popen[bytes]) -> str:
    """Return age's error in one line without its prefix."""
    text = process.stderr.read().decode(errors="replace") if process.stderr else ""
    lines = [line.removeprefix("age: ").removeprefix("error: ") for line in text.splitlines()]
    return next((line for line in lines if line and "report" not in line), "age gave no reason")


@contextlib.contextmanager
def _age(
    *arguments: str,
    stdin: IO[bytes] | int = subprocess.PIPE,
    stdout: IO[bytes] | int = subprocess.PIPE,
    pass_fds: tuple[int, ...] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run age; leave no process behind, whatever happens."""
    program = shutil.which("age")
    if program is None:
        raise BackupError("the program age is not installed: run `sudo apt-get install age`")
    process = subprocess.Popen(  # noqa: S603 - fixed words and a checked recipient
        [program, *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(_WAIT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
