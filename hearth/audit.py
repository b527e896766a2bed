"""The audit log of what agents ask of the house: one line of JSON per call, refusal and decision.

Several programs write it: the broker, its pages and `hearth approve`.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth.paths import AUDIT_LOG

ROTATE_BYTES, KEPT = 32 * 2**20, 4
VALUE_LENGTH, _ITEMS, _DEPTH = 200, 40, 6
# Below this the log is full: what cannot be written must not happen.
_FREE_BYTES = 2**20


class AuditError(Exception):
    """One line for a person: why the log cannot be written."""


def record(event: str, fields: Mapping[str, Any], path: Path = AUDIT_LOG) -> None:
    """Append one line; long values are cut, and a full log is rotated.

    Raises:
        AuditError: the line is not written.
    """
    entry = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
    line = json.dumps(entry | {name: shortened(value) for name, value in fields.items()})
    try:
        handle = _open_locked(path)
        try:
            _write(handle, line.encode() + b"\n")
        finally:
            os.close(handle)
    except OSError as error:
        raise AuditError(f"the audit log {path} cannot be written: {error.strerror}") from None


def check(path: Path = AUDIT_LOG) -> None:
    """Raise AuditError if the next line could not be written."""
    try:
        handle = _open(path)
        try:
            space = os.fstatvfs(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise AuditError(f"the audit log {path} cannot be written: {error.strerror}") from None
    if space.f_bavail * space.f_frsize < _FREE_BYTES:
        raise AuditError(f"the disk of the audit log {path} is full: free some space")


def create(path: Path = AUDIT_LOG) -> None:
    """Make an empty log if there is none, so that `no line` is told from `no log`; or OSError."""
    os.close(_open(path))


def shortened(value: Any, depth: int = 0) -> Any:
    """Return a JSON value whose texts have at most 200 characters, and not too many of them."""
    if isinstance(value, str):
        cut = f"{value[:VALUE_LENGTH]}… ({len(value)} characters)"
        return value if len(value) <= VALUE_LENGTH else cut
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < _DEPTH and isinstance(value, Mapping):
        items = list(value.items())
        kept = {
            str(shortened(str(name))): shortened(one, depth + 1) for name, one in items[:_ITEMS]
        }
        return kept | ({"…": f"{len(items)} entries"} if len(items) > _ITEMS else {})
    if depth < _DEPTH and isinstance(value, Sequence):
        kept_items = [shortened(one, depth + 1) for one in value[:_ITEMS]]
        return kept_items + ([f"… ({len(value)} entries)"] if len(value) > _ITEMS else [])
    return shortened(str(value))


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def _open_locked(path: Path) -> int:
    """Return the log, locked and with room for a line; another process may rotate it meanwhile."""
    while True:
        handle = _open(path)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not _is_current(handle, path):
            os.close(handle)
        elif os.fstat(handle).st_size >= ROTATE_BYTES:
            _rotate(path)
            os.close(handle)
        else:
            return handle


def _is_current(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _rotate(path: Path) -> None:
    for number in range(KEPT - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    path.replace(path.with_name(f"{path.name}.1"))


def _write(handle: int, line: bytes) -> None:
    # A full disk may take a part of a line.
    size = os.fstat(handle).st_size
    if (done := os.write(handle, line)) != len(line):
        os.ftruncate(handle, size)
        raise OSError(28, f"only {done} of {len(line)} bytes fit")
