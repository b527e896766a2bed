"""The files that outlive this process: each model's progress, and which ones Hearth pulled."""

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
    """Return the current time as RFC 3339 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_json(path: Path, value: Any) -> None:
    """Replace a file atomically: after a power cut, it is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model's progress. Bytes count all layers known so far; `percent` is 100 when ready.

    `failing_since` is the time of the first of the failures since the download last advanced.
    """

    state: str
    percent: int = 0
    completed_bytes: int = 0
    total_bytes: int = 0
    bytes_per_s: float = 0.0
    reason: str = ""
    digest: str | None = None
    retry_at: str | None = None
    failing_since: str | None = None


@dataclass(slots=True)
class ProgressFile:
    """progress.json: the status of each name of each model, and one note about all of them."""

    path: Path
    models: dict[str, ModelStatus] = field(default_factory=dict)
    note: str = ""

    def put(self, names: tuple[str, ...], status: ModelStatus) -> None:
        """Set the status of all names of a model, and log it if it has changed."""
        before = self.models.get(names[0])
        if before is None or (before.state, before.reason) != (status.state, status.reason):
            LOG.info("%s: %s%s", names[0], status.state, status.reason and f": {status.reason}")
        for name in names:
            self.models[name] = status

    def keep_only(self, names: set[str]) -> None:
        """Forget the models that are no longer wanted."""
        self.models = {name: status for name, status in self.models.items() if name in names}

    def set_note(self, note: str) -> None:
        """Set the note about all models, and log it if it has changed."""
        if note and note != self.note:
            LOG.warning("%s", note)
        self.note = note

    def load(self) -> None:
        """Read what the last process wrote; ignore a file that is missing or not valid."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            self.models = {name: ModelStatus(**raw) for name, raw in document["models"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.models = {}

    def write(self) -> None:
        """Write the file; if the disk is full, log that and continue."""
        models = {name: asdict(status) for name, status in self.models.items()}
        document = {"updated_at": now_text(), "note": self.note, "models": models}
        try:
            write_json(self.path, document)
        except OSError as error:
            LOG.error("%s: not written: %s", self.path, error.strerror)


# The state is "pulling" from before the first byte. A kill between Ollama's last byte and our
# "pulled" must not make our model look like one that a user pulled.
@dataclass(frozen=True, slots=True)
class PullRecord:
    """A model that Hearth pulls, pulled or refused; `before` is the digest at the start."""

    id: str
    state: str
    digest: str | None = None
    before: str | None = None
    wanted: str | None = None
    at: float = 0.0


class PullRecords:
    """pulled.json: the models that Hearth may remove. Every change is written at once."""

    def __init__(self, path: Path) -> None:
        """Read the file; an unreadable one is renamed, and none of its models is ever removed."""
        self.path = path
        self.by_key: dict[str, PullRecord] = {}
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            self.by_key = {key: PullRecord(**raw) for key, raw in document["models"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            renamed = path.with_name(f"{path.name}.unreadable")
            LOG.error("%s: unreadable (%s), kept as %s: nothing is removed", path, error, renamed)
            path.replace(renamed)

    def put(self, key: str, record: PullRecord) -> None:
        """Add or replace the record of one model."""
        if self.by_key.get(key) != record:
            self._write({**self.by_key, key: record})

    def drop(self, key: str) -> None:
        """Remove the record of one model."""
        if key in self.by_key:
            self._write({k: record for k, record in self.by_key.items() if k != key})

    def _write(self, records: dict[str, PullRecord]) -> None:
        document = {"models": {key: asdict(record) for key, record in records.items()}}
        try:
            write_json(self.path, document)
        except OSError as error:
            raise PullerError(f"{self.path}: not written: {error.strerror}; fix that") from error
        self.by_key = records
