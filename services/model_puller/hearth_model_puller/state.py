"""Keeps what must outlive this process: how far each model is, and which ones Hearth pulled."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth_model_puller import PullerError

LOG = logging.getLogger("hearth_model_puller")

WAITING, PULLING, READY = "waiting", "pulling", "ready"
FAILED, TOO_BIG, MISSING = "failed", "too_big", "missing"
UNFINISHED = frozenset({WAITING, PULLING, FAILED})


def now_text() -> str:
    """Return this moment as RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, value: Any) -> None:
    """Replace a file whole: a reader, or a power cut, sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)


@dataclass(frozen=True, slots=True)
class Entry:
    """How far one model is. Bytes count all layers known so far; `percent` is 100 when ready."""

    state: str
    percent: int = 0
    completed_bytes: int = 0
    total_bytes: int = 0
    bytes_per_s: float = 0.0
    reason: str = ""
    digest: str | None = None
    retry_at: str | None = None


@dataclass(slots=True)
class Board:
    """progress.json: one entry for each name of each model, and one note about them all."""

    path: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    note: str = ""

    def put(self, names: tuple[str, ...], entry: Entry) -> None:
        """Note an entry under all names of a model, and log it when its state is new."""
        before = self.entries.get(names[0])
        if before is None or (before.state, before.reason) != (entry.state, entry.reason):
            LOG.info("%s: %s%s", names[0], entry.state, entry.reason and f": {entry.reason}")
        for name in names:
            self.entries[name] = entry

    def keep_only(self, names: set[str]) -> None:
        """Forget the models that are no longer wanted."""
        self.entries = {name: entry for name, entry in self.entries.items() if name in names}

    def say(self, note: str) -> None:
        """Note what holds for all models, and log it when it is new."""
        if note and note != self.note:
            LOG.warning("%s", note)
        self.note = note

    def load(self) -> None:
        """Take up what the last process knew; a file that cannot be read is as good as none."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            self.entries = {name: Entry(**entry) for name, entry in document["models"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.entries = {}

    def write(self) -> None:
        """Write the file as a whole; a full disk costs the news, not the work."""
        models = {name: asdict(entry) for name, entry in self.entries.items()}
        document = {"updated_at": now_text(), "note": self.note, "models": models}
        try:
            write_json(self.path, document)
        except OSError as error:
            LOG.error("%s: not written: %s", self.path, error.strerror)


# A record says "pulling" from before the first byte, so that a kill between Ollama's last byte and
# our "pulled" cannot make a model of ours look like somebody else's.
@dataclass(frozen=True, slots=True)
class Record:
    """One model that Hearth pulls, pulled or refused; `before` was on the disk at the start."""

    id: str
    state: str
    digest: str | None = None
    before: str | None = None
    wanted: str | None = None
    at: float = 0.0


class Ledger:
    """pulled.json: the models that are Hearth's to remove. Every change is on disk at once."""

    def __init__(self, path: Path) -> None:
        """Read the file; an unreadable one is put aside, and nothing in it is ever removed."""
        self.path = path
        self.records: dict[str, Record] = {}
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            self.records = {key: Record(**record) for key, record in document["models"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            aside = path.with_name(f"{path.name}.unreadable")
            LOG.error("%s: unreadable (%s), kept as %s: nothing is removed", path, error, aside)
            path.replace(aside)

    def put(self, key: str, record: Record) -> None:
        """Record one model."""
        if self.records.get(key) != record:
            self._write({**self.records, key: record})

    def drop(self, key: str) -> None:
        """Forget one model."""
        if key in self.records:
            self._write({k: record for k, record in self.records.items() if k != key})

    def _write(self, records: dict[str, Record]) -> None:
        document = {"models": {key: asdict(record) for key, record in records.items()}}
        try:
            write_json(self.path, document)
        except OSError as error:
            raise PullerError(f"{self.path}: not written: {error.strerror}; mend that") from error
        self.records = records
